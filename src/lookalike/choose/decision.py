"""The recommendation, from the results of a study.

Validation classes decide everything: the method, its settings and epochs, the best of what needs no
training, and whether training is worth it. The last of these on each fold with settings that the
other folds chose, at the last epoch: the best epoch of a fold is the best *on that fold*, and the
start is among them, so by it a training never loses to its start. Then both are tested once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from lookalike.compare.contenders import BASELINES, Contender, Gathered
from lookalike.compare.sampling import class_bounds, sample_of
from lookalike.compare.uncertainty import Bounds, Difference, differences
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

    @property
    def half(self) -> float | None:
        """Half the width of the interval."""
        return None if self.bounds is None else (self.bounds.high - self.bounds.low) / 2


@dataclass(frozen=True)
class Decision:
    """What is recommended, and why.

    Attributes:
        metric: The metric of all scores.
        candidates: All that were tested, the best on validation classes first.
        trained: The trained one that validation chose; None where none was finished.
        untrained: The untrained one that validation chose.
        validated: What training gains on the validation classes, over folds, as a one-sided 95 %
            interval (its ``low``); None where none was trained.
        gain: The difference between these two on the test classes; None where none was trained.
        to_others: The differences between the recommended and every other candidate, corrected
            for their number; empty where none was trained.
        test_classes: How many test classes there are.
        trainings: How often each method was trained and tested.
    """

    metric: str
    candidates: tuple[Candidate, ...]
    trained: Candidate | None
    untrained: Candidate
    validated: Interval | None
    gain: Difference | None
    to_others: tuple[Difference, ...]
    test_classes: int
    trainings: int

    @property
    def training_helps(self) -> bool:
        """Whether the trained one is shown to be better on the validation classes."""
        return self.trained is not None and self.validated is not None and self.validated.low > 0

    @property
    def confirmed(self) -> bool:
        """Whether the test shows the same, for other classes too."""
        gain, trained = self.gain, self.trained
        return bool(gain and trained and gain.holds and gain.better == trained.name)

    @property
    def chosen(self) -> Candidate:
        """The recommendation."""
        return self.trained if self.trained and self.training_helps else self.untrained

    @property
    def tied(self) -> tuple[str, ...]:
        """The candidates to which no difference of the recommended one can be shown."""
        found = [d for d in self.to_others if not d.holds]
        return tuple(self.other(d) for d in found)

    @property
    def beaten(self) -> tuple[str, ...]:
        """The candidates that the recommended one is better than, for other classes too."""
        mine = self.chosen.name
        return tuple(d.worse for d in self.to_others if d.holds and d.better == mine)

    def other(self, difference: Difference) -> str:
        """The one of a pair that is not the recommended one."""
        worse, better = difference.worse, difference.better
        return worse if better == self.chosen.name else better


def decide(gathered: Gathered, metric: str) -> Decision:
    """The recommendation by the results of one study.

    Args:
        gathered: The finished methods of the study, and its baselines.
        metric: What the scores of the recommendation are.

    Returns:
        The decision.

    Raises:
        LookalikeError: There are no baselines to compare with.
    """
    rows = gathered.contenders
    bounds = class_bounds(rows, metric)
    made = {one.name: _candidate(one, gathered, metric, bounds.get(one.name)) for one in rows}
    ordered = sorted(made.values(), key=lambda one: -one.validation)
    trained = next((one for one in ordered if one.trained), None)
    untrained = next((one for one in ordered if not one.trained), None)
    if untrained is None:
        raise LookalikeError("the study has no baselines, so nothing can be recommended")
    by_name = {one.name: one for one in rows}
    gain, validated = None, None
    if trained is not None:
        sample = sample_of([by_name[trained.name], by_name[untrained.name]], metric)
        (gain,) = differences(sample)
        methods = [one.row for one in ordered if isinstance(one.row, MethodRow)]
        base = untrained.row
        gains = validated_gains(methods, base.validation if isinstance(base, BaselineRow) else ())
        validated = interval(gains, ONE_SIDED) if gains else None
    classes = [len(table.queries) for one in rows for table in one.class_blocks(metric).values()]
    decision = Decision(
        metric=metric,
        candidates=tuple(ordered),
        trained=trained,
        untrained=untrained,
        validated=validated,
        gain=gain,
        to_others=(),
        test_classes=max(classes, default=0),
        trainings=max((one.row.seeds for one in rows if one.row), default=0),
    )
    if trained is None:
        return decision
    others = [one.name for one in rows if one.name != decision.chosen.name]
    pairs = differences(sample_of(rows, metric), not_among=others)
    return replace(decision, to_others=tuple(pairs))


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


def _candidate(one: Contender, gathered: Gathered, metric: str, bounds: Bounds | None) -> Candidate:
    score = fmean(one.blocks(metric).values())
    if one.row is not None:
        return Candidate(one.name, one.dim or 0, one.row.validation or 0.0, score, bounds, one.row)
    baselines = [row for study in gathered.studies for row in study.baselines]
    row = next(r for r in baselines if BASELINES.get(r.baseline, r.baseline) == one.name)
    return Candidate(one.name, row.dim, fmean(row.validation), score, bounds, row)
