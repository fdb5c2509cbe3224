"""GradCache: the gradients of a batch passed in chunks are those of the batch passed at once."""

import pytest
import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins.precision import MixedPrecision
from torch import nn

from lookalike import models
from lookalike.config import parse
from lookalike.training import checkpoint, train
from lookalike.training.forward import DropoutRNG, ForwardDispatch
from lookalike.training.grad_cache import CachedPasses, backward_by_chunks
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
    prepared = fabric.setup(ForwardDispatch(model))
    random = DropoutRNG(0)
    model.train()
    losses = []
    for _ in range(2):
        images = torch.randn(BATCH, 1, 16, 16, dtype=torch.float64)
        labels = torch.randint(0, CLASSES, (BATCH,))
        if chunks == 1:
            loss, _ = objective(prepared, images, labels)
            fabric.backward(loss)
        else:
            cached = CachedPasses(prepared, -(-BATCH // chunks), random)
            loss, _ = backward_by_chunks(fabric, objective, cached, images, labels)
        losses.append(loss.detach())
    weights = [*model.parameters(), *objective.parameters()]
    return torch.stack(losses), [weight.grad for weight in weights], torch.rand(3)


@pytest.mark.parametrize("chunks", [2, 5, 13])
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_the_whole_batch(name, chunks):
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
        return found


def test_random_layers_draw_the_same_in_both_passes_and_statistics_move_once():
    torch.manual_seed(0)
    network = Noisy()
    fabric = Fabric(accelerator="cpu", devices=1)
    cached = CachedPasses(fabric.setup(network), 4, DropoutRNG(3))
    images = torch.randn(8, 6)
    state = torch.get_rng_state()
    embeddings = cached(images)
    fabric.backward(embeddings.square().sum())
    tracked = network.layers[1].running_mean.clone()
    cached.backward(fabric)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(network.layers[1].running_mean, tracked)
    assert int(network.layers[1].num_batches_tracked) == 2
    first, second, first_again, second_again = network.given
    assert torch.equal(first, first_again)
    assert torch.equal(second, second_again)
    assert (first == 0).any()
    assert not torch.equal(first == 0, second == 0)  # another mask for each chunk


def test_scaled_gradients_are_scaled_once():
    def learned(chunks):
        torch.manual_seed(0)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**4)
        precision = MixedPrecision("16-mixed", "cpu", scaler)
        fabric = Fabric(accelerator="cpu", devices=1, plugins=[precision])
        model = models.build("small-cnn", dim=5, channels=1)
        model.freeze(bn_statistics=True)
        objective = build_objective(parse(CASES["proxy"]), CLASSES, 5)
        prepared = fabric.setup(ForwardDispatch(model))
        images, labels = torch.randn(8, 1, 16, 16), torch.arange(8) % CLASSES
        if chunks == 1:
            fabric.backward(objective(prepared, images, labels)[0])
        else:
            cached = CachedPasses(prepared, 4, DropoutRNG(0))
            backward_by_chunks(fabric, objective, cached, images, labels)
        return [weight.grad for weight in (*model.head.parameters(), *objective.parameters())]

    for ours, theirs in zip(learned(2), learned(1), strict=True):
        assert theirs.abs().max() > 1  # and finite
        torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-2 * float(theirs.abs().max()))


@pytest.mark.slow
def test_a_run_in_chunks_ends_as_a_run_without(tiny):
    still = ("train.epochs=2", "model.freeze_bn_statistics=true", "optim.name=sgd", "optim.lr=2e-3")
    whole, chunks = train(tiny(*still)), train(tiny(*still, "train.accumulate=3"))
    assert whole.folder != chunks.folder
    for ours, theirs in zip(chunks.epochs(), whole.epochs(), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-3)


def test_the_scale_of_gradients_is_in_the_checkpoint(tiny, tmp_path, monkeypatch):
    """Half precision with a real scaler, on the CPU: stopped and resumed, the scale goes on."""
    from lookalike.training import building

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

    save, saved = checkpoint.save, []

    def stop(folder, state):
        save(folder, state)
        saved.append(state["precision"])
        if len(saved) == 7:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "save", stop)
        with pytest.raises(KeyboardInterrupt):
            train(tiny(*small))
    run = train(tiny(*small))
    assert saved[-1]["scale"] > 2.0**6
    assert scalers[-1].get_scale() == grown
    assert run.result == whole.result
    assert run.epochs() == whole.epochs()
