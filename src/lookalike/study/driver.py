"""The driver: one process that gives out the tasks of a study until nothing is left."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from lookalike.errors import LookalikeError
from lookalike.progress import Watcher, duration
from lookalike.study.config import StudyConfig
from lookalike.study.plan import Plan, RowProgress, make_plan, results_folder
from lookalike.study.records import Record
from lookalike.study.results import StudyResults
from lookalike.study.table import StudyTable, load_results, open_table
from lookalike.study.tasks import TaskResult


class Executor(Protocol):
    """Executes tasks, those of a process or machine that dies again."""

    @property
    def size(self) -> int:
        """How many tasks run at the same time."""

    @property
    def slots(self) -> int:
        """How many more tasks can be submitted now."""

    def submit(self, task: Any) -> None:
        """Start a task."""

    def wait(self, timeout: float) -> list[TaskResult]:
        """Finished tasks; empty after ``timeout`` seconds."""


class Clock:
    """A budget of time.

    Args:
        seconds: The whole budget.
        begun: When it began, by ``time.monotonic``; now if not given.
        reserve: Seconds at its end that are kept for other work.
    """

    def __init__(self, seconds: float, begun: float | None = None, reserve: float = 0.0) -> None:
        self.seconds = seconds
        self.begun = time.monotonic() if begun is None else begun
        self.reserve = reserve

    @property
    def used(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.begun

    @property
    def left(self) -> float:
        """Seconds that work may still take."""
        return self.seconds - self.reserve - self.used


def run_study(
    study: StudyConfig,
    executor: Callable[[], AbstractContextManager[Executor]],
    *,
    folder: Path | None = None,
    watcher: Watcher | None = None,
    clock: Clock | None = None,
) -> StudyResults:
    """Run everything of a study that is not finished; outdated rows are trained again.

    With a ``clock`` rows are tuned in their order while there is time for them and for the tests of
    those before; then these are tested. The same call with more time resumes with the others.
    """
    folder = results_folder(study, folder)
    watcher = watcher or Watcher()
    plan = make_plan(study, folder)
    with open_table(folder) as table, executor() as pool:
        for name in plan.resume(table):
            watcher.note(f"{name} was outdated and is trained again")
        plan.write(table, pool.size)
        for sentence in (*plan.without_effect(), plan.summary(), plan.read_before()):
            if sentence:
                watcher.note(sentence)
        _drive(plan, table, pool, watcher, clock)
    return load_results(folder)


def _drive(
    plan: Plan, table: StudyTable, pool: Executor, watcher: Watcher, clock: Clock | None
) -> None:
    """Submit and record tasks until everything is done, or the time is up."""
    running = set()
    begun, trainings = time.monotonic(), 0
    while not plan.ended:
        if clock is not None:
            each = (time.monotonic() - begun) / trainings if trainings else 0.0
            if late := plan.leave_out_late(clock.left, each):
                watcher.note(f"no time is left for {', '.join(late)}")
                plan.write(table, pool.size)
                continue
            if clock.left < 0:
                watcher.note("the time is up; the same command with more time resumes")
                break
        for task in plan.ready():
            if not pool.slots:
                break
            if task.name not in running:
                pool.submit(task)
                running.add(task.name)
        for outcome in pool.wait(0.5):
            task, row = outcome.task, plan.rows[outcome.task.row]
            running.discard(task.name)
            record: Record = outcome.record or Record(error=outcome.reason)
            if record.unwritten:
                raise LookalikeError(f"{record.unwritten}; the same command resumes")
            searching = not row.tuned
            table.add(row.planned, task.key, row.take(task.key, record))
            if searching and row.tuned and not row.method.baseline and (text := _found(row)):
                watcher.note(text)
            if not (row.method.baseline or record.error):
                count = 1 if task.key.repeat < 0 else row.method.folds
                if not trainings:
                    _estimate(plan, record, count, pool.size, watcher)
                trainings += count
            _show_progress(plan, watcher)


def _estimate(plan: Plan, record: Record, count: int, workers: int, watcher: Watcher) -> None:
    """Say how long the rest takes at the time of the first training; a repeat is one per fold."""
    left, one = sum(row.runs_left for row in plan.methods), record.seconds / count
    preparing = record.preparing_seconds
    before = f" after {duration(preparing)} for images and features" if preparing >= 1 else ""
    if left:
        watcher.note(
            f"the first training took {duration(one)}{before}; "
            f"about {duration(one * left / workers)} for "
            f"the {left:,} that are left, {workers} at a time"
        )


def _found(row: RowProgress) -> str:
    """What a row's search has found, once it has ended."""
    if row.best is None or row.best.value is None:
        return ""
    best = f"{row.row.metric} {100 * row.best.value:.1f} on validation classes"
    return f"{row.method.dataset} {row.method.label}: {best}"


def _show_progress(plan: Plan, watcher: Watcher) -> None:
    """The number of trainings, and the best value so far of the row that is being tuned."""
    done, left = (sum(getattr(row, n) for row in plan.methods) for n in ("runs_done", "runs_left"))
    current = next((row for row in plan.rows if not row.ended), None)
    detail = ""
    if current is not None:
        best = f", best {max(current.row.values):.4f}" if current.row.values else ""
        detail = f"{current.method.dataset} {current.method.label}{best}"
    watcher.stage("trainings", done, max(done + left, 1), detail)
