"""Passes that are computed twice to save memory: same gradients, statistics and random numbers."""

import copy

import pytest
import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins.precision import MixedPrecision
from torch import nn

from lookalike import models
from lookalike.config import parse
from lookalike.errors import BadInput
from lookalike.training import Interrupted, building, checkpoint, train
from lookalike.training.forward import DropoutRNG, ForwardDispatch, recompute_blocks
from lookalike.training.objective import build_objective

BATCH, CLASSES = 13, 4

CASES = {
    "pair": {"loss": {"name": "multi-similarity"}, "miner": {"name": "multi-similarity"}},
    "triplet": {"loss": {"name": "triplet"}},
    "proxy": {"loss": {"name": "proxy-anchor"}},
    "memory": {"loss": {"name": "contrastive"}, "memory": {"size": 20, "start": 0}},
    "mixed embeddings": {"loss": {"name": "multi-similarity"}, "mix": {"where": "embed"}},
    "mixed images": {"loss": {"name": "proxy-anchor"}, "mix": {"where": "input"}},
}


def gradients(case, chunks):
    """The gradients of two steps, the losses, and where the random numbers stand."""
    torch.manual_seed(0)
    model = models.build("small-cnn", dim=5, channels=1).double()
    model.freeze(bn_statistics=True)
    objective = build_objective(parse(case), CLASSES, 5).double()
    fabric = Fabric(accelerator="cpu", devices=1)
    network = fabric.setup(ForwardDispatch(model, chunks=chunks))
    model.train()
    losses = []
    for _ in range(2):
        images = torch.randn(BATCH, 1, 16, 16, dtype=torch.float64)
        labels = torch.randint(0, CLASSES, (BATCH,))
        loss, _ = objective(network, images, labels)
        fabric.backward(loss)
        losses.append(loss.detach())
    weights = [*model.parameters(), *objective.parameters()]
    return torch.stack(losses), [weight.grad for weight in weights], torch.rand(3)


@pytest.mark.parametrize("chunks", [2, 5, 13])
@pytest.mark.parametrize("name", CASES)
def test_gradients_of_chunks_are_those_of_the_whole_batch(name, chunks):
    losses, expected, random = gradients(CASES[name], 1)
    found_losses, found, found_random = gradients(CASES[name], chunks)
    torch.testing.assert_close(found_losses, losses, rtol=1e-10, atol=1e-10)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    assert torch.equal(random, found_random)


