"""The recommendation, from the results of a study.

Validation classes decide everything: the method, its settings and epochs, the best of what needs no
training, and whether training is worth it. The last of these on each fold with settings that the
other folds chose, at the last epoch: the best epoch of a fold is the best *on that fold*, and the
start is among them, so by it a training never loses to its start. Then all are tested once, and
:mod:`lookalike.compare` says what the test shows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from lookalike.compare.comparison import OnDataset, compare
from lookalike.compare.contenders import BASELINES, MethodResult, ResultSet
from lookalike.compare.uncertainty import Bounds, Difference
from lookalike.errors import LookalikeError
from lookalike.study.intervals import Interval, interval
from lookalike.study.results import BaselineRow, MethodRow

ONE_SIDED = 0.9
"""The level of a two-sided interval whose lower end is that of a one-sided one of 95 %."""


@dataclass(frozen=True)
class Candidate:
    """A method with its scores.

    Attributes:
        name: As in tables.
        dim: Numbers of an embedding.
        validation: The score that chose it, on validation classes.
        score: The score on test classes, the mean over trainings.
        bounds: The 95 % interval over trainings and test classes, where there is one.
        row: The row of the study that it is.
    """

    name: str
    dim: int
    validation: float
    score: float
    bounds: Bounds | None
    row: MethodRow | BaselineRow

    @property
    def trained(self) -> bool:
        """Whether it was trained."""
        return isinstance(self.row, MethodRow)


@dataclass(frozen=True)
class Decision:
    """What is recommended, and why.

    Attributes:
        candidates: All that were tested, the best on validation classes first.
        compared: What their test scores show, as ``lookalike compare`` has it.
        validated: What training gains on the validation classes, over folds, as a one-sided 95 %
            interval (its ``low``); None where none was trained.
        test_classes: How many test classes there are.
    """

    candidates: tuple[Candidate, ...]
    compared: OnDataset
    validated: Interval | None
    test_classes: int

    @property
    def metric(self) -> str:
        """The metric of all test scores."""
        return self.compared.metric

    @property
    def trainings(self) -> int:
        """How often each method was trained and tested."""
        return max(self.compared.trainings, 1)

    @property
    def trained(self) -> Candidate | None:
        """The trained one that validation chose; None where none was finished."""
        return next((one for one in self.candidates if one.trained), None)

    @property
    def untrained(self) -> Candidate:
        """The untrained one that validation chose."""
        return next(one for one in self.candidates if not one.trained)

    @property
    def training_helps(self) -> bool:
        """Whether the trained one is shown to be better on the validation classes."""
        return self.validated is not None and self.validated.low > 0

    @property
    def chosen(self) -> Candidate:
        """The recommendation."""
        return self.trained if self.trained and self.training_helps else self.untrained

    @property
    def gain(self) -> Difference | None:
        """The difference between the trained and the untrained one on the test classes."""
        trained = self.trained
        if trained is None:
            return None
        base = self.untrained.name
        return next((d for d in self._of(trained) if base in (d.better, d.worse)), None)

    @property
    def confirmed(self) -> bool:
        """Whether the test shows the same, for other classes too."""
        gain, trained = self.gain, self.trained
        return bool(gain and trained and gain.holds and gain.better == trained.name)

    @property
    def to_others(self) -> tuple[Difference, ...]:
        """The differences between the recommended and other candidates."""
        return self._of(self.chosen)

    def _of(self, one: Candidate) -> tuple[Difference, ...]:
        pairs = self.compared.differences
        return tuple(pair for pair in pairs if one.name in (pair.better, pair.worse))

    @property
    def tied(self) -> tuple[str, ...]:
        """The candidates to which no difference of the recommended one can be shown."""
        return tuple(self.other(pair) for pair in self.to_others if not pair.holds)

    @property
    def beaten(self) -> tuple[str, ...]:
        """The candidates that the recommended one is better than, for other classes too."""
        mine = self.chosen.name
        return tuple(d.worse for d in self.to_others if d.holds and d.better == mine)

    def other(self, difference: Difference) -> str:
        """The one of a pair that is not the recommended one."""
        worse, better = difference.worse, difference.better
        return worse if better == self.chosen.name else better


def decide(gathered: ResultSet, metric: str) -> Decision:
    """The recommendation by the results of one study.

    Args:
        gathered: The finished methods of the study, and its baselines.
        metric: What the scores of the recommendation are.

    Returns:
        The decision.

    Raises:
        LookalikeError: There are no baselines to compare with.
    """
    (compared,) = compare(gathered, metric, allow_unfair=True).datasets
    found = [_candidate(one, gathered, compared) for one in compared.contenders]
    ordered = sorted(found, key=lambda one: -one.validation)
    base = next((one.row for one in ordered if isinstance(one.row, BaselineRow)), None)
    if base is None:
        raise LookalikeError("the study has no baselines, so nothing can be recommended")
    methods = [one.row for one in ordered if isinstance(one.row, MethodRow)]
    gains = validated_gains(methods, base.validation)
    models = [model for one in compared.contenders for model in one.models]
    sizes = [len(model.classes.queries) for model in models if model.classes]
    return Decision(
        candidates=tuple(ordered),
        compared=compared,
        validated=interval(gains, ONE_SIDED) if gains else None,
        test_classes=max(sizes, default=0),
    )


def validated_gains(rows: Sequence[MethodRow], untrained: Sequence[float]) -> list[float]:
    """What training gains on each fold, with the method and settings that the other folds chose.

    Args:
        rows: The methods with their trials.
        untrained: The validation score of each fold of what is not trained.

    Returns:
        One gain for each fold, of the last epoch; empty where there are fewer than two folds.
    """
    trials = [trial for row in rows for trial in row.trials if trial.state == "complete"]
    folds = len(untrained)
    if folds < 2 or not trials:
        return []
    gains = []
    for fold in range(folds):
        others = [at for at in range(folds) if at != fold]
        best = max(trials, key=lambda trial: fmean(trial.folds[at] for at in others))
        gains.append((best.last or best.folds)[fold] - untrained[fold])
    return gains


def _candidate(one: MethodResult, gathered: ResultSet, compared: OnDataset) -> Candidate:
    score = fmean(model.scores[compared.metric] for model in one.models)
    bounds = compared.bounds.get(one.name)
    if one.row is not None:
        return Candidate(one.name, one.dim or 0, one.row.validation or 0.0, score, bounds, one.row)
    baselines = [row for study in gathered.studies for row in study.baselines]
    row = next(r for r in baselines if BASELINES.get(r.baseline, r.baseline) == one.name)
    return Candidate(one.name, row.dim, fmean(row.validation), score, bounds, row)
