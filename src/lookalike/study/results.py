"""The results of a study: trials, repeats, rows of methods and of baselines."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, FiniteFloat

from lookalike.runs.scores import Scores
from lookalike.study.intervals import Interval, summarize

if TYPE_CHECKING:
    from lookalike.evaluation.class_table import ClassTable

LARGEST = 3.4e38
"""No hyper-parameter is larger: the importance of each is computed in float32."""
State = Literal["complete", "pruned", "failed"]
Which = Literal["separate", "concatenated"]
Cell = tuple[int, int]
"""Repeat and fold."""


def label_of(method: str, axes: Mapping[str, str]) -> str:
    """The short name of a row: the method and the values of its axes.

    >>> label_of("triplet", {"network": "resnet50", "size": "64"})
    'triplet, resnet50, 64'
    """
    return ", ".join((method, *axes.values()))


def finite(parameters: dict[str, Any]) -> dict[str, Any]:
    """The hyper-parameters; numbers that no search draws are refused."""
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
    parameters: Annotated[dict[str, Any], AfterValidator(finite)]
    """By dotted key: ``{"loss.margin": 0.1, "optim.lr": 1e-3}``."""
    state: State
    value: FiniteFloat | None
    """The mean over folds of the best validation score; None unless complete."""
    folds: tuple[float, ...]
    """The best validation score of each fold that was run."""
    seconds: float
    error: str = ""
    """Why it failed."""
    last: tuple[float, ...] = ()
    """The validation score of each fold's last epoch, which no score chose; where it is known."""


def best_trial(trials: Sequence[Trial], asked: int) -> Trial | None:
    """The complete trial with the best value, the first of equals; None where all failed.

    Where nothing was searched (``asked`` is 0), the method as it was given.
    """
    if not asked:
        return Trial(0, {}, "complete", None, (), 0.0)
    complete = [trial for trial in trials if trial.value is not None]
    return max(complete, key=lambda t: (t.value or 0.0, -t.number), default=None)


@dataclass(frozen=True)
class RowClasses:
    """Scores per test class of a row, of each model and of each repeat's concatenated embeddings.

    ``concatenated`` is empty where there is one fold.
    """

    separate: Mapping[Cell, "ClassTable"] = field(default_factory=dict)
    concatenated: Mapping[int, "ClassTable"] = field(default_factory=dict)


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
class Reading:
    """One winner of a search whose test scores were read."""

    trial: int
    """The number of the trial that won."""
    trials: int
    """Of how many; 0 where nothing was searched."""
    repeats: int
    """How often it was trained and tested."""
    score: float
    """The mean of its test scores, by the metric of the study."""
    reason: str = ""
    """Why it was replaced; empty while it stands."""


@dataclass(frozen=True)
class PlannedRow:
    """One row that a study asks for: how much work it is, and its settings."""

    dataset: str
    method: str
    axes: dict[str, str]
    trials: int
    repeats: int
    folds: int
    config: Annotated[dict[str, Any], AfterValidator(_with_protocol)] = field(default_factory=dict)
    """The resolved ``RunConfig``, before any hyper-parameter is chosen."""
    metric: str = "map@r"
    identity: str = ""
    outdated: str = ""
    group: str = ""
    """The key of its facts and baselines; empty: the data set."""
    baseline: bool = False
    """Whether it is one of the baselines of its group: nothing is trained."""
    dim: int = 0
    """The size of the embedding, of a baseline."""
    former: tuple[Reading, ...] = ()
    """Winners that were tested before the row was begun anew."""

    @property
    def label(self) -> str:
        """The method and the values of its axes."""
        return label_of(self.method, self.axes)

    @property
    def key(self) -> tuple[str, str]:
        """What identifies a row of a study."""
        return self.dataset, self.label


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
    readings: tuple[Reading, ...] = ()
    """Every winner whose test scores were read, the last one that of the repeats."""

    @property
    def label(self) -> str:
        """The method and the values of its axes."""
        return label_of(self.method, self.axes)

    @property
    def times_read(self) -> int:
        """How many winners were tested: more than one is a choice that knew test scores."""
        return max(len(self.readings), int(bool(self.repeats)))

    @property
    def read_again(self) -> str:
        """A sentence for a row whose test set was read for more than one winner; else empty."""
        if self.times_read < 2:
            return ""
        scores = ", then ".join(f"{100 * one.score:.1f} ({_origin(one)})" for one in self.readings)
        return f"the test set was read {self.times_read} times: {scores}"

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
    config: Annotated[dict[str, Any], AfterValidator(_with_protocol)] = field(default_factory=dict)
    """The resolved ``RunConfig``: a projection as the head, and no epochs."""


@dataclass(frozen=True)
class StudyResults:
    """The results of a study, finished or not."""

    folder: Path
    name: str
    metric: str
    """The metric that selected epochs and trials, on validation classes."""
    study: dict[str, Any]
    """The resolved study file: data, base, methods, protocol, tuner, repeats, seed."""
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
    def datasets(self) -> tuple[str, ...]:
        """The names of the data sets."""
        return tuple(dict.fromkeys(row.dataset for row in self.planned))

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of the methods."""
        return tuple(dict.fromkeys(row.method for row in self.planned))

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of what varies besides the method."""
        return tuple(dict.fromkeys(axis for row in self.planned for axis in row.axes))

    @property
    def chosen(self) -> bool:
        """Whether every winner is chosen: all trials of every row are finished.

        Before that nobody looks at a test score, of a baseline either.
        """
        tried = {(row.dataset, row.label): len(row.trials) for row in self.rows}
        return all(tried.get(row.key, 0) >= row.trials for row in self.planned)

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


def _origin(one: Reading) -> str:
    """What a winner won, and why it was replaced."""
    best = f"best of {one.trials} trials" if one.trials else "settings as given"
    return f"{best}; {one.reason}" if one.reason else best
