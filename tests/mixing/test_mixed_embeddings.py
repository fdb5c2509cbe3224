"""Mixes of maps: pooled first where that is the same, else piece by piece."""

import pytest
import torch

from lookalike import models
from lookalike.errors import BadInput
from lookalike.mixing import Mixing, mixed_embeddings
from lookalike.models import POOLINGS

LABELS = torch.tensor([3, 8, 3, 5, 8, 3, 1, 5, 8])
PAIRS = 2 * (3 * 3 + 3 * 2 + 3 * 1 + 3 * 2 + 3 * 1 + 2 * 1)  # two images of different classes


@pytest.fixture
def maps():
    return torch.rand(9, 4, 3, 3, dtype=torch.float64, requires_grad=True)


@pytest.fixture
def head():
    def make(pooling):
        torch.manual_seed(2)
        return models.Head(4, dim=5, pooling=pooling).double()

    return make


def seeded(loss, head, maps, **arguments):
    torch.manual_seed(0)
    mixing = Mixing("feature", pairs="positive-negative")
    return mixing.term(loss, head(maps), LABELS, maps, head, **arguments)


def gradients(value, leaves):
    return torch.autograd.grad(value, leaves, retain_graph=True)


@pytest.mark.parametrize("at_once", [1, 100, 1 << 24])
@pytest.mark.parametrize("name", ["multi-similarity", "proxy-anchor", "normalized-softmax"])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_pooling_apart_changes_nothing(pooling, name, at_once, head, maps, built, monkeypatch):
    monkeypatch.setattr("lookalike.ops.blocks.AT_ONCE", at_once)
    loss, whole = built(name), head(pooling)
    plain = seeded(loss, whole, maps)
    pooled = seeded(loss, whole, maps, pool=whole.pool)
    torch.testing.assert_close(pooled, plain, rtol=1e-10, atol=1e-12)
    leaves = [maps, *whole.parameters(), *loss.parameters()]
    for one, other in zip(gradients(pooled, leaves), gradients(plain, leaves), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)


def test_a_linear_pooling_sees_no_mixes(head, maps, built):
    whole = head("avg")
    seen = []
    whole.pool.register_forward_pre_hook(lambda module, given: seen.append(len(given[0])))
    seeded(built("multi-similarity"), whole, maps, pool=whole.pool)
    assert seen == [9, 9]  # the clean batch, and its maps once more


def test_other_poolings_see_so_many_maps_at_a_time(head, maps, built, monkeypatch):
    monkeypatch.setattr("lookalike.ops.blocks.AT_ONCE", 10 * maps[0].numel())
    whole = head("max")
    seen = []
    whole.pool.register_forward_pre_hook(lambda module, given: seen.append(len(given[0])))
    value = seeded(built("multi-similarity"), whole, maps, pool=whole.pool)
    assert seen == [9] + [10] * (PAIRS // 10) + [PAIRS % 10] * (PAIRS % 10 > 0)
    seen.clear()
    value.backward()
    assert sum(seen) == PAIRS  # once more in the backward pass


@pytest.mark.parametrize("name", ["multi-similarity", "lifted-structure", "normalized-softmax"])
def test_mixes_that_do_not_fit_in_memory_are_refused(name, maps, head, built, monkeypatch):
    monkeypatch.setattr(mixed_embeddings, "MOST", 300)
    with pytest.raises(BadInput, match=r"numbers; set mix\.negatives, for example to 3"):
        seeded(built(name), head("max"), maps)


def test_a_head_takes_pooled_maps_too(head, maps):
    for pooling in POOLINGS:
        whole = head(pooling)
        torch.testing.assert_close(whole(whole.pool(maps)), whole(maps))


def test_rows_can_be_shared_among_processes(head, maps, built):
    """Each of two would form and embed its half; here one does both."""
    asked = []

    def distribute(embed):
        def shared(rows):
            asked.append(len(rows))
            middle = len(rows) // 2
            return torch.cat((embed(rows[:middle]), embed(rows[middle:])))

        return shared

    loss, whole = built("contrastive"), head("avg+max")
    torch.testing.assert_close(
        seeded(loss, whole, maps, pool=whole.pool, distribute=distribute),
        seeded(loss, whole, maps),
    )
    assert asked == [PAIRS]
