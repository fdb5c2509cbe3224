"""The driver: hands out the work of a study until there is none left."""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from lookalike.progress import Watcher
from lookalike.study.config import StudyConfig
from lookalike.study.ledger import LEASE_SECONDS, Ledger
from lookalike.study.mirror import Mirror
from lookalike.study.plan import Plan, make_plan, results_folder
from lookalike.study.results import StudyResults, load_results
from lookalike.study.tasks import Outcome, Task

__all__ = ["Executor", "drive", "run_study", "sqlite_url"]

DEATHS_ALLOWED = 5
"""Of workers that had the same task, before the task is taken for what kills them."""
SECONDS_BETWEEN_REFRESHES = 2.0


class Executor(Protocol):
    """Whoever does tasks."""

    @property
    def slots(self) -> int:
        """How many more tasks can be given now."""
        ...

    @property
    def size(self) -> int:
        """How many tasks run at the same time."""
        ...

    def submit(self, task: Task) -> None:
        """Begin a task."""
        ...

    def wait(self, timeout: float) -> list[Outcome]:
        """What was done; empty after ``timeout`` seconds."""
        ...


def sqlite_url(folder: Path) -> str:
    """The database of a study that one machine works on."""
    return f"sqlite:///{folder.resolve() / 'study.db'}"


def run_study(
    study: StudyConfig,
    executor: Callable[[], AbstractContextManager[Executor]],
    *,
    folder: Path | None = None,
    storage: str | None = None,
    lease: float = LEASE_SECONDS,
    watcher: Watcher | None = None,
) -> StudyResults:
    """Do all of a study that is not done yet; gives its results. Outdated rows are done again.

    ``storage``: the address of a database, where several drivers work on one study.
    """
    folder = results_folder(study, folder)
    watcher = watcher or Watcher()
    plan = make_plan(study, folder)
    known = plan.known()
    folder.mkdir(parents=True, exist_ok=True)
    with Ledger(storage or sqlite_url(folder), lease) as ledger:
        ledger.add(known)
        with executor() as pool:
            for name in plan.restart_outdated(ledger):
                watcher.note(f"{name} was outdated and is trained again")
            plan.write_head(pool.size)
            drive(plan, ledger, pool, Mirror(storage or sqlite_url(folder)), watcher)
    return load_results(folder)


def drive(plan: Plan, ledger: Ledger, pool: Executor, mirror: Mirror, watcher: Watcher) -> None:
    """Claim, hand out, write down, until everything is done, here or by other drivers."""
    running: set[str] = set()
    elsewhere: dict[str, float] = {}
    deaths: Counter[str] = Counter()
    records, newest = ledger.records(plan.prefixes)
    plan.take(records)
    refreshed = time.monotonic()
    while not plan.ended:
        for task in plan.ready():
            if not pool.slots:
                break
            if task.key in running or elsewhere.get(task.key, 0.0) > time.monotonic():
                continue
            if ledger.claim(task.key):
                pool.submit(task)
                running.add(task.key)
            else:
                elsewhere[task.key] = time.monotonic() + min(ledger.lease / 4, 5.0)
        for outcome in pool.wait(0.5):
            key, record = outcome.task.key, outcome.record
            if record is None:
                deaths[key] += 1
            running.discard(key)
            if record is None and deaths[key] < DEATHS_ALLOWED:
                ledger.release([key])  # whoever is free takes it
                continue
            record = record or {"error": f"{deaths[key]} workers died of it", "seconds": 0.0}
            if ledger.finish(key, record):
                plan.take({key: record})
                mirror.follow(plan, ledger)
            tell(plan, watcher)
        if time.monotonic() - refreshed > SECONDS_BETWEEN_REFRESHES:
            records, newest = ledger.records(plan.prefixes, newest)
            plan.take(records)
            refreshed = time.monotonic()
    mirror.follow(plan, ledger)


def tell(plan: Plan, watcher: Watcher) -> None:
    """Move the bar of the whole study."""
    left = sum(progress.runs_left for progress in plan.methods)
    done = sum(progress.runs_done for progress in plan.methods)
    watcher.stage("trainings", done, max(done + left, 1), latest(plan))


def latest(plan: Plan) -> str:
    """The method that is being tuned, and its best value so far."""
    for progress in plan.methods:
        if not progress.ended:
            values = [trial.value for trial in progress.trials if trial.value is not None]
            best = f", best {max(values):.4f}" if values else ""
            return f"{progress.method.dataset} {progress.method.name}{best}"
    return ""
