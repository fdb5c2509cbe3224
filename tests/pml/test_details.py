"""Small habits of code written against PML: ``mine`` by hand, statistics, names."""

import pickle

import pytest
import torch

import lookalike.losses
from lookalike.errors import BadInput
from lookalike.pml import distances, losses, miners, reducers, regularizers

PARTS = [
    losses.TripletMarginLoss,
    losses.VICRegLoss,
    losses.BaseMetricLossFunction,
    miners.BatchHardMiner,
    miners.BaseMiner,
    reducers.MeanReducer,
    distances.LpDistance,
    regularizers.LpRegularizer,
]


@pytest.mark.parametrize("part", PARTS)
def test_no_statistics_are_kept(part):
    with pytest.raises((BadInput, TypeError), match="collect_stats"):
        part(collect_stats=True)


def test_parts_are_those_of_lookalike():
    loss = losses.TripletMarginLoss(margin=0.1)
    assert isinstance(loss, lookalike.losses.TripletMarginLoss)
    assert type(pickle.loads(pickle.dumps(loss))) is losses.TripletMarginLoss
    assert losses.ContrastiveLoss(on="similarity").distance == distances.CosineSimilarity()


def test_mine_takes_embeddings_and_labels():
    embeddings, labels = torch.randn(8, 4), torch.arange(4).repeat(2)
    miner = miners.BatchHardMiner()
    by_hand = miner.mine(embeddings, labels, embeddings, labels)
    for one, other in zip(by_hand, miner(embeddings, labels), strict=True):
        torch.testing.assert_close(one, other)


def test_terms_of_one_name_are_all_kept():
    class Twice(losses.ContrastiveLoss):
        def terms(self, relations):
            pull, push = super().terms(relations)
            return pull._replace(name="loss"), push._replace(name="loss")

    rows, labels = torch.randn(8, 4), torch.arange(4).repeat(2)
    found = Twice(reducer=reducers.DoNothingReducer())(rows, labels)
    assert list(found) == ["loss", "loss_2"]
    import pytorch_metric_learning.reducers as theirs

    value = Twice(reducer=theirs.MeanReducer())(rows, labels)
    torch.testing.assert_close(value, Twice(reducer="mean")(rows, labels))
    assert value > losses.IntraPairVarianceLoss()(rows, labels) * 0
