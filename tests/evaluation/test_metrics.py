"""Metrics by name: those of other packages, parametrised ones, and sentences for wrong ones."""

from pathlib import Path

import numpy as np
import pytest

from lookalike.errors import BadInput
from lookalike.evaluation import (
    METRICS,
    Ranks,
    check_metrics,
    diagnostic,
    evaluate,
    over_queries,
    score,
)
from lookalike.evaluation.metrics import more_is_better

pytestmark = pytest.mark.trust(
    "no_such_module:metric",
    "own_metrics:hits",
    "own_metrics:largest",
    "own_metrics:mean_rank",
    "own_metrics:nothing",
    "own_metrics:one_value",
    "own_metrics:shapeless",
)

SOURCE = """
from lookalike.evaluation import diagnostic

def mean_rank(ranks):
    return [float(ranks.values[a:b].mean()) for a, b in zip(ranks.offsets, ranks.offsets[1:])]

def hits(ranks, k):
    return ranks.total(ranks.values <= k)

@diagnostic
def largest(space):
    return space.embeddings.abs().max()

def one_value(ranks):
    return 1.0

def shapeless(points):
    return 1.0
"""


@pytest.fixture(scope="module", autouse=True)
def package(tmp_path_factory):
    folder = tmp_path_factory.mktemp("package")
    (folder / "own_metrics.py").write_text(SOURCE)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield


@pytest.fixture
def points():
    random = np.random.default_rng(0)
    labels = np.append(random.integers(0, 5, 60), 99)  # the last has nothing relevant
    return random.normal(size=(61, 6)) + labels[:, None] % 5, labels


def test_a_function_of_another_module(points):
    names = ("own_metrics:mean_rank", "own_metrics:hits@3", "precision@3", "own_metrics:largest")
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning, match="empty slice"):
        found = score(*points, names)
    assert list(found.scores) == list(names)
    assert found.scores["own_metrics:hits@3"] == pytest.approx(3 * found.scores["precision@3"])
    assert np.isnan(found.per_query["own_metrics:mean_rank"][-1])
    unit = points[0] / np.linalg.norm(points[0], axis=1, keepdims=True)
    assert found.scores["own_metrics:largest"] == pytest.approx(np.abs(unit).max())


def test_registered_by_name(points, monkeypatch):
    monkeypatch.setattr(METRICS, "_entries", dict(METRICS._entries))

    @METRICS.register("miss@k")
    @diagnostic
    def miss_at(ranks: Ranks, k: int):
        """[r_1 > k]."""
        return ranks.first() > k

    found = evaluate(*points, ("miss@2", "recall@2"))
    assert found["miss@2"] == pytest.approx(1 - found["recall@2"])
    assert not more_is_better("miss@2")
    with pytest.raises(BadInput, match=r"no metric 'mis@7'; did you mean 'miss@7'\?"):
        check_metrics(["mis@7"])


@pytest.fixture
def median_rank(monkeypatch):
    """A metric that is not a mean over queries."""
    monkeypatch.setattr(METRICS, "_entries", dict(METRICS._entries))

    @METRICS.register("median-rank")
    @diagnostic
    @over_queries(np.median)
    def median_rank(ranks: Ranks):
        """Median over queries of r_1."""
        return ranks.first()

    return "median-rank"


def test_a_summary_over_all_queries(points, median_rank):
    """Not the mean of the medians of blocks."""
    whole = score(*points, (median_rank, "mrr"))
    first = 1 / whole.per_query["mrr"]
    assert whole.scores[median_rank] == np.nanmedian(first)
    assert whole.scores["mrr"] == pytest.approx(np.nanmean(1 / first))
    assert evaluate(*points, (median_rank,)) == {median_rank: np.nanmedian(first)}
    parts = [[1.0, 1.0, 9.0], [8.0, 7.0]]

    class Blocks:
        """Five queries in two blocks, with one relevant item each."""

        def rank(self, *_sets, **_options):
            for values in parts:
                yield Ranks(np.arange(len(values) + 1), np.array(values))

    assert score(*points, median_rank, rerank=Blocks()).scores == {median_rank: 7}


def test_a_summary_by_class_and_in_intervals(points, median_rank):
    found = score(*points, (median_rank, "map"), confidence=0.9)
    values = found.per_query[median_rank]
    for row in found.per_class()[:-1]:
        assert row.scores[median_rank] == np.median(values[points[1] == row.label])
    assert np.isnan(found.per_class()[-1].scores[median_rank])
    known = values[~np.isnan(values)]
    low, high = found.intervals[median_rank]
    assert {low, high} <= {*known, *(known + 0.5)}  # quantiles of medians, not of means
    assert low <= np.median(known) <= high
    assert found.intervals["map"] == score(*points, ("map",), confidence=0.9).intervals["map"]


def test_a_name_twice_counts_once(points):
    twice = score(*points, ("map", "map"))
    assert twice.scores == evaluate(*points, ("map",))
    assert len(twice.per_query["map"]) == 61


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("ndgc@10", r"there is no metric 'ndgc@10'; did you mean 'ndcg@10'\?"),
        ("map@", "the k of metric 'map@' must be a whole number from 1, not ''"),
        ("recall@k", "the k of metric 'recall@k' must be a whole number from 1, not 'k'"),
        ("recall@-1", "must be a whole number from 1, not '-1'"),
        ("pi_ratio", "no metric 'pi_ratio'; did you mean 'pi-ratio'"),
        ("nmi@5", "there is no metric 'nmi@5'"),
        ("own_metrics:hits", "metric 'own_metrics:hits': missing a required argument: 'k'"),
        ("own_metrics:mean_rank@2", "too many positional arguments"),
        ("own_metrics:nothing", "cannot import 'own_metrics:nothing' for the metrics"),
        ("no_such_module:metric", "cannot import 'no_such_module:metric' for the metrics"),
        ("own_metrics:shapeless", "first argument must be called 'ranks' .* not 'points'"),
        ("own_metrics:one_value", r"one value per query, shape \(61,\), not \(\)"),
    ],
)
def test_what_is_no_metric_is_refused_in_a_sentence(points, name, sentence):
    with pytest.raises(BadInput, match=sentence):
        evaluate(*points, [name])


def test_scores_are_those_of_which_more_is_better():
    scores = [n for n in METRICS.names() if more_is_better(n.replace("@k", "@1"))]
    assert {"recall@k", "map@r", "nmi", "ami", "f1"} <= set(scores)
    assert not {"pi-ratio", "rho", "alignment", "uniformity"} & set(scores)
    assert not more_is_better("loss")
    assert not more_is_better("no_such_module:metric")


@pytest.mark.parametrize("name", METRICS.names())
def test_every_metric_is_on_the_page(name):
    page = Path(__file__).parents[2] / "docs" / "evaluation.md"
    assert f"`{name}`" in page.read_text(encoding="utf-8")
