"""AccuracyCalculator gives PML's numbers, by ranks and by neighbours."""

import math

import pytest
import pytorch_metric_learning.distances as their_distances
import torch
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator as Theirs
from pytorch_metric_learning.utils.inference import CustomKNN as TheirKNN

from lookalike.errors import BadInput
from lookalike.pml.utils.accuracy_calculator import AccuracyCalculator
from lookalike.pml.utils.inference import CustomKNN

RANKED = ("NMI", "AMI")


@pytest.fixture
def sets():
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 12, (120,), generator=generator)
    labels[0] = 99  # alone
    others = torch.randint(0, 14, (90,), generator=generator)
    centres = torch.randn(100, 6, generator=generator)
    noise = torch.randn(210, 6, generator=generator)
    rows = centres[torch.cat([labels, others])] + noise
    return rows[:120], labels, rows[120:], others


def near(a, b):
    return (a - b).abs() <= 1


SETTINGS = [
    {},
    {"avg_of_avgs": True},
    {"return_per_class": True},
    {"k": 10},
    {"k": "max_bin_count"},
    {"k": 5, "avg_of_avgs": True},
    {"label_comparison_fn": near},
]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("which", ["alone", "gallery", "part"])
def test_equals_pml(settings, which, sets):
    rows, labels, others, classes = sets
    arguments = {
        "alone": (rows, labels),
        "gallery": (rows, labels, others, classes),
        "part": (rows[:50], labels[:50], rows, labels, True),
    }[which]
    found = AccuracyCalculator(exclude=RANKED, **settings).get_accuracy(*arguments)
    theirs = Theirs(exclude=RANKED, device=torch.device("cpu"), **settings)
    expected = theirs.get_accuracy(*arguments)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=1e-6, nan_ok=True), name  # PML: float32


def test_clusters_and_numpy(sets):
    rows, labels, _, _ = sets
    names = ("AMI", "NMI")
    found = AccuracyCalculator(include=names).get_accuracy(rows.numpy(), labels.numpy())
    expected = Theirs(include=names, device=torch.device("cpu")).get_accuracy(rows, labels)
    assert found == pytest.approx(expected)


def test_a_search_of_ones_own(sets):
    rows, labels, _, _ = sets
    mine, other = CustomKNN("cosine", batch_size=7), TheirKNN(their_distances.CosineSimilarity())
    found = AccuracyCalculator(exclude=RANKED, knn_func=mine).get_accuracy(rows, labels)
    theirs = Theirs(exclude=RANKED, knn_func=other, device=torch.device("cpu"))
    # a tie in float32 may be ranked either way
    assert found == pytest.approx(theirs.get_accuracy(rows, labels), abs=1e-4)


def test_nothing_relevant(sets):
    rows, _, _, _ = sets
    found = AccuracyCalculator(exclude=RANKED).get_accuracy(rows, torch.arange(120))
    assert all(math.isnan(value) for value in found.values())


def test_scores_of_a_subclass_and_choices(sets):
    rows, labels, _, _ = sets

    class More(AccuracyCalculator):
        def calculate_number(self, query, **kwargs):
            return len(query)

        def calculate_precision_at_1(self, **kwargs):
            return -1.0

    calculator = More(exclude=RANKED)
    found = calculator.get_accuracy(rows, labels, include=("number", "precision_at_1"))
    assert found == {"number": 120, "precision_at_1": -1.0}
    assert "number" in calculator.get_curr_metrics()
    with pytest.raises(BadInput, match="did you mean 'precision_at_1'"):
        AccuracyCalculator(include=("precision_at_2",))
    with pytest.raises(BadInput, match="exclude each other"):
        AccuracyCalculator(avg_of_avgs=True, return_per_class=True)
    for kind in (BadInput, NotImplementedError):  # as PML raises
        with pytest.raises(kind, match="clustering"):
            AccuracyCalculator(label_comparison_fn=near)
    with pytest.raises(BadInput, match="first references"):
        calculator.get_accuracy(rows, labels, rows.flip(0), labels, True)
    with pytest.raises(BadInput, match="k = 0"):
        AccuracyCalculator(k=0)


def test_a_small_k_is_told(sets, caplog):
    rows, labels, *_ = sets
    with caplog.at_level("INFO"):
        AccuracyCalculator(exclude=RANKED, k=3).get_accuracy(rows, labels)
        AccuracyCalculator(exclude=RANKED, k="max_bin_count").get_accuracy(rows, labels)
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING", "INFO"]
    assert "k = 3 is less than" in caplog.text


def test_what_a_subclass_gets(sets):
    """The arguments of PML's own ``calculate_`` methods."""

    class Given(AccuracyCalculator):
        def calculate_given(
            self, knn_labels, query_labels, not_lone_query_mask, label_counts, **kwargs
        ):
            unique, number = label_counts
            assert unique.tolist() == sorted(set(query_labels.tolist()))
            assert number.tolist() == [(query_labels == each).sum() for each in unique]
            assert not_lone_query_mask.sum() == 119
            return knn_labels.shape

        def requires_knn(self):
            return [*super().requires_knn(), "given"]

    rows, labels, *_ = sets
    assert Given(include=("given",), k=4).get_accuracy(rows, labels) == {"given": (120, 4)}


@pytest.mark.parametrize("itself", [False, True])
@pytest.mark.parametrize("settings", [{}, {"avg_of_avgs": True}, {"return_per_class": True}])
def test_methods_called_as_pmls(itself, settings, sets):
    _, labels, *_ = sets
    labels = labels[1:]  # without the one that is alone
    generator = torch.Generator().manual_seed(2)
    given = {
        "knn_labels": labels[torch.randint(0, len(labels), (len(labels), 30), generator=generator)],
        "query_labels": labels,
        "not_lone_query_mask": torch.ones(len(labels), dtype=torch.bool),
        "label_counts": torch.unique(labels, return_counts=True),
        "ref_includes_query": itself,
    }
    mine, other = (kind(exclude=RANKED, **settings) for kind in (AccuracyCalculator, Theirs))
    functions = mine.get_function_dict()
    assert functions.keys() == other.get_function_dict().keys()
    for name, function in functions.items():
        expected = getattr(other, f"calculate_{name}")(**given)
        assert function(**given) == pytest.approx(expected, rel=1e-5)
