"""The driver: one process that gives out the work of a study until nothing is left."""

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import optuna
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from sqlalchemy.exc import SQLAlchemyError

from lookalike.errors import LookalikeError
from lookalike.progress import Watcher, duration
from lookalike.study.clock import Clock, rows_without_time
from lookalike.study.config import StudyConfig
from lookalike.study.ledger import Ledger, open_ledger
from lookalike.study.plan import Plan, make_plan, results_folder
from lookalike.study.progress import MethodProgress
from lookalike.study.result_files import load_results
from lookalike.study.results import StudyResults
from lookalike.study.runner import UNWRITTEN, Task, TaskResult
from lookalike.study.tuning import to_optuna


class Executor(Protocol):
    """Executes tasks, those of a process or machine that dies again."""

    @property
    def size(self) -> int:
        """How many tasks run at the same time."""

    @property
    def slots(self) -> int:
        """How many more tasks can be submitted now."""

    def submit(self, task: Task) -> None:
        """Start a task."""

    def wait(self, timeout: float) -> list[TaskResult]:
        """Finished tasks; empty after ``timeout`` seconds."""


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
    those before; then these are tested. The same call with more time goes on with the others.
    """
    folder = results_folder(study, folder)
    watcher = watcher or Watcher()
    plan = make_plan(study, folder)
    plan.resume()
    with open_ledger(folder) as ledger, executor() as pool:
        for name in plan.restart_outdated(ledger):
            watcher.note(f"{name} was outdated and is trained again")
        plan.write_head(pool.size)
        for sentence in plan.without_effect():
            watcher.note(sentence)
        watcher.note(plan.summary())
        if plan.read_before():
            watcher.note(plan.read_before())
        _drive(plan, ledger, pool, watcher, clock)
    return load_results(folder)


def _drive(
    plan: Plan, ledger: Ledger, pool: Executor, watcher: Watcher, clock: Clock | None
) -> None:
    """Submit and record tasks until everything is done, or the time is up."""
    running: set[str] = set()
    tables = OptunaTables(ledger)
    begun, trainings = time.monotonic(), 0
    try:
        plan.take(ledger.records(plan.prefixes))
    except (LookupError, TypeError, ValueError) as error:
        if isinstance(error, LookalikeError):
            raise
        raise ledger.damaged("a record has other values than those of a task") from error
    while not plan.ended:
        if clock is not None:
            each = (time.monotonic() - begun) / trainings if trainings else 0.0
            if not _in_time(plan, clock, each, pool.size, watcher):
                watcher.note("the time is up; the same command with more time resumes")
                break
        for task in plan.ready():
            if not pool.slots:
                break
            if task.key not in running:
                pool.submit(task)
                running.add(task.key)
        for outcome in pool.wait(0.5):
            key, record = outcome.task.key, outcome.record
            running.discard(key)
            if record is None:
                record = {"error": outcome.reason, "seconds": 0.0}
            if UNWRITTEN in record:
                raise LookalikeError(f"{record[UNWRITTEN]}; the same command resumes")
            ledger.add(key, record)
            searching = [one for one in plan.methods if not one.tuned]
            plan.take({key: record})
            for text in filter(None, map(_found, searching)):
                watcher.note(text)
            tables.update(plan)
            if outcome.task.kind != "baselines" and "error" not in record:
                if not trainings:
                    _estimate(plan, record, pool.size, watcher)
                trainings += max(1, len(record.get("separate", ())))  # a repeat is one per fold
            _show_progress(plan, watcher)
    tables.update(plan)


def _in_time(plan: Plan, clock: Clock, each: float, workers: int, watcher: Watcher) -> bool:
    """Whether there is time to go on, perhaps without some rows."""
    late = rows_without_time(plan.methods, clock.left, each)
    if late and any(one.tuned for one in plan.methods):
        names = ", ".join(one.method.label for one in late)
        watcher.note(f"no time is left for {names}")
        plan.leave_out(late, workers)
        return True
    return clock.left >= 0


def _estimate(plan: Plan, record: Mapping[str, Any], workers: int, watcher: Watcher) -> None:
    """Say how long the rest takes at the time of the first training; a repeat is one per fold."""
    left = sum(progress.runs_left for progress in plan.methods)
    one = float(record["seconds"]) / max(1, len(record.get("separate", ())))
    preparing = float(record.get("preparing_seconds", 0.0))
    before = f" after {duration(preparing)} for images and features" if preparing >= 1 else ""
    if left:
        watcher.note(
            f"the first training took {duration(one)}{before}; "
            f"about {duration(one * left / workers)} for "
            f"the {left:,} that are left, {workers} at a time"
        )


def _found(row: MethodProgress) -> str:
    """What a row's search has found, once it has ended."""
    if row.best is None or row.best.value is None:
        return ""
    metric = row.method.config.train.metric
    best = f"{metric} {100 * row.best.value:.1f} on validation classes"
    return f"{row.method.dataset} {row.method.label}: {best}"


def _show_progress(plan: Plan, watcher: Watcher) -> None:
    """The number of trainings, and the best value so far of the method that is being tuned."""
    left = sum(progress.runs_left for progress in plan.methods)
    done = sum(progress.runs_done for progress in plan.methods)
    detail = ""
    current = next((progress for progress in plan.methods if not progress.ended), None)
    if current is not None:
        values = [trial.value for trial in current.trials if trial.value is not None]
        best = f", best {max(values):.4f}" if values else ""
        detail = f"{current.method.dataset} {current.method.label}{best}"
    watcher.stage("trainings", done, max(done + left, 1), detail)


class OptunaTables:
    """Finished trials in Optuna's own tables of the same file, for its dashboard and plots.

    They cannot replace the records, whose unit is a fold or a repeat.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.studies: dict[str, optuna.Study] = {}
        self.written: Counter[str] = Counter()

    def update(self, plan: Plan) -> None:
        """Write the trials that are finished and not written yet, in order."""
        for progress in plan.methods:
            method = progress.method
            name = f"{plan.study.name}/{method.dataset}/{method.label}/{method.identity[:8]}"
            if len(progress.trials) > self.written[name]:
                with self._sentences():
                    study = self.studies.get(name) or self._open(name)
                    for trial in progress.trials[self.written[name] :]:
                        study.add_trial(to_optuna(trial, method.search))
                        self.written[name] += 1

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        try:
            yield
        except (StorageInternalError, SQLAlchemyError) as error:
            reason = str(error.__cause__ or error).partition("\n")[0]
            raise self.ledger.damaged(reason) from error

    @cached_property
    def storage(self) -> RDBStorage:
        """The tables."""
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        address = f"sqlite:///{self.ledger.path.resolve()}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return RDBStorage(address, engine_kwargs={"connect_args": {"timeout": 60}})

    def _open(self, name: str) -> optuna.Study:
        """A study, new or of a process that was interrupted."""
        study = optuna.create_study(
            study_name=name, storage=self.storage, direction="maximize", load_if_exists=True
        )
        self.studies[name] = study
        self.written[name] = len(study.get_trials(deepcopy=False))
        return study
