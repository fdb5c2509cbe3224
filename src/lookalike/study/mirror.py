"""The trials of a study as Optuna keeps them, for its dashboard and its plots."""

import warnings

import optuna
from optuna.storages import RDBStorage

from lookalike.study.ledger import Ledger, engine_of
from lookalike.study.plan import Plan
from lookalike.study.progress import MethodProgress
from lookalike.study.tuning import as_optuna

__all__ = ["Mirror", "optuna_name"]


def optuna_name(study: str, progress: MethodProgress) -> str:
    """What Optuna calls the trials of one method on one data set."""
    method = progress.method
    return f"{study}/{method.dataset}/{method.name}/{method.identity[:8]}"


class Mirror:
    """Writes finished trials into Optuna's tables of the same database, each once.

    Whoever claims a trial's entry in the ledger writes it; trials go in by number.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.storage: RDBStorage | None = None
        self.written: dict[str, int] = {}

    def follow(self, plan: Plan, ledger: Ledger) -> None:
        """Write what is finished and not written yet."""
        for progress in plan.methods:
            name = optuna_name(plan.study.name, progress)
            done = self.written.get(name, 0)
            while done < len(progress.trials):
                key = f"optuna/{progress.method.identity}/{done:03d}"
                if ledger.claim(key):
                    self._write(name, progress, done)
                    ledger.finish(key, {"study": name})
                elif not ledger.done(key):
                    break  # another driver is writing it
                done += 1
            self.written[name] = done

    def _write(self, name: str, progress: MethodProgress, number: int) -> None:
        study = optuna.create_study(
            study_name=name, storage=self._storage(), direction="maximize", load_if_exists=True
        )
        if len(study.get_trials(deepcopy=False)) <= number:  # else written before a kill
            study.add_trial(as_optuna(progress.trials[number], progress.method.search))

    def _storage(self) -> RDBStorage:
        if self.storage is None:
            optuna.logging.set_verbosity(optuna.logging.ERROR)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                url = engine_of(self.url).url.render_as_string(hide_password=False)
                self.storage = RDBStorage(url, engine_kwargs=engine_arguments(url))
        return self.storage


def engine_arguments(url: str) -> dict[str, object]:
    """SQLite waits for other writers."""
    return {"connect_args": {"timeout": 60}} if url.startswith("sqlite") else {}
