"""The results of a study, and the JSON files that store them.

    STUDY/study.json                 the study: data sets, methods, protocol, tuner, seeds
    STUDY/<data set>/<method>.json   trials, the best one, its repeats
    STUDY/<data set>/baselines.json  the untrained network, PCA, LDA

A method's file grows while the study runs; ``load_results`` reads finished and unfinished studies.
"""

import dataclasses
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from lookalike.errors import BadInput
from lookalike.files import write_json
from lookalike.study.intervals import Interval, summarize

FORMAT = 1
"""Version of the file format; files of another version are an error."""

Scores = dict[str, float]
State = Literal["complete", "pruned", "failed"]
Which = Literal["separate", "concatenated"]
Row = TypeVar("Row")


@dataclass(frozen=True)
class Trial:
    """One setting of the hyper-parameters, scored on validation classes."""

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


class Tested:
    """Test scores: of each fold's model, and of their concatenated unit embeddings."""

    separate: tuple[Scores, ...]
    concatenated: Scores

    def score(self, metric: str, which: Which = "concatenated") -> float:
        """The concatenated score, or the mean of the separate ones."""
        if which == "concatenated" or not self.separate:
            return self.concatenated[metric]
        return math.fsum(fold[metric] for fold in self.separate) / len(self.separate)


@dataclass(frozen=True)
class Repeat(Tested):
    """The best trial, trained again on every fold with a new seed, and tested."""

    number: int
    seed: int
    validation: tuple[float, ...]
    """The best validation score of each fold; empty where the protocol has no validation."""
    separate: tuple[Scores, ...]
    concatenated: Scores
    seconds: float


