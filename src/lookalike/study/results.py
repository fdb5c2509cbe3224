"""The results of a study, and the JSON files that store them.

    STUDY/study.json                          the study: data sets, rows, protocol, tuner, seeds
    STUDY/<data set>/<method>.json            trials, the best one, its repeats
    STUDY/<data set>/<method>,<value>....json the same at values of axes
    STUDY/<data set>/baselines.json           the untrained network, PCA, LDA
    STUDY/<data set>/<row>.classes.npz        scores per test class, by repeat and fold

A method's file grows while the study runs; ``load_results`` reads finished and unfinished studies.
"""

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field, FiniteFloat, TypeAdapter, ValidationError

from lookalike.errors import BadInput
from lookalike.files import read_json, write_json
from lookalike.runs.scores import Scores
from lookalike.study.classes import RowClasses, classes_file, read_classes, write_classes
from lookalike.study.intervals import Interval, summarize

FORMAT = 1
"""Version of the file format; files of another version are an error."""
LARGEST = 3.4e38
"""No hyper-parameter is larger: the importance of each is computed in float32."""
State = Literal["complete", "pruned", "failed"]
Which = Literal["separate", "concatenated"]
Row = TypeVar("Row")


def label_of(method: str, axes: Mapping[str, str]) -> str:
    """The short name of a row: the method and the values of its axes.

    >>> label_of("triplet", {"network": "resnet50", "size": "64"})
    'triplet, resnet50, 64'
    """
    return ", ".join((method, *axes.values()))


def _finite(parameters: dict[str, Any]) -> dict[str, Any]:
    """Refuse numbers that no search draws."""
    for key, value in parameters.items():
        if isinstance(value, float) and not abs(value) < LARGEST:
            raise ValueError(f"{key[:80]} is {value}")
    return parameters


def _with_fingerprint(facts: dict[str, Any]) -> dict[str, Any]:
    """Refuse facts of a data set whose fingerprint is no text."""
    if not isinstance(facts.get("fingerprint", ""), str):
        raise ValueError("fingerprint must be a text")
    return facts


def _with_protocol(config: dict[str, Any]) -> dict[str, Any]:
    """Refuse a configuration whose protocol is none."""
    if not isinstance(config.get("protocol", {}), dict):
        raise ValueError("protocol must be a mapping")
    return config


@dataclass(frozen=True)
class Trial:
    """One setting of the hyper-parameters, scored on validation classes."""

    number: int
    parameters: Annotated[dict[str, Any], AfterValidator(_finite)]
    """By dotted key: ``{"loss.margin": 0.1, "optim.lr": 1e-3}``."""
    state: State
    value: FiniteFloat | None
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
    separate: Annotated[tuple[Scores, ...], Field(min_length=1)]
    concatenated: Scores
    seconds: float
    runs: tuple[str, ...] = ()
    """The names of the run folders, one per fold, where they are kept."""


@dataclass(frozen=True)
class MethodRow:
    """One method on one data set: its trials, the best of them, and its test scores."""

    dataset: str
    method: str
    config: Annotated[dict[str, Any], AfterValidator(_with_protocol)]
    """The resolved ``RunConfig`` of the best trial (before tuning has ended, of the method)."""
    tuned: dict[str, Any]
    """The best hyper-parameters by dotted key; empty before tuning has ended."""
    validation: float | None
    """The best mean validation score over folds; None before tuning has ended.

    Where nothing is tuned: that of the repeats. None where there are no validation classes."""
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
    axes: dict[str, str] = field(default_factory=dict)
    """The values of what varies besides the method: ``{"network": "resnet50", "size": "64"}``."""
    group: str = ""
    """The key of its facts and baselines; empty: the data set."""

    @property
    def label(self) -> str:
        """The method and the values of its axes."""
        return label_of(self.method, self.axes)

    @property
    def validated(self) -> bool:
        """Whether validation classes chose the epoch; ``protocol.name=paper`` has none."""
        return bool(self.config.get("protocol", {}).get("name") != "paper")

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
        trials, repeats = len(self.trials), len(self.repeats)
        return (trials, repeats) == (self.trials_asked, self.repeats_asked) and repeats > 0

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
    group: str = ""
    """The key of its facts; empty: the data set."""


