"""The precision of training holds in validation too; tests are in full precision."""

import pytest
import torch
from torch import nn

from lookalike.training import train
from lookalike.training.distributed.launch import may_be_unused

pytestmark = pytest.mark.trust("mine:Network")


@pytest.fixture
def seen(monkeypatch):
    """The dtypes in which convolutions computed, by whether the network was in training mode."""
    found = []
    plain = nn.Conv2d.forward

    def forward(self, images):
        output = plain(self, images)
        found.append((self.training, output.dtype))
        return output

    monkeypatch.setattr(nn.Conv2d, "forward", forward)
    return found


def test_validation_is_in_the_precision_of_training_and_tests_are_not(tiny, seen):
    short = ("train.epochs=1", "train.batches_per_epoch=1")
    train(tiny(*short, "train.precision=bf16-mixed", "protocol.test=false"))
    assert set(seen) == {(True, torch.bfloat16), (False, torch.bfloat16)}
    seen.clear()
    train(tiny(*short, "train.precision=bf16-mixed"))
    assert (False, torch.float32) in seen


def test_matrix_products_have_the_precision_of_the_run(tiny):
    former = torch.get_float32_matmul_precision()
    try:
        for wanted in ("high", "highest"):
            train(tiny("train.epochs=0", "protocol.test=false", f"train.matmul_precision={wanted}"))
            assert torch.get_float32_matmul_precision() == wanted
    finally:
        torch.set_float32_matmul_precision(former)


@pytest.mark.parametrize(
    ("overrides", "needed"),
    [
        ([], False),
        (["model.network=timm:test_vit"], False),
        (["model.network=torchvision:resnet18"], False),
        (["optim.warmup_epochs=1"], True),
        (["mix.where=feature"], True),
        (["mix.where=embed"], False),
        (["model.network=mine:Network"], True),
    ],
)
def test_unused_parameters_are_looked_for_where_there_may_be_some(tiny, overrides, needed):
    assert may_be_unused(tiny(*overrides)) == needed
