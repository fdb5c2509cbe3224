import itertools

import numpy as np
import pytest
import scikit_posthocs
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lookalike.compare.statistics import (
    critical_difference,
    friedman,
    groups_without,
    holm,
    ranks,
    tournament,
)
from lookalike.errors import BadInput

# Table 6 of Demšar (JMLR 2006): AUC of four learners on fourteen data sets.
LEARNERS = ["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"]
DEMSAR = np.array(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.9751, 0.975],
        [0.957, 0.978, 0.946, 0.970],
    ]
)


def test_demsars_ranks_and_friedman():
    found = {one.name: one.rank for one in tournament(DEMSAR, LEARNERS)}
    # The paper's printed averages: 3.143, 2.000, 2.893, 1.964.
    assert [found[name] for name in LEARNERS] == pytest.approx(
        [3.143, 2.000, 2.893, 1.964], abs=5e-4
    )
    test = friedman(DEMSAR)
    # The paper's 9.28 is without scipy's correction for ties; with it the value is a bit larger.
    plain = 12 * 14 / (4 * 5) * (sum(r * r for r in found.values()) - 4 * 25 / 4)
    assert plain == pytest.approx(9.28, abs=0.01)
    assert test.statistic == pytest.approx(stats.friedmanchisquare(*DEMSAR.T).statistic)
    assert test.statistic > plain
    assert test.f_p < test.p < 0.05


@pytest.mark.parametrize(
    ("methods", "q"),
    # Table 5 of Demšar: critical values of the two-tailed Nemenyi test.
    [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (10, 3.164)],
)
def test_critical_difference_has_demsars_constants(methods, q):
    found = critical_difference(methods, blocks=20)
    assert found == pytest.approx(q * (methods * (methods + 1) / 120) ** 0.5, rel=1e-3)


def test_nemenyi_agrees_with_scikit_posthocs():
    scores = np.random.default_rng(3).normal(size=(9, 6)) + np.arange(6) * 0.6
    p = scikit_posthocs.posthoc_nemenyi_friedman(scores).to_numpy()
    average = ranks(scores).mean(axis=0)
    distance = critical_difference(6, 9, alpha=0.05)
    apart = np.abs(average[:, None] - average[None]) >= distance
    assert apart.any()
    assert not apart.all()
    assert ((p < 0.05) == apart)[~np.eye(6, dtype=bool)].all()


def test_ranks_share_ties():
    assert ranks([[0.5, 0.9, 0.5, 0.1]]).tolist() == [[2.5, 1.0, 2.5, 4.0]]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_agrees_with_the_definition(p_values):
    found = holm(p_values)
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    for place, at in enumerate(order):
        steps = [(len(p_values) - j) * p_values[order[j]] for j in range(place + 1)]
        assert found[at] == pytest.approx(min(1.0, max(steps)))


@given(st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)).filter(lambda p: p[0] < p[1])))
def test_groups_are_the_longest_runs_without_a_pair_that_is_apart(apart):
    runs = [range(a, b + 1) for a, b in itertools.combinations(range(7), 2)]
    whole = [run for run in runs if not any({a, b} <= set(run) for a, b in apart)]
    longest = [run for run in whole if not any(set(run) < set(other) for other in whole)]
    assert groups_without(apart, 7) == [tuple(run) for run in longest]


def test_equal_methods():
    same = np.ones((6, 3))
    assert friedman(same) is None
    assert [one.rank for one in tournament(same, list("abc"))] == [2.0] * 3


def test_every_block_alike_is_infinitely_sure():
    found = friedman(np.arange(12.0).reshape(4, 3))
    assert found.f_statistic == float("inf")
    assert 0 < found.f_p < 1e-15  # no p is 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ranks([[0.5, np.nan]]), "every block needs every method"),
        (lambda: ranks([0.5]), "table of blocks"),
        (lambda: tournament([[1.0, 2.0]], ["a", "a"]), "different names"),
        (lambda: critical_difference(3, 5, alpha=5), "between 0 and 1"),
        (lambda: critical_difference(1, 5), "two methods"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(BadInput, match=words):
        call()
