"""The driver: gives out the work of a study until nothing is left."""

import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import optuna
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from sqlalchemy.exc import DBAPIError

from lookalike.errors import LookalikeError
from lookalike.files import refuse_links
from lookalike.progress import Watcher, duration
from lookalike.study.config import StudyConfig
from lookalike.study.ledger import LEASE_SECONDS, Ledger
from lookalike.study.plan import Plan, make_plan, results_folder
from lookalike.study.result_files import load_results
from lookalike.study.results import StudyResults
from lookalike.study.runner import UNWRITTEN, Outcome, Task
from lookalike.study.tuning import to_optuna

DEATHS_ALLOWED = 5
"""Workers that may die during one task, before the task counts as failed."""
SECONDS_BETWEEN_REFRESHES = 2.0


class Executor(Protocol):
    """Executes tasks."""

    @property
    def size(self) -> int:
        """How many tasks run at the same time."""

    @property
    def slots(self) -> int:
        """How many more tasks can be submitted now."""

    def submit(self, task: Task) -> None:
        """Start a task."""

    def wait(self, timeout: float) -> list[Outcome]:
        """Finished tasks; empty after ``timeout`` seconds."""


def run_study(
    study: StudyConfig,
    executor: Callable[[], AbstractContextManager[Executor]],
    *,
    folder: Path | None = None,
    storage: str | None = None,
    lease: float = LEASE_SECONDS,
    watcher: Watcher | None = None,
    test: bool = True,
) -> StudyResults:
    """Run everything of a study that is not finished; outdated rows are trained again.

    Without ``test`` it ends when every winner is chosen, before a test label is read.

    ``storage`` is the address of a database that several drivers share (by default SQLite in the
    folder), ``lease`` the seconds after which the work of a dead driver is taken over.
    """
    folder = results_folder(study, folder)
    watcher = watcher or Watcher()
    plan = make_plan(study, folder)
    known = plan.known()
    folder.mkdir(parents=True, exist_ok=True)
    refuse_links(folder)  # SQLite writes to whatever its file leads to
    address = storage or f"sqlite:///{folder.resolve() / 'study.db'}"
    with Ledger(address, lease, watcher=watcher) as ledger:
        ledger.add(known)
        with executor() as pool:
            for name in plan.restart_outdated(ledger):
                watcher.note(f"{name} was outdated and is trained again")
            plan.write_head(pool.size)
            for sentence in plan.without_effect():
                watcher.note(sentence)
            watcher.note(plan.summary())
            if plan.read_before():
                watcher.note(plan.read_before())
            _drive(plan, ledger, pool, watcher, test)
    return load_results(folder)


def _drive(plan: Plan, ledger: Ledger, pool: Executor, watcher: Watcher, test: bool) -> None:
    """Claim, submit and record tasks until everything is done, here or by other drivers."""
    running: set[str] = set()
    elsewhere: dict[str, float] = {}
    deaths: Counter[str] = Counter()
    tables = OptunaTables(ledger)
    estimated = False
    records, newest = ledger.records(plan.prefixes)
    plan.take(records)
    refreshed = time.monotonic()
    while not (plan.ended if test else plan.chosen):
        others: list[str] = []
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
                others.append(task.key)
        if others:  # perhaps written by a clock that was set back, and so never seen as new
            plan.take(ledger.records(others)[0])
        for outcome in pool.wait(0.5):
            key, record = outcome.task.key, outcome.record
            if record is None:
                deaths[key] += 1
            running.discard(key)
            if record is not None and UNWRITTEN in record:
                raise LookalikeError(f"{record[UNWRITTEN]}; the same command goes on")
            if record is None and deaths[key] < DEATHS_ALLOWED:
                watcher.note(f"a worker died ({outcome.reason}); another one does its task")
                ledger.release([key])  # any free worker takes it
                continue
            died = f"{deaths[key]} workers died of it, the last one {outcome.reason}"
            record = record or {"error": died, "seconds": 0.0}
            if ledger.finish(key, record):
                plan.take({key: record})
                tables.update(plan)
            if not estimated and outcome.task.kind != "baselines" and "error" not in record:
                estimated = True
                _estimate(plan, record, pool.size, watcher)
            _show_progress(plan, watcher)
        if time.monotonic() - refreshed > SECONDS_BETWEEN_REFRESHES:
            records, newest = ledger.records(plan.prefixes, newest)
            plan.take(records)
            refreshed = time.monotonic()
    tables.update(plan)


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
    """Finished trials in Optuna's own tables of the same database, for its dashboard and plots.

    They cannot replace the ledger, whose unit is a fold or a repeat. The driver that claims a
    trial's entry in the ledger writes it; trials are written in order.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.storage: RDBStorage | None = None
        self.written: Counter[str] = Counter()

    def update(self, plan: Plan) -> None:
        """Write the trials that are finished and not written yet."""
        self.ledger.patiently(lambda: self._update(plan))

    def _update(self, plan: Plan) -> None:
        for progress in plan.methods:
            method = progress.method
            name = f"{plan.study.name}/{method.dataset}/{method.label}/{method.identity[:8]}"
            for trial in progress.trials[self.written[name] :]:
                key = f"optuna/{method.identity}/{trial.number:03d}"
                if self.ledger.claim(key):
                    self._write(name, to_optuna(trial, method.search), trial.number)
                    self.ledger.finish(key, {"study": name})
                elif not self.ledger.done(key):
                    break  # another driver is writing it
                self.written[name] += 1

    def _write(self, name: str, trial: optuna.trial.FrozenTrial, number: int) -> None:
        """Write one trial, unless it was written before a kill or a lost connection."""
        try:
            study = self._open(name)
            if len(study.get_trials(deepcopy=False)) <= number:
                study.add_trial(trial)
        except StorageInternalError as error:  # Optuna's name for any error of the database
            if isinstance(error.__cause__, DBAPIError):
                raise error.__cause__ from error
            raise

    def _open(self, name: str) -> optuna.Study:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        if self.storage is None:
            address = self.ledger.engine.url.render_as_string(hide_password=False)
            waiting: dict[str, Any] = {"pool_pre_ping": True}
            if address.startswith("sqlite"):
                waiting = {"connect_args": {"timeout": 60}}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with self.ledger.exclusive():  # Optuna's tables are created in several steps
                    self.storage = RDBStorage(address, engine_kwargs=waiting)
        return optuna.create_study(
            study_name=name, storage=self.storage, direction="maximize", load_if_exists=True
        )
