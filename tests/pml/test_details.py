"""Small habits of code written against PML: a global switch, ``mine`` by hand, logits."""

import pytest
import torch
from torch.nn.functional import normalize

from lookalike.pml.losses import ProxyNCALoss, TripletMarginLoss
from lookalike.pml.miners import BaseMiner, BatchHardMiner
from lookalike.pml.utils import common_functions


@pytest.fixture
def switch():
    yield common_functions
    common_functions.COLLECT_STATS = False


def test_global_switch_is_seen_by_every_part(switch):
    for wanted in (True, False):
        switch.COLLECT_STATS = wanted
        loss = TripletMarginLoss()
        parts = loss, loss.distance, loss.reducer, BaseMiner()
        assert [part.collect_stats for part in parts] == [wanted] * 4
        assert TripletMarginLoss(collect_stats=not wanted).collect_stats is not wanted
        assert BaseMiner(collect_stats=not wanted).collect_stats is not wanted
    assert "collect_stats" not in repr(TripletMarginLoss())


def test_mine_takes_embeddings_and_labels():
    embeddings, labels = torch.randn(8, 4), torch.arange(4).repeat(2)
    miner = BatchHardMiner()
    by_hand = miner.mine(embeddings, labels, embeddings, labels)
    for one, other in zip(by_hand, miner(embeddings, labels), strict=True):
        torch.testing.assert_close(one, other)


def test_logits_of_proxy_nca_round_as_cdist():
    loss = ProxyNCALoss(num_classes=5, embedding_size=3)
    rows = loss.proxies.detach().repeat(8, 1) * 2 + 1e-4  # so near that rounding decides
    expected = torch.cdist(normalize(rows), normalize(loss.proxies)) ** 2
    torch.testing.assert_close(loss.get_logits(rows), expected, rtol=1e-4, atol=0)