@dataclass(frozen=True)
class PlannedRow:
    """One row that a study asks for, and how much work it is."""

    dataset: str
    method: str
    axes: dict[str, str]
    trials: int
    repeats: int
    folds: int

    @property
    def key(self) -> tuple[str, str]:
        """What identifies a row of a study."""
        return self.dataset, label_of(self.method, self.axes)


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
    planned: tuple[PlannedRow, ...] = ()
    """All rows, in the order of the study file."""
    rows: tuple[MethodRow, ...] = ()
    """The same without those that have not begun."""
    baselines: tuple[BaselineRow, ...] = ()
    facts: dict[str, Annotated[dict[str, Any], AfterValidator(_with_fingerprint)]] = field(
        default_factory=dict
    )
    """Fingerprint, numbers of images and classes: of each data set, or of each combination of
    data set, protocol and network where rows differ in those."""

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of what varies besides the method."""
        return tuple(dict.fromkeys(axis for row in self.planned for axis in row.axes))

    @property
    def finished(self) -> bool:
        """Whether every row has all its repeats."""
        done = {(row.dataset, row.label) for row in self.rows if row.finished}
        return all(row.key in done for row in self.planned)

    def of(self, dataset: str) -> tuple[MethodRow, ...]:
        """The rows of one data set."""
        return tuple(row for row in self.rows if row.dataset == dataset)

    def fingerprint(self, row: MethodRow | BaselineRow) -> str | None:
        """The fingerprint of the images of a row, if it is known."""
        return self.facts.get(row.group or row.dataset, {}).get("fingerprint")

    def row(
        self, dataset: str, method: str, axes: Mapping[str, str] | None = None
    ) -> MethodRow | None:
        """One row, or None."""
        label = label_of(method, axes or {})
        return next((row for row in self.of(dataset) if row.label == label), None)


@dataclass(frozen=True)
class DataBlock:
    """What is read of a data set's settings."""

    name: str


@dataclass(frozen=True)
class Settings:
    """What is read of the study's settings; the others are shown as they are."""

    data: tuple[DataBlock, ...] | None = None
    workers: int = 1


@dataclass(frozen=True)
class Head:
    """What reading the rows of a ``study.json`` needs."""

    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    study: Settings
    metric: str
    planned: tuple[dict[str, Any], ...] | None = None


def is_file_name(name: str) -> bool:
    """Whether a name is that of one file or folder, and leads nowhere else.

    >>> is_file_name("cub, small"), is_file_name("../cub"), is_file_name("")
    (True, False, False)
    """
    return bool(name) and name not in (".", "..") and not set(name) & {"/", "\\", "\0"}


def load_results(folder: Path | str) -> StudyResults:
    """The study in the folder of a ``study.json``, finished or not, and all rows that exist."""
    folder = Path(folder)
    path = folder / "study.json"
    if not path.is_file():
        raise BadInput(f"'{folder}' does not hold a study: it has no study.json")
    head = _read(path)
    told = _parse(path, Head, head)
    listed = _product(head) if told.planned is None else told.planned
    planned = [_parse(path, PlannedRow, row) for row in listed]
    for dataset in (*told.datasets, *(row.dataset for row in planned)):
        if not is_file_name(dataset):
            raise BadInput(
                f"'{path}': the data set {dataset[:80]!r} cannot be the name of a folder"
            )
    found = (read_method(folder, *row.key) for row in planned)
    rows = [row for row in found if row is not None]
    baselines = [row for dataset in told.datasets for row in read_baselines(folder, dataset)]
    for row in rows:
        for repeat in row.repeats:
            where = row_file(folder, row.dataset, row.label)
            _refuse_untested(repeat, told.metric, f"'{where}' is damaged: repeat {repeat.number}")
    for base in baselines:
        where = row_file(folder, base.dataset, "baselines")
        _refuse_untested(base, told.metric, f"'{where}' is damaged: {base.baseline[:80]!r}")
    parts = {"folder": folder, "planned": planned, "rows": rows, "baselines": baselines}
    return _parse(path, StudyResults, head | parts)


