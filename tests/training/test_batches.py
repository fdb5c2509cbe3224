"""Batches read several at a time are the batches read one by one."""

from itertools import islice

import numpy as np
import pytest
import torch

from lookalike.samplers import create
from lookalike.training.batches import TrainingBatches
from lookalike.training.features import Features

LABELS = np.repeat(np.arange(10), 7)


class Images:
    """What the batches need of a subset."""

    indices = np.arange(len(LABELS))


def stream(per_read, sampler="spc"):
    features = Features(torch.arange(4 * 70.0).reshape(4, 70, 1))
    batch_sampler = create(
        sampler, labels=LABELS, batch_size=12, **({"per_class": 4} if sampler == "spc" else {})
    )
    device = torch.device("cpu")
    return TrainingBatches(Images(), features, batch_sampler, 3, device, per_read=per_read)


def first(batches, number):
    return [(positions, images.tolist()) for positions, images in islice(batches, number)]


@pytest.mark.parametrize("per_read", [2, 8])
def test_the_same_batches(per_read):
    assert first(stream(per_read), 40) == first(stream(1), 40)


@pytest.mark.parametrize("done", [1, 3, 8, 13])
@pytest.mark.parametrize("per_read", [1, 8])
def test_going_on_anywhere(done, per_read):
    begun, again = stream(8), stream(per_read)
    running = iter(begun)
    first(running, done)
    again.load_state_dict(begun.state_dict())
    assert first(again, 20) == first(stream(1), done + 20)[done:]


def test_a_sampler_that_uses_embeddings_is_one_batch_ahead_only():
    batches = stream(8, "frd")
    batches.sampler.fill(torch.randn(70, 4))
    first(iter(batches), 3)
    assert len(batches.drawn) == 1
