"""The table of a campaign, and its place in docs/reliability.md."""

import os
import re
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.campaign import Entry
from tests.chaos.outcome import Outcome

__all__ = ["PAGE", "table", "write"]

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- chaos: begin -->", "<!-- chaos: end -->"
HEAD = ("scenario", "attempts", "disturbed by", "wrong results", "lost or twice", "tracebacks", "")


def table(entries: Sequence[Entry]) -> str:
    """What came of every scenario, and the sums, as a table of Markdown."""
    rows: list[tuple[str, ...]] = [HEAD, tuple("---" if n in (0, 6) else "---:" for n in range(7))]
    for entry in entries:
        total, unit = entry.total, entry.scenario.unit
        remark = entry.unavailable and f"did not run: {entry.unavailable}"
        rows.append(
            (
                f"`{entry.scenario.name}`",
                f"{entry.attempts:,}",
                f"{total.done:,} {unit}",
                *(f"{count:,}" for count in (total.wrong, total.lost, total.tracebacks)),
                remark or entry.scenario.remark(),
            )
        )
    done: Counter[str] = Counter()
    for entry in entries:
        done[entry.scenario.unit] += entry.total.done
    total = sum((entry.total for entry in entries), Outcome())
    sums = (
        *("all", f"{sum(entry.attempts for entry in entries):,}"),
        ", ".join(f"{number:,} {unit}" for unit, number in done.items() if number),
        *(f"{count:,}" for count in (total.wrong, total.lost, total.tracebacks)),
    )
    rows.append((*(f"**{text}**" for text in sums), ""))
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def write(
    entries: Sequence[Entry], command: str, seed: int, minutes: float, page: Path = PAGE
) -> None:
    """Put the table between the two marks of the page, with where it comes from."""
    text = page.read_text(encoding="utf-8")
    about = (
        f"`{command}` with seed {seed} took {minutes:.0f} minutes on "
        f"{time.strftime('%Y-%m-%d', time.gmtime())}, on {machine()}, at commit `{commit()}`."
    )
    made = f"{BEGIN}\n{about}\n\n{table(entries)}\n{END}"
    changed, found = re.subn(
        f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: made, text, flags=re.DOTALL
    )
    if found != 1:
        raise ValueError(f"'{page.name}' must have the marks {BEGIN} and {END} once")
    page.write_text(changed, encoding="utf-8")


def machine() -> str:
    """The kind of machine, in general words."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores and {memory:.0f} GB of memory"


def commit() -> str:
    """The commit of this tree, with a plus if files were changed since."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True)
        return done.stdout.strip()

    changed = "+" if git("status", "--porcelain", "--untracked-files=no") else ""
    return (git("rev-parse", "--short", "HEAD") or "unknown") + changed
