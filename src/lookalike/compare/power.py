"""The smallest difference that a study of some size would tell.

The variance of a difference has three parts: of trainings, of classes, and of both together. With
R trainings and C classes that of the mean is ``a / R + b / C + e / (R C)``, so what a larger study
would see can be computed. How many classes *this* difference would take is not said: that is a
function of its p-value, and as uncertain (Hoenig and Heisey, "The abuse of power", 2001).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from lookalike.compare.uncertainty import Difference, Floats, Ints, Sample

POWER = 0.8


@dataclass(frozen=True)
class Variances:
    """The three parts of the variance of a difference: of trainings, classes, and both together.

    With one training the first is unknown (None), and the last is inside the second.
    """

    trainings: float | None
    classes: float
    both: float

    @staticmethod
    def of(gap: Floats, queries: Ints) -> "Variances":
        """From the differences of two methods by training and class (analysis of variance)."""
        count, classes = gap.shape
        weights = queries / queries.mean()
        values = weights * (gap - np.average(gap.mean(axis=0), weights=queries))
        of_class = values.mean(axis=0)
        over_classes = float((of_class**2).sum() / (classes - 1))
        if count == 1:
            return Variances(None, over_classes, 0.0)
        of_training = values.mean(axis=1)
        rest = values - of_training[:, None] - of_class[None] + values.mean()
        both = float((rest**2).sum() / (count - 1) / (classes - 1))
        trainings = max(0.0, float(of_training.var(ddof=1)) - both / classes)
        return Variances(trainings, max(0.0, over_classes - both / count), both)

    def detectable(
        self,
        trainings: ArrayLike,
        classes: ArrayLike,
        pairs: int = 1,
        confidence: float = 0.95,
        power: float = POWER,
    ) -> NDArray[np.float64]:
        """The smallest true difference that is called better with probability ``power``.

        By the rule of :class:`lookalike.compare.uncertainty.Difference`, at the level of the first
        of ``pairs`` tests after Holm's correction.
        """
        count, number = np.asarray(trainings, float), np.asarray(classes, float)
        level = 1 - (1 - confidence) / 2 / pairs
        over_classes = (self.classes + self.both / count) / number
        by_classes = _quantiles(number, level, power)
        if self.trainings is None:
            return np.asarray(by_classes * np.sqrt(over_classes))
        over_trainings = (self.trainings + self.both / number) / count
        by_trainings = _quantiles(count, level, power)
        variance = over_trainings + over_classes
        share = over_trainings / np.where(variance > 0, variance, 1.0)
        weighted = share * by_trainings + (1 - share) * by_classes
        alone = by_trainings * np.sqrt(over_trainings)
        return np.asarray(np.maximum(weighted * np.sqrt(variance), alone))


def _quantiles(count: NDArray[np.float64], level: float, power: float) -> NDArray[np.float64]:
    """How many standard errors a true difference must have, over ``count`` trainings or classes."""
    return np.asarray(stats.t.ppf(level, count - 1) + stats.t.ppf(power, count - 1))


def variances(sample: Sample, difference: Difference) -> Variances | None:
    """The parts of the variance of a pair; None where scores per class were not kept."""
    tables = [sample.by_class.get(name) for name in (difference.better, difference.worse)]
    if tables[0] is None or tables[1] is None or difference.over_classes is None:
        return None
    return Variances.of(tables[0] - tables[1], sample.queries)
