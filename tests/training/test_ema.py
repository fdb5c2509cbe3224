"""Averaged weights: the formula, and what is validated and tested."""

import torch
from safetensors.torch import load_file
from torch import nn

from lookalike.training import train
from lookalike.training.ema import Average


def test_it_is_the_exponential_average_of_every_weight():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    average = Average(model, 0.9)
    expected = {name: value.clone().double() for name, value in model.state_dict().items()}
    for _ in range(5):
        model(torch.randn(4, 3))  # moves the running statistics
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(torch.randn_like(weight))
        average.follow(model)
        for name, value in model.state_dict().items():
            expected[name] = 0.9 * expected[name] + 0.1 * value.double()
    expected["1.num_batches_tracked"] = torch.tensor(5.0).double()
    for name, value in average.weights.items():
        torch.testing.assert_close(value.double(), expected[name], atol=1e-6, rtol=1e-5)


def test_inside_the_model_has_the_average_and_afterwards_its_own_weights():
    model = nn.Linear(1, 1, bias=False)
    average = Average(model, 0.5)
    before = model.weight.item()
    with torch.no_grad():
        model.weight.add_(1)
    average.follow(model)
    with average.inside(model):
        assert abs(model.weight.item() - (before + 0.5)) < 1e-6
    assert abs(model.weight.item() - (before + 1)) < 1e-6


def test_an_average_that_hardly_moves_tests_the_start(tiny):
    common = ("protocol.test=false", "train.batches_per_epoch=2")
    start = train(tiny(*common, "protocol.name=paper", "train.epochs=0"))
    plain = train(tiny(*common, "protocol.name=paper", "train.epochs=1"))
    slow = train(tiny(*common, "protocol.name=paper", "train.epochs=1", "train.ema=0.9999999"))
    first, moved, kept = (load_file(str(run.weights)) for run in (start, plain, slow))
    weight = "head.linear.weight"
    assert (moved[weight] - first[weight]).abs().max() > 1e-3
    torch.testing.assert_close(kept[weight], first[weight], atol=1e-6, rtol=0)


def test_the_average_is_validated(tiny):
    common = ("protocol.test=false", "train.batches_per_epoch=8", "train.epochs=1")
    for average, moves in (("null", True), ("0.9999999", False)):
        before, after = train(tiny(*common, f"train.ema={average}")).epochs()
        difference = abs(after["validation map@r"] - before["validation map@r"])
        assert (difference > 0.01) == moves