class Noisy(nn.Module):
    """A network with dropout and batch norm that remembers what it gave."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5))
        self.given = []

    def forward(self, images):
        found = self.layers(images.flatten(1))
        self.given.append(found.detach().clone())
        return found.square()  # needs the values again


@pytest.mark.parametrize("rng", [None, DropoutRNG(3)], ids=["one process", "several"])
def test_random_layers_draw_the_same_in_both_passes_and_statistics_move_once(rng):
    torch.manual_seed(0)
    network = Noisy()
    embeddings = ForwardDispatch(network, dropout_rng=rng, chunks=2)(torch.randn(8, 6))
    tracked, state = network.layers[1].running_mean.clone(), torch.get_rng_state()
    embeddings.square().sum().backward()
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(network.layers[1].running_mean, tracked)
    assert int(network.layers[1].num_batches_tracked) == 2
    first, second, second_again, first_again = network.given
    assert torch.equal(first, first_again)
    assert torch.equal(second, second_again)
    assert (first == 0).any()
    assert not torch.equal(first == 0, second == 0)  # another mask for each chunk


def remembered(network, images):
    """Bytes kept for the way back, and the loss."""
    sizes = {}

    def keep(tensor):
        sizes[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = network(images).square().sum() + network(images)[:, 0].sum()
    return sum(sizes.values()), loss


def test_blocks_have_the_same_gradients_and_statistics_with_less_memory():
    torch.manual_seed(0)
    plain = models.build("efficientnet-lite0", dim=8)
    saving = copy.deepcopy(plain)
    assert recompute_blocks(saving) == 7
    images = torch.randn(4, 3, 64, 64)
    kept = {}
    for name, model in (("plain", plain), ("saving", saving)):
        model.train()
        kept[name], loss = remembered(model, images)
        loss.backward()
    kept["chunks"], _ = remembered(ForwardDispatch(plain, chunks=4), images)
    assert kept["saving"] < 0.5 * kept["plain"]
    assert kept["chunks"] < 0.1 * kept["plain"]
    for (name, one), other in zip(plain.named_parameters(), saving.parameters(), strict=True):
        if one.grad is not None:
            torch.testing.assert_close(one.grad, other.grad, atol=1e-5, rtol=1e-4, msg=name)
    for name, value in saving.state_dict().items():
        if not name.endswith(("running_mean", "running_var", "num_batches_tracked")):
            torch.testing.assert_close(plain.state_dict()[name], value, msg=name)


def test_a_network_without_blocks_is_refused():
    with pytest.raises(BadInput, match="finds no blocks"):
        recompute_blocks(models.build("torchvision:resnet18", dim=8))


def test_scaled_gradients_are_scaled_once():
    def learned(chunks):
        torch.manual_seed(0)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**4)
        precision = MixedPrecision("16-mixed", "cpu", scaler)
        fabric = Fabric(accelerator="cpu", devices=1, plugins=[precision])
        model = models.build("small-cnn", dim=5, channels=1)
        model.freeze(bn_statistics=True)
        objective = build_objective(parse(CASES["proxy"]), CLASSES, 5)
        network = fabric.setup(ForwardDispatch(model, chunks=chunks))
        images, labels = torch.randn(8, 1, 16, 16), torch.arange(8) % CLASSES
        fabric.backward(objective(network, images, labels)[0])
        return [weight.grad for weight in (*model.head.parameters(), *objective.parameters())]

    for ours, theirs in zip(learned(2), learned(1), strict=True):
        assert theirs.abs().max() > 1  # and finite
        torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-2 * float(theirs.abs().max()))


def test_a_run_ends_with_the_same_numbers(tiny):
    settings = ("train.epochs=1", "train.batches_per_epoch=2", "protocol.test=false")
    settings += ("model.network=timm:resnet10t", "model.freeze_bn_statistics=true")
    plain = train(tiny(*settings))
    for saving in ("train.activation_checkpointing=true", "train.accumulate=3"):
        run = train(tiny(*settings, saving))
        assert run.folder != plain.folder
        assert run.epochs()[1]["loss"] == pytest.approx(plain.epochs()[1]["loss"], rel=1e-4)


def test_the_scale_of_gradients_is_in_the_checkpoint(tiny, tmp_path, monkeypatch, stops_at):
    """Half precision with a real scaler, on the CPU: stopped and resumed, the scale goes on."""
    scalers = []

    def half(*_, **__):
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**6, growth_interval=3)
        scalers.append(scaler)
        return Fabric(
            accelerator="cpu", devices=1, plugins=[MixedPrecision("16-mixed", "cpu", scaler)]
        )

    monkeypatch.setattr(building, "prepared_fabric", half)
    small = ("sampler.batch_size=8", "train.batches_per_epoch=5", "train.epochs=2")
    small += ("protocol.name=paper", "protocol.test=false")
    whole = train(tiny(*small, f"runs_dir={tmp_path / 'whole'}"))
    grown = scalers[0].get_scale()
    assert grown > 2.0**6

    with pytest.raises(Interrupted):
        train(tiny(*small), stops_at(7))
    (path,) = tiny().runs_dir.glob("*/checkpoints/last.pt")
    assert checkpoint.read(path)["precision"]["scale"] > 2.0**6
    run = train(tiny(*small))
    assert scalers[-1].get_scale() == grown
    assert run.result == whole.result
    assert run.epochs() == whole.epochs()
