"""Inner steps of PML that a user overrides in a shipped part: refused, or they work."""

import inspect

import pytest
import torch

from lookalike.errors import BadInput
from lookalike.pml import distances, losses, miners, reducers, regularizers

ROOMS = {
    "distances": distances,
    "losses": losses,
    "miners": miners,
    "reducers": reducers,
    "regularizers": regularizers,
}
NINE = [
    (losses.TripletMarginLoss, "compute_loss", "write terms"),
    (losses.MultiSimilarityLoss, "_compute_loss", "subclass BaseMetricLossFunction"),
    (losses.ContrastiveLoss, "pos_calc", "write terms"),
    (losses.ArcFaceLoss, "modify_cosine_of_target_classes", "write terms"),
    (losses.ArcFaceLoss, "scale_logits", "write terms"),
    (distances.LpDistance, "compute_mat", "subclass BaseDistance"),
    (reducers.MeanReducer, "element_reduction", "subclass BaseReducer"),
    (reducers.ThresholdReducer, "triplet_reduction", "write reduce"),
    (miners.BatchEasyHardMiner, "get_positives", "subclass BaseMiner"),
    (regularizers.LpRegularizer, "compute_loss", "write forward"),
]


@pytest.mark.parametrize(("part", "hook", "instead"), NINE)
def test_refused_with_what_to_do_instead(part, hook, instead):
    sentence = f"Mine overrides {hook}, which no part of Lookalike calls; .*{instead}"
    with pytest.raises(BadInput, match=sentence):
        type("Mine", (part,), {hook: lambda self, *given: None})
    other = type("Other", (), {hook: lambda self, *given: None})
    with pytest.raises(BadInput, match=sentence):  # also from a class beside it
        type("Mine", (other, part), {})


def theirs(room):
    """The parts of PML that we have, each with the names of its methods."""
    module = pytest.importorskip(f"pytorch_metric_learning.{room}")
    for name, part in vars(module).items():
        ours = getattr(ROOMS[room], name, None)
        if inspect.isclass(part) and getattr(ours, "hooks", ""):
            methods = (m for m in dir(part) if callable(getattr(part, m)))
            known = dir(torch.nn.Module)
            yield ours, [m for m in methods if m not in known and not m.startswith("__")]


@pytest.mark.parametrize("room", ROOMS)
def test_every_method_of_pml_is_ours_or_refused(room):
    number = 0
    for ours, methods in theirs(room):
        for method in methods:
            number += 1
            refused = method in ours.hooks.split()
            works = hasattr(ours, method) or method.startswith("get_default_")
            assert refused or works, (ours, method)
    assert number > 20


def test_defaults_of_a_subclass_work():
    class Mine(losses.TripletMarginLoss):
        def get_default_distance(self):
            return distances.CosineSimilarity()

        def get_default_reducer(self):
            return reducers.SumReducer()

    rows, labels = torch.randn(8, 4), torch.arange(4).repeat(2)
    plain = losses.TripletMarginLoss(distance="cosine", reducer="sum")
    torch.testing.assert_close(Mine()(rows, labels), plain(rows, labels))


def test_mine_of_a_subclass_works():
    class First(miners.BatchHardMiner):
        def mine(self, embeddings, labels, ref_emb, ref_labels):
            found = super().mine(embeddings, labels, ref_emb, ref_labels)
            return tuple(part[:1] for part in found)

    rows, labels = torch.randn(8, 4), torch.arange(4).repeat(2)
    miner = First()
    found = tuple(miner(rows, labels))
    assert [len(part) for part in found] == [1, 1, 1]
    assert miner.num_triplets == 1
    memory = losses.CrossBatchMemory(losses.TripletMarginLoss(1), 4, 16, miner=miner)
    assert memory(rows, labels) >= 0


def test_terms_and_reduce_of_a_subclass_work():
    class Doubled(losses.ContrastiveLoss):
        def terms(self, relations):
            return tuple(part._replace(values=2 * part.values) for part in super().terms(relations))

    class Halved(reducers.MeanReducer):
        def reduce(self, terms, relations):
            return super().reduce(terms, relations) / 2

    rows, labels = torch.randn(8, 4), torch.arange(4).repeat(2)
    plain = losses.ContrastiveLoss(reducer="mean")(rows, labels)
    torch.testing.assert_close(Doubled(reducer=Halved())(rows, labels), plain)


class WithMargin(losses.BaseMetricLossFunction):
    def __init__(self, margin, **kwargs):
        super().__init__(**kwargs)
        self.margin = margin

    def compute_loss(self, embeddings, labels, indices_tuple, ref_emb, ref_labels):
        values = self.distance(embeddings, ref_emb).sum(1) + self.margin
        entry = {"losses": values, "indices": torch.arange(len(values))}
        return {"loss": entry | {"reduction_type": "element"}}


class SameArguments(WithMargin):
    pass


def test_a_constructor_is_inherited():
    rows, labels = torch.randn(8, 4), torch.arange(4).repeat(2)
    mine, base = SameArguments(0.5, reducer="sum"), WithMargin(0.5, reducer="sum")
    torch.testing.assert_close(mine(rows, labels), base(rows, labels))
    with pytest.raises(TypeError, match="margin"):
        SameArguments()


def test_a_loss_of_ones_own_in_a_memory_never_pairs_an_image_with_its_copy():
    seen = []

    class Looking(WithMargin):
        def compute_loss(self, embeddings, labels, indices_tuple, ref_emb, ref_labels):
            seen.append(indices_tuple)
            return super().compute_loss(embeddings, labels, indices_tuple, ref_emb, ref_labels)

    memory = losses.CrossBatchMemory(Looking(0), 4, 16)
    memory(torch.randn(3, 4), torch.tensor([0, 0, 1]))
    anchor, positive, *_ = seen[0]
    assert (anchor.tolist(), positive.tolist()) == ([0, 1], [1, 0])
