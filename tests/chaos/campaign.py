"""The scheduler: shares the time among scenarios, and goes on after failures."""

import shutil
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.chaos.commands import kill_remaining
from tests.chaos.outcome import Outcome, Scenario, Unavailable, Unit

__all__ = ["Entry", "replay_command", "run_campaign"]

SHARES: Mapping[Unit, float] = {"kills": 4.0, "inputs": 4.0, "faults": 1.0, "requests": 1.0}
"""How much time the scenarios of each unit get, compared with the others of the same weight."""

MOST_IDLE = 6
"""Attempts of a scenario of which one must disturb something: some come too late."""


@dataclass(eq=False)
class Entry:
    """A scenario, and what came of it so far."""

    scenario: Scenario
    attempts: int = 0
    total: Outcome = field(default_factory=Outcome)
    seconds: float = 0.0
    failures: list[tuple[int, Outcome]] = field(default_factory=list)
    """The seed and the outcome of each failed attempt."""
    unavailable: str = ""
    prepared: bool = False
    broken: bool = False
    """Its preparation failed, so there is nothing to compare with."""

    @property
    def due(self) -> float:
        """The smaller, the sooner it is this scenario's turn."""
        return self.seconds / (self.scenario.weight * SHARES[self.scenario.unit])

    def fail(self, seed: int, outcome: Outcome) -> None:
        """Note a failed attempt."""
        self.total += outcome
        self.failures.append((seed, outcome))


def replay_command(name: str, seed: int) -> str:
    """The command that makes one attempt again."""
    return f"python -m tests.chaos --only {name} --seed {seed} --attempts 1"


def run_campaign(
    chosen: Sequence[Scenario],
    folder: Path,
    *,
    seed: int,
    seconds: float,
    attempts: int | None = None,
    jobs: int = 1,
    say: Callable[[str], None] = print,
) -> list[Entry]:
    """Make attempts until the time is over, of each scenario at least one that disturbs something.

    Attempt ``n`` of a scenario has the seed ``seed + n``. A scenario makes one attempt at a time;
    ``jobs`` scenarios do so together. Scenarios with a share of the time come last, one by one.

    Args:
        chosen: The scenarios.
        folder: For references and attempts.
        seed: Of the first attempts.
        seconds: The time; what has begun by then is brought to its end.
        attempts: At most so many of each.
        jobs: How many scenarios are at work together.
        say: Prints a line.
    """
    entries = [Entry(scenario) for scenario in chosen]
    alone = [entry for entry in entries if entry.scenario.share]
    shares = sum(entry.scenario.share for entry in alone)
    if len(alone) < len(entries):
        shares = max(1.0, shares)
    for entry in alone:
        entry.scenario.seconds = seconds * entry.scenario.share / shares
    until = time.monotonic() + seconds - sum(entry.scenario.seconds for entry in alone)
    lock = threading.Lock()

    def line(text: str) -> None:
        with lock:
            say(text)

    def more(entry: Entry) -> bool:
        if entry.unavailable or entry.broken:
            return False
        if attempts is not None and entry.attempts >= attempts:
            return False
        idle = not entry.total.done and not entry.failures and entry.attempts < MOST_IDLE
        return not entry.attempts or idle or time.monotonic() < until

    try:
        with ThreadPoolExecutor(jobs) as threads:
            waiting = [entry for entry in entries if entry not in alone]
            running = dict[Future[None], Entry]()
            while running or waiting:
                waiting.sort(key=lambda entry: (entry.attempts > 0, entry.due))
                while waiting and len(running) < jobs:
                    entry = waiting.pop(0)
                    if more(entry):
                        running[threads.submit(_attempt, entry, folder, seed, line)] = entry
                for ended in wait(running, return_when=FIRST_COMPLETED).done:
                    ended.result()
                    waiting.append(running.pop(ended))
        for entry in alone:
            _attempt(entry, folder, seed, line)
        for entry in entries if attempts is None else ():
            if entry.attempts and not entry.total.done and not entry.failures:
                reason = "no attempt disturbed anything"  # so none has shown anything
                entry.fail(seed, Outcome(wrong=1, problems=(reason,)))
                line(f"{entry.scenario.name}: FAILED\n  {reason}")
    finally:
        for entry in entries:
            entry.scenario.close()
    return entries


def _attempt(entry: Entry, folder: Path, seed: int, say: Callable[[str], None]) -> None:
    """One attempt, after the preparation if it is the first."""
    scenario, begun = entry.scenario, time.monotonic()
    place = folder / f"{scenario.name}-{entry.attempts}"
    this = seed + entry.attempts
    try:
        if not entry.prepared:
            home = folder / scenario.name
            home.mkdir(parents=True)
            scenario.prepare(home)
            entry.prepared = True
        place.mkdir(parents=True)
        outcome = scenario.attempt(Random(this), place)
    except Unavailable as reason:
        entry.unavailable = str(reason)
        say(f"{scenario.name}: cannot run here: {reason}")
        return
    except Exception:  # the campaign resumes with the next, and this counts as a failure
        outcome = Outcome(wrong=1, problems=(traceback.format_exc(),))
        entry.broken = not entry.prepared
    left = tuple(f"still running: {command}" for command in kill_remaining(place))
    outcome += Outcome(wrong=len(left), problems=left)
    shutil.rmtree(place, ignore_errors=True)
    entry.attempts += 1
    entry.seconds += time.monotonic() - begun
    state = "FAILED" if outcome.failed else "ok"
    say(f"{scenario.name} seed {this}: {outcome.done} {scenario.unit}, {state}")
    if not outcome.failed:
        entry.total += outcome
        return
    entry.fail(this, outcome)
    say("\n".join(f"  {problem}" for problem in outcome.problems))
    say(f"  again: {replay_command(scenario.name, this)}")