def _product(head: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of a file that does not list them: every method on every data set."""
    study = head["study"]
    parts = (study.get(name) for name in ("protocol", "tuner"))
    protocol, tuner = (part if isinstance(part, dict) else {} for part in parts)
    work = {
        "axes": {},
        "trials": tuner.get("trials") or 0,
        "repeats": study.get("repeats", 1),
        "folds": protocol.get("folds") if protocol.get("name") == "cross-validation" else 1,
    }
    return [{"dataset": d, "method": m} | work for d in head["datasets"] for m in head["methods"]]


def without_folders(text: str) -> str:
    """A text in which only the last part is left of paths: results are shown to others.

    >>> without_folders("cannot read the image '/home/me/photos/1.jpg': broken")
    "cannot read the image '1.jpg': broken"
    >>> without_folders("/home/my self/weights.pt"), without_folders("https://example.org/a/b")
    ('weights.pt', 'https://example.org/a/b')
    """
    if text.startswith(("/", "~/")) and "\n" not in text:
        return text.rstrip("/").rpartition("/")[2]
    return re.sub(r"(?<![\w:/.])~?/(?:[^\s/'\"]+/)+", "", text)


def _for_others(value: Any) -> Any:
    """A value of JSON with every text :func:`without_folders`."""
    if isinstance(value, str):
        return without_folders(value)
    if isinstance(value, Mapping):
        return {key: _for_others(one) for key, one in value.items()}
    return [_for_others(one) for one in value] if isinstance(value, list | tuple) else value


def write_study(results: StudyResults) -> None:
    """Write ``study.json``; rows have their own files."""
    names = ("name", "metric", "datasets", "methods", "facts", "study")
    values = {name: getattr(results, name) for name in names}
    if results.planned:
        values["planned"] = [dataclasses.asdict(row) for row in results.planned]
    values = _for_others(values)
    write_json(results.folder / "study.json", {"format": FORMAT} | values, sealed=True)


def row_file(folder: Path, dataset: str, label: str) -> Path:
    """The file of one row."""
    return folder / dataset / f"{label.replace(', ', ',').replace('/', '-')}.json"


def write_method(folder: Path, row: MethodRow, classes: RowClasses | None = None) -> None:
    """Write the file of one row, and its scores per test class."""
    path = row_file(folder, row.dataset, row.label)
    write_classes(classes_file(path), classes or RowClasses())
    values = _for_others(dataclasses.asdict(row))
    write_json(path, {"format": FORMAT} | values, sealed=True)


def _refuse_untested(tested: Tested, metric: str, what: str) -> None:
    """Refuse test scores without that of the study's metric."""
    if any(metric not in scores for scores in (*tested.separate, tested.concatenated)):
        raise BadInput(f"{what} has no score {metric!r}")


def read_method(folder: Path, dataset: str, label: str) -> MethodRow | None:
    """The file of one row, if it exists."""
    path = row_file(folder, dataset, label)
    return _parse(path, MethodRow, _read(path)) if path.is_file() else None


def method_classes(folder: Path, row: MethodRow) -> RowClasses | None:
    """The scores per test class of a row, if they were kept."""
    return read_classes(classes_file(row_file(folder, row.dataset, row.label)))


def baseline_classes(folder: Path, row: BaselineRow) -> RowClasses | None:
    """The scores per test class of a baseline, if they were kept."""
    return read_classes(_baseline_file(folder, row))


def _baseline_file(folder: Path, row: BaselineRow) -> Path:
    axes = {"group": row.group} if row.group and row.group != row.dataset else {}
    label = label_of("baselines", axes | {"baseline": row.baseline})
    return classes_file(row_file(folder, row.dataset, label))


def write_baselines(
    folder: Path,
    dataset: str,
    rows: tuple[BaselineRow, ...],
    classes: Mapping[tuple[str, str], RowClasses] | None = None,
) -> None:
    """Write the baselines of one data set; ``classes`` by group and baseline."""
    for row in rows:
        found = (classes or {}).get((row.group, row.baseline))
        write_classes(_baseline_file(folder, row), found or RowClasses())
    values = [dataclasses.asdict(row) for row in rows]
    content = {"format": FORMAT, "baselines": values}
    write_json(folder / dataset / "baselines.json", content, sealed=True)


def read_baselines(folder: Path, dataset: str) -> tuple[BaselineRow, ...]:
    """The baselines of one data set, if they exist."""
    path = folder / dataset / "baselines.json"
    if not path.is_file():
        return ()
    rows = _read(path).get("baselines")
    return _parse(path, tuple[BaselineRow, ...], rows)


def _read(path: Path) -> dict[str, Any]:
    """The mapping in a results file of this format."""
    values = read_json(path)
    found = values.pop("format", None) if isinstance(values, dict) else None
    if found != FORMAT:
        shown = found if isinstance(found, int) and abs(found) < 10**6 else "of something else"
        raise BadInput(f"'{path}' has the format {shown}, and this version reads {FORMAT}")
    return dict(values)


def _parse(path: Path, kind: type[Row], values: Any) -> Row:
    """A value of ``kind`` from the content of a file."""
    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part)[:80] for part in first["loc"])
        raise BadInput(f"'{path}': {place}: {' '.join(first['msg'].split())[:300]}") from error