@dataclass(frozen=True)
class MethodRow:
    """One method on one data set: its trials, the best of them, and its test scores."""

    dataset: str
    method: str
    config: dict[str, Any]
    """The resolved ``RunConfig`` of the best trial (before tuning has ended, of the method)."""
    tuned: dict[str, Any]
    """The best hyper-parameters by dotted key; empty before tuning has ended."""
    validation: float | None
    """The best mean validation score over folds; None before tuning has ended.

    Where nothing is tuned: that of the repeats."""
    trials: tuple[Trial, ...] = ()
    repeats: tuple[Repeat, ...] = ()
    trials_asked: int = 0
    repeats_asked: int = 0
    errors: tuple[str, ...] = ()
    """Why repeats failed."""
    metric: str = "map@r"
    """The metric that selected epochs and the best trial, on validation classes."""
    identity: str = ""
    """A hash of everything that determined the trials."""
    outdated: str = ""
    """Why this version would not reproduce the row; empty where it would.

    Tables show it, and the next ``study run`` trains the row again."""

    @property
    def failed(self) -> int:
        """Number of trials that raised an error or gave no number."""
        return sum(trial.state == "failed" for trial in self.trials)

    @property
    def pruned(self) -> int:
        """Number of trials that were stopped early."""
        return sum(trial.state == "pruned" for trial in self.trials)

    @property
    def values(self) -> tuple[float, ...]:
        """The validation scores of the complete trials, in order."""
        return tuple(trial.value for trial in self.trials if trial.value is not None)

    @property
    def seeds(self) -> int:
        """Number of repeats that were tested."""
        return len(self.repeats)

    @property
    def seconds(self) -> float:
        """The total time of all trials and repeats."""
        tuning = math.fsum(trial.seconds for trial in self.trials)
        return tuning + math.fsum(repeat.seconds for repeat in self.repeats)

    @property
    def finished(self) -> bool:
        """Whether all trials and repeats are finished."""
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

        For the separate models of one repeat: mean and standard deviation over its folds.
        """
        if which == "concatenated":
            return summarize([[score] for score in self.scores(metric)])
        return summarize([[fold[metric] for fold in repeat.separate] for repeat in self.repeats])


@dataclass(frozen=True)
class BaselineRow(Tested):
    """A baseline without training: ``raw-features``, ``pca`` or ``lda`` (shrunk)."""

    dataset: str
    baseline: str
    dim: int
    parameters: dict[str, float]
    """``{"shrink": ...}`` of LDA, chosen on validation classes."""
    validation: tuple[float, ...]
    separate: tuple[Scores, ...]
    concatenated: Scores
    seconds: float


@dataclass(frozen=True)
class StudyResults:
    """The results of a study, finished or not."""

    folder: Path
    name: str
    metric: str
    """The metric that selected epochs and trials, on validation classes."""
    study: dict[str, Any]
    """The resolved study file: data, base, methods, protocol, tuner, repeats, seed."""
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    rows: tuple[MethodRow, ...] = ()
    """In the order of the study file, without methods that have not begun."""
    baselines: tuple[BaselineRow, ...] = ()
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """For each data set: fingerprint, numbers of images and classes."""

    @property
    def finished(self) -> bool:
        """Whether every method has all its repeats on every data set."""
        done = {(row.dataset, row.method) for row in self.rows if row.finished}
        return all((d, m) in done for d in self.datasets for m in self.methods)

    def of(self, dataset: str) -> tuple[MethodRow, ...]:
        """The rows of one data set."""
        return tuple(row for row in self.rows if row.dataset == dataset)

    def fingerprint(self, dataset: str) -> str | None:
        """The fingerprint of the images of a data set, if it is known."""
        return self.facts.get(dataset, {}).get("fingerprint")

    def row(self, dataset: str, method: str) -> MethodRow | None:
        """One row, or None."""
        return next((row for row in self.of(dataset) if row.method == method), None)


def load_results(folder: Path | str) -> StudyResults:
    """The study in the folder of a ``study.json``, finished or not, and all rows that exist."""
    folder = Path(folder)
    path = folder / "study.json"
    if not path.is_file():
        raise BadInput(f"'{folder}' does not hold a study: it has no study.json")
    head = _read(path)
    rows = [read_method(folder, d, m) for d in head["datasets"] for m in head["methods"]]
    baselines = [read_baselines(folder, dataset) for dataset in head["datasets"]]
    parts = {"folder": folder, "rows": [row for row in rows if row is not None]}
    return _parse(path, StudyResults, head | parts | {"baselines": sum(baselines, ())})


def write_study(results: StudyResults) -> None:
    """Write ``study.json``; rows have their own files."""
    names = ("name", "metric", "datasets", "methods", "facts", "study")
    values = {name: getattr(results, name) for name in names}
    write_json(results.folder / "study.json", {"format": FORMAT} | values)


def write_method(folder: Path, row: MethodRow) -> None:
    """Write the file of one method on one data set."""
    path = folder / row.dataset / f"{row.method}.json"
    write_json(path, {"format": FORMAT} | dataclasses.asdict(row))


def read_method(folder: Path, dataset: str, method: str) -> MethodRow | None:
    """The file of one method on one data set, if it exists."""
    path = folder / dataset / f"{method}.json"
    return _parse(path, MethodRow, _read(path)) if path.is_file() else None


def write_baselines(folder: Path, dataset: str, rows: tuple[BaselineRow, ...]) -> None:
    """Write the baselines of one data set."""
    values = [dataclasses.asdict(row) for row in rows]
    write_json(folder / dataset / "baselines.json", {"format": FORMAT, "baselines": values})


def read_baselines(folder: Path, dataset: str) -> tuple[BaselineRow, ...]:
    """The baselines of one data set, if they exist."""
    path = folder / dataset / "baselines.json"
    if not path.is_file():
        return ()
    return tuple(_parse(path, BaselineRow, row) for row in _read(path)["baselines"])


def _read(path: Path) -> dict[str, Any]:
    """The mapping in a results file of this format."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot read '{path}': {error}") from error
    found = values.pop("format", None) if isinstance(values, dict) else None
    if found != FORMAT:
        raise BadInput(f"'{path}' has the format {found}, and this version reads {FORMAT}")
    return dict(values)


def _parse(path: Path, kind: type[Row], values: dict[str, Any]) -> Row:
    """A value of ``kind`` from the content of a file."""
    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BadInput(f"'{path}': {place}: {first['msg']}") from error
