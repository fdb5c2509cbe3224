"""What a study found, as values, and as small JSON files that can be checked anywhere.

    STUDY/study.json                 what was asked: data sets, methods, protocol, tuner, seeds
    STUDY/<data set>/<method>.json   trials, the winner, its repeats
    STUDY/<data set>/baselines.json  the untrained network, PCA, LDA

A method's file grows while the study runs; ``load_results`` reads whatever there is.
"""

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from lookalike.errors import BadInput
from lookalike.files import write_json
from lookalike.study.intervals import Interval, summarize

__all__ = [
    "FORMAT",
    "BaselineRow",
    "MethodRow",
    "Repeat",
    "StudyResults",
    "Trial",
    "load_results",
    "read_baselines",
    "read_method",
    "write_baselines",
    "write_method",
    "write_study",
]

FORMAT = 1
"""Written into every file; a reader refuses what it does not know."""

Scores = dict[str, float]
State = Literal["complete", "pruned", "failed"]
Which = Literal["separate", "concatenated"]
Row = TypeVar("Row")


@dataclass(frozen=True)
class Trial:
    """One setting of the hyper-parameters, tried on validation classes."""

    number: int
    parameters: dict[str, Any]
    """By dotted key: ``{"loss.margin": 0.1, "optim.lr": 1e-3}``."""
    state: State
    value: float | None
    """The mean over folds of the best validation score; None unless complete."""
    folds: tuple[float, ...]
    """The best validation score of each fold that was run."""
    seconds: float
    error: str = ""
    """Why it failed."""


def _score(separate: tuple[Scores, ...], concatenated: Scores, metric: str, which: Which) -> float:
    """The concatenated score, or the mean of the folds' own."""
    if which == "concatenated" or not separate:
        return concatenated[metric]
    return math.fsum(fold[metric] for fold in separate) / len(separate)


@dataclass(frozen=True)
class Repeat:
    """The winner trained once more on every fold with a new seed, and tested."""

    number: int
    seed: int
    validation: tuple[float, ...]
    """The best validation score of each fold; empty where the protocol has no validation."""
    separate: tuple[Scores, ...]
    """The test scores of each fold's model."""
    concatenated: Scores
    """The test scores of all folds' embeddings, each of unit length, side by side."""
    seconds: float

    def score(self, metric: str, which: Which = "concatenated") -> float:
        """One number: the concatenated score, or the mean of the separate ones."""
        return _score(self.separate, self.concatenated, metric, which)


@dataclass(frozen=True)
class MethodRow:
    """One method on one data set: what was tried, what won, how the winner did."""

    dataset: str
    method: str
    config: dict[str, Any]
    """The resolved ``RunConfig`` of the winner (of the method's base while nothing has won)."""
    tuned: dict[str, Any]
    """The winner's hyper-parameters by dotted key; empty while nothing has won."""
    validation: float | None
    """The winner's mean validation score over folds; None while nothing has won.

    Where nothing was to be tuned: that of the repeats."""
    trials: tuple[Trial, ...] = ()
    repeats: tuple[Repeat, ...] = ()
    trials_asked: int = 0
    repeats_asked: int = 0
    errors: tuple[str, ...] = ()
    """Why repeats failed."""
    metric: str = "map@r"
    """Chose epochs and the winner, on validation classes."""
    identity: str = ""
    """A hash of everything that decided the trials."""
    outdated: str = ""
    """Why the row is not what this version would find; empty where it is.

    Tables show it, and the next ``study run`` trains the row again."""

    @property
    def failed(self) -> int:
        """Trials that broke down or gave no number."""
        return sum(trial.state == "failed" for trial in self.trials)

    @property
    def pruned(self) -> int:
        """Trials that were given up after some folds."""
        return sum(trial.state == "pruned" for trial in self.trials)

    @property
    def values(self) -> tuple[float, ...]:
        """The validation scores of the complete trials, in order."""
        return tuple(trial.value for trial in self.trials if trial.value is not None)

    @property
    def seeds(self) -> int:
        """How many repeats the final scores rest on."""
        return len(self.repeats)

    @property
    def seconds(self) -> float:
        """The time that all trials and repeats took, one after the other."""
        tuning = math.fsum(trial.seconds for trial in self.trials)
        return tuning + math.fsum(repeat.seconds for repeat in self.repeats)

    @property
    def finished(self) -> bool:
        """Whether every trial and every repeat is there."""
        return (
            len(self.trials) == self.trials_asked
            and len(self.repeats) == self.repeats_asked
            and self.validation is not None
        )

    def scores(self, metric: str, which: Which = "concatenated") -> tuple[float, ...]:
        """The test score of each repeat."""
        return tuple(repeat.score(metric, which) for repeat in self.repeats)

    def interval(self, metric: str, which: Which = "concatenated") -> Interval:
        """Mean, standard deviation and 95 % t-interval over the repeats.

        Of one repeat's separate models: mean and standard deviation over its folds.
        """
        if which == "concatenated":
            return summarize([[score] for score in self.scores(metric)])
        return summarize([[fold[metric] for fold in repeat.separate] for repeat in self.repeats])


