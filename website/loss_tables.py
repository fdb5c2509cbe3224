"""The tables of docs/losses.md, written from the docstrings and declarations of the losses.

python -m website.loss_tables      # make loss-tables, after a loss is added or changed
"""

import inspect
import re
from collections.abc import Sequence
from pathlib import Path

from lookalike.losses import Loss, Tuned, tuned
from lookalike.registry import LOSSES, Entry
from lookalike.report import catalogue

PAGE = Path(__file__).parents[1] / "docs" / "losses.md"
CODE = re.compile(r"``(.+?)``", re.DOTALL)


def formula_of(entry: Entry) -> str:
    """The formula in the docstring of a loss: the first code that has a sum or a bracket."""
    spans = [" ".join(span.split()) for span in CODE.findall(inspect.getdoc(entry.build) or "")]
    formulas = [span for span in spans if " " in span and re.search(r"[(\[]|sum", span)]
    text = re.sub(r"\|([A-Z]\+?)\|", r"#\1", next(iter(formulas), ""))
    return re.sub(r"\|(\w+)\|", r"norm(\1)", text)  # a table has no other bars


def loss_tables() -> dict[str, str]:
    """The tables below the markers of the page: formulas, papers with defaults, tuned settings."""
    shared = set(inspect.signature(Loss).parameters) | {
        name
        for name, one in inspect.signature(LOSSES.find("proxy-anchor").build).parameters.items()
        if one.kind is one.KEYWORD_ONLY
    }
    formulas: list[tuple[str, ...]] = []
    papers: list[tuple[str, ...]] = []
    for entry in LOSSES.entries():
        if not entry.build.__module__.startswith("lookalike."):
            continue
        mixes = "yes" if getattr(entry.build, "additive", False) else ""
        about = entry.summary.replace("|", "/")
        code = f"`{formula_of(entry)}`" if formula_of(entry) else ""
        formulas.append((entry.name, f"`{entry.build.__name__}`", about, code, mixes))
        defaults = catalogue.page("losses", entry.name).defaults
        arguments = ", ".join(
            f"`{name}`" if value == "required" else f"`{name}={value}`"
            for name, value in defaults.items()
            if name not in shared | {"label_comparison"}
        )
        paper = f"[{entry.paper}]({entry.url})" if entry.url else entry.paper
        papers.append((entry.name, paper, arguments))
    tuned_rows = [
        (name, one.dataset, _settings(one), one.source)
        for name in LOSSES.names()
        for one in tuned(name)
    ]
    return {
        "formulas": _rows(("name", "class", "what it does", "formula", "mixes"), formulas),
        "papers": _rows(("loss", "paper", "arguments and defaults"), papers),
        "tuned": _rows(("loss", "data set", "settings", "source"), tuned_rows),
    }


def with_tables(page: str) -> str:
    """The page with each table below its marker written anew."""
    for name, rows in loss_tables().items():
        marker = f"<!-- {name}: make loss-tables -->\n"
        before, found, after = page.partition(marker)
        assert found, f"there is no marker {marker}"
        page = before + marker + rows + re.sub(r"\A(?:\|.*\n)*", "", after)
    return page


def _settings(one: Tuned) -> str:
    return ", ".join(f"`{key}={value}`" for key, value in {**one.values, **one.beside}.items())


def _rows(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def main() -> None:
    """Write the page."""
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
