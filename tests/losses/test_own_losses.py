"""A user's own loss or miner: what a subclass writes is what is computed."""

import pytest
import torch
from torch import nn

from lookalike import losses, miners
from lookalike.errors import BadInput
from lookalike.losses import PairLoss, ProxyLoss, Terms
from lookalike.miners import Miner
from lookalike.registry import LOSSES, MINERS, REGULARIZERS
from lookalike.regularizers import Regularizer
from lookalike.relations import Relations

DIM, CLASSES = 6, 5
SHIPPED = [
    entry.name for entry in LOSSES.entries() if entry.build.__module__.startswith("lookalike.")
]


def build(name, kind=None):
    found = kind or LOSSES.find(name).build
    sizes = {"num_classes": CLASSES, "embedding_size": DIM}
    torch.manual_seed(0)
    return found(**(sizes if issubclass(found, ProxyLoss) else {})).double()


@pytest.fixture
def data(batch):
    rows, labels = batch("unbalanced", 16, dim=DIM)
    return rows.requires_grad_(), labels % CLASSES


@pytest.mark.parametrize("name", SHIPPED)
def test_overridden_terms_are_used(name, data):
    """Twice the values: twice the loss and twice the gradient, also with ``create_graph``."""

    class Doubled(LOSSES.find(name).build):
        def terms(self, relations):
            found = super().terms(relations)
            parts = [found] if isinstance(found, Terms) else found
            return tuple(part._replace(values=2 * part.values) for part in parts)

    rows, labels = data
    plain, own = build(name)(rows, labels), build(name, Doubled)(rows, labels)
    torch.testing.assert_close(own, 2 * plain)
    slopes = [
        torch.autograd.grad(value, rows, create_graph=graph)[0]
        for value, graph in ((plain, False), (own, True))
    ]
    torch.testing.assert_close(slopes[1], 2 * slopes[0])


def test_subclasses_may_add_arguments(data):
    class Wider(losses.MarginLoss):
        extra: float = 0.1

        def __post_init__(self):
            super().__post_init__()
            self.margin = self.margin + self.extra

    class Rare(miners.RhoMiner):
        name: str = "rare"

    rows, labels = data
    expected = losses.MarginLoss(margin=0.3).double()(rows, labels)
    torch.testing.assert_close(Wider(extra=0.1).double()(rows, labels), expected)
    assert Wider(0.4, extra=0.1).margin == pytest.approx(0.5)
    assert len(Rare("all", 0.5)(rows, labels)) == 4


def test_a_hand_written_constructor_is_inherited(data):
    class Written(PairLoss):
        def __init__(self, scale, **options):
            super().__init__(**options)
            self.scale = scale

        def terms(self, relations):
            return Terms(self.scale * relations.similarity, relations.negatives)

    class Plain(Written):
        pass

    torch.testing.assert_close(Plain(3, distance="l2")(*data), 3 * Written(1, distance="l2")(*data))
    with pytest.raises(BadInput, match="__init__ in both"):

        class Further(Written):
            more: float = 1


def test_two_parts_without_names_both_count(data):
    class Both(PairLoss):
        def terms(self, relations):
            r = relations
            return Terms(r.similarity, r.positives), Terms(-r.similarity, r.negatives)

    class First(PairLoss):
        def terms(self, relations):
            return Terms(relations.similarity, relations.positives)

    class Second(PairLoss):
        def terms(self, relations):
            return Terms(-relations.similarity, relations.negatives)

    for reducer in ("mean", "sum", "avg-non-zero", "divisor", "per-anchor"):
        parts = First(reducer=reducer)(*data) + Second(reducer=reducer)(*data)
        torch.testing.assert_close(Both(reducer=reducer)(*data), parts)


def test_a_learned_parameter_needs_no_call_of_the_base(data):
    class Scaled(PairLoss):
        scale: float = 4

        def __post_init__(self):
            self.weight = nn.Parameter(torch.tensor(float(self.scale)))

        def terms(self, relations):
            return Terms(self.weight * relations.similarity, relations.negatives)

    loss = Scaled(distance="l2").double()
    loss(*data).backward()
    assert loss.weight.grad is not None


def test_names_are_built_and_may_be_set_later(data):
    loss = losses.ContrastiveLoss(distance="cosine", pos_margin=1, neg_margin=0)
    loss.reducer = "sum"
    loss.embedding_regularizer = "l2"
    assert loss(*data).isfinite()
    assert "embedding_regularizer" in dict(loss.named_modules())


@pytest.mark.parametrize("registry", [LOSSES, MINERS, REGULARIZERS])
def test_at_most_three_classes_deep(registry):
    """Ours, from the part to torch's module."""
    for entry in registry.entries():
        if isinstance(entry.build, type) and entry.build.__module__.startswith("lookalike."):
            ours = [c for c in entry.build.__mro__ if c.__module__.startswith("lookalike.")]
            assert len(ours) <= 3, entry.name
            assert issubclass(entry.build, (losses.Loss, Miner, Regularizer))


def test_relations_have_ten_fields():
    assert len(Relations._fields) <= 10
