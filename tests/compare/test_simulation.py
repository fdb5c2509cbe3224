"""Simulated studies: how often methods are called different that are not, and those that are.

Classes are drawn anew for every study from a population. On each class every method is better or
worse by chance, but over the population all are equal. What studies of four methods, 5 or 10
training runs of 4 folds and 100 test classes found (any of six pairs called "better" in 2,000
studies, the rest in 400):

=========================  ===========  ==========  =====================
what varies most           any better   power       intervals that cover
=========================  ===========  ==========  =====================
classes                          3.0 %      93.4 %                 96.1 %
classes and training runs        2.5 %      90.2 %                 95.3 %
training runs                    4.5 %      86.1 %                 94.6 %
=========================  ===========  ==========  =====================

Power is for a true gap of the width of the interval over training runs x classes. In the last world
training runs alone decide: the rule is Student's paired test with Holm's correction, whose level is
5 %. So close to it, 400 studies cannot tell a rate below from one above (their standard error is
1.1 %, and the first 400 of these happen to have 5.8 %); 2,000 can. The seeds are fixed, and no
decision depends on the last digits of a number.
"""

from dataclasses import dataclass

import numpy as np
import pytest

from lookalike.compare.uncertainty import Sample, differences

METHODS = ("a", "b", "c", "d")
FOLDS = 4


@dataclass(frozen=True)
class World:
    """Standard deviations of scores, and the size of a study."""

    by_class: float
    """Of a method on a class: better at some, worse at others."""
    by_training: float
    by_both: float = 0.02
    trainings: int = 5
    classes: int = 100

    def study(self, rng, gap=0.0):
        """Scores [method, training, fold, class], and queries; the first is better by ``gap``."""
        shape = (len(METHODS), self.trainings, FOLDS, self.classes)
        level = rng.normal(0.4, 0.15, self.classes)  # some classes are hard for all
        own = rng.normal(0, self.by_class, (len(METHODS), 1, 1, self.classes))
        training = rng.normal(0, self.by_training, (len(METHODS), self.trainings, 1, 1))
        scores = level + own + training + rng.normal(0, self.by_both, shape)
        scores[0] += gap
        return scores, rng.integers(10, 60, self.classes)


WORLDS = {
    "classes": World(by_class=0.02, by_training=0.0005),
    "classes and training runs": World(
        by_class=0.02, by_training=0.004, by_both=0.005, trainings=10
    ),
    "training runs": World(by_class=0.004, by_training=0.01, by_both=0.005, trainings=10),
}


def judged(scores, queries, resamples=2_000):
    by_class = scores.mean(axis=2)
    totals = np.average(by_class, axis=2, weights=queries)
    sample = Sample(METHODS, totals, dict(zip(METHODS, by_class, strict=True)), queries)
    return differences(sample, resamples=resamples)


def simulate(world, studies, seed=0):
    """Shares of studies with any false claim, and of intervals that cover; their mean width."""
    rng = np.random.default_rng(seed)
    found = [judged(*world.study(rng)) for _ in range(studies)]
    bounds = [one.over_classes for differences in found for one in differences]
    false = np.mean([any(one.holds for one in differences) for differences in found])
    covered = np.mean([each.low <= 0 <= each.high for each in bounds])
    return false, covered, np.mean([each.high - each.low for each in bounds])


def power(world, gap, studies, seed=1):
    """The share of the three true differences that are called better."""
    rng = np.random.default_rng(seed)
    told = 0
    for _ in range(studies):
        found = judged(*world.study(rng, gap))
        told += sum(one.holds for one in found if one.better == "a")
    return told / studies / (len(METHODS) - 1)


def test_equal_methods_are_seldom_called_different():
    """A quick look at what the slow test counts."""
    false, covered, width = simulate(WORLDS["classes"], 60)
    assert false <= 0.05
    assert covered > 0.9
    assert power(WORLDS["classes"], width, 30) >= 0.7


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_at_most_5_per_cent_of_studies_of_equal_methods_call_some_different(name):
    false, _, _ = simulate(WORLDS[name], 2_000)
    _, covered, width = simulate(WORLDS[name], 400)
    told = power(WORLDS[name], width, 400)
    print(f"{name}: {false:.3f} called better, covered {covered:.3f}, power {told:.3f}")
    assert false <= 0.05
    assert covered > 0.93
    assert told >= 0.7


def test_what_holds_for_these_classes_only_is_common_and_said():
    """Training runs agree on these classes, other classes would disagree."""
    rng = np.random.default_rng(4)
    scopes = [one.scope for _ in range(20) for one in judged(*WORLDS["classes"].study(rng))]
    assert scopes.count("this test set") > 20
    assert scopes.count("generalizes") < 10
