import numpy as np
import pytest

from lookalike.errors import BadInput
from lookalike.evaluation import score
from lookalike.evaluation.class_table import ClassTable
from lookalike.evaluation.metrics import over_queries
from lookalike.registry import METRICS


@pytest.fixture
def evaluated():
    """Classes of 1 to 5 items; the class of one item has no query that counts."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(6), [3, 1, 4, 2, 5, 3])
    return score(rng.normal(size=(18, 4)), labels, ["recall@1", "map@r", "rho", "mrr"])


def test_the_mean_weighted_by_queries_is_the_score(evaluated):
    table = ClassTable.of(evaluated, [f"class {i}" for i in range(6)])
    assert table.classes == ("class 0", "class 2", "class 3", "class 4", "class 5")
    assert table.queries.tolist() == [3, 4, 2, 5, 3]
    assert table.metrics == ("recall@1", "map@r", "mrr")  # rho is of the whole set
    for metric in table.metrics:
        assert table.score(metric) == pytest.approx(evaluated.scores[metric], rel=1e-12)
    of_class = {one.label: one.scores for one in evaluated.per_class()}
    assert table.column("map@r")[1] == pytest.approx(of_class[2]["map@r"])


def test_a_median_over_queries_is_not_the_mean_of_classes():
    @METRICS.register("median-first-rank-here")
    @over_queries(np.median)
    def median_first_rank(ranks):
        return ranks.first()

    rows, labels = np.eye(4), [0, 0, 1, 1]
    both = score(rows, labels, ["median-first-rank-here", "recall@1"])
    assert ClassTable.of(both, "ab").metrics == ("recall@1",)
    assert ClassTable.of(score(rows, labels, ["median-first-rank-here"]), "ab") is None


def test_text_keeps_every_digit(evaluated):
    table = ClassTable.of(evaluated, ['a, "b"', "b", "c\nc", "d", "e", "é"])
    again = ClassTable.from_csv(table.as_csv(), "classes.csv")
    assert (again.classes, again.metrics) == (table.classes, table.metrics)
    assert np.array_equal(again.queries, table.queries)
    assert np.array_equal(again.values, table.values)


@pytest.mark.parametrize(
    "text", ["", "a,b\n1,2\n", "class,queries,map@r\na,x,1\n", "class,queries\na"]
)
def test_another_table_is_refused(text):
    with pytest.raises(BadInput, match=r"'classes\.csv' is not a table of scores per class"):
        ClassTable.from_csv(text, "classes.csv")