@dataclass(frozen=True)
class BaselineRow:
    """What needs no training: ``raw-features``, ``pca`` or ``lda`` (shrunk)."""

    dataset: str
    baseline: str
    dim: int
    parameters: dict[str, float]
    """``{"shrink": ...}`` of LDA, chosen on validation classes."""
    validation: tuple[float, ...]
    separate: tuple[Scores, ...]
    concatenated: Scores
    seconds: float

    def score(self, metric: str, which: Which = "concatenated") -> float:
        """One number, as of a method's repeat."""
        return _score(self.separate, self.concatenated, metric, which)


@dataclass(frozen=True)
class StudyResults:
    """A study as far as it has come."""

    folder: Path
    name: str
    metric: str
    """Chose epochs and winners, on validation classes."""
    study: dict[str, Any]
    """The resolved study file: data, base, methods, protocol, tuner, repeats, seed."""
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    rows: tuple[MethodRow, ...] = ()
    """In the order of the study file; a method that has not begun is not there."""
    baselines: tuple[BaselineRow, ...] = ()
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Of each data set: fingerprint, numbers of images and classes."""

    @property
    def finished(self) -> bool:
        """Whether every method has all its repeats on every data set."""
        done = {(row.dataset, row.method) for row in self.rows if row.finished}
        return all((d, m) in done for d in self.datasets for m in self.methods)

    def of(self, dataset: str) -> tuple[MethodRow, ...]:
        """The rows of one data set."""
        return tuple(row for row in self.rows if row.dataset == dataset)

    def row(self, dataset: str, method: str) -> MethodRow | None:
        """One row, if it is there."""
        return next((row for row in self.of(dataset) if row.method == method), None)

    def baselines_of(self, dataset: str) -> tuple[BaselineRow, ...]:
        """The baselines of one data set."""
        return tuple(row for row in self.baselines if row.dataset == dataset)


def load_results(folder: Path | str) -> StudyResults:
    """Read the results of a study, finished or not."""
    folder = Path(folder)
    path = folder / "study.json"
    if not path.is_file():
        raise BadInput(f"'{folder}' does not hold a study: it has no study.json")
    head = read(path)
    rows = (read_method(folder, d, m) for d in head["datasets"] for m in head["methods"])
    baselines = (row for dataset in head["datasets"] for row in read_baselines(folder, dataset))
    return StudyResults(
        folder=folder,
        name=head["name"],
        metric=head["metric"],
        study=head["study"],
        datasets=tuple(head["datasets"]),
        methods=tuple(head["methods"]),
        rows=tuple(row for row in rows if row is not None),
        baselines=tuple(baselines),
        facts=head["facts"],
    )


def write_study(results: StudyResults) -> None:
    """Write what was asked; rows have files of their own."""
    values = {
        "name": results.name,
        "metric": results.metric,
        "datasets": results.datasets,
        "methods": results.methods,
        "facts": results.facts,
        "study": results.study,
    }
    write_json(results.folder / "study.json", {"format": FORMAT} | values)


def write_method(folder: Path, row: MethodRow) -> None:
    """Write the file of one method on one data set."""
    path = folder / row.dataset / f"{row.method}.json"
    write_json(path, {"format": FORMAT} | dataclasses.asdict(row))


def read_method(folder: Path, dataset: str, method: str) -> MethodRow | None:
    """The file of one method on one data set, if it is there."""
    path = folder / dataset / f"{method}.json"
    return checked(path, MethodRow, read(path)) if path.is_file() else None


def write_baselines(folder: Path, dataset: str, rows: tuple[BaselineRow, ...]) -> None:
    """Write the baselines of one data set."""
    values = [dataclasses.asdict(row) for row in rows]
    write_json(folder / dataset / "baselines.json", {"format": FORMAT, "baselines": values})


def read_baselines(folder: Path, dataset: str) -> tuple[BaselineRow, ...]:
    """The baselines of one data set, if they are there."""
    path = folder / dataset / "baselines.json"
    if not path.is_file():
        return ()
    return tuple(checked(path, BaselineRow, row) for row in read(path)["baselines"])


def read(path: Path) -> dict[str, Any]:
    """The mapping in a result file of this format."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot read '{path}': {error}") from error
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        found = values.get("format") if isinstance(values, dict) else None
        raise BadInput(f"'{path}' has the format {found}, and this version reads {FORMAT}")
    del values["format"]
    return values


def checked(path: Path, kind: type[Row], values: Mapping[str, Any]) -> Row:
    """A row from what a file holds, or a sentence why it is none."""
    try:
        return TypeAdapter(kind).validate_python(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BadInput(f"'{path}': {place}: {first['msg']}") from error
