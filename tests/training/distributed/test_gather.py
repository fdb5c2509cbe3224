"""Two real processes, each with its part of a batch, learn what one learns from the whole batch.

Run as a script this file is one of the two processes.
"""

import sys
from pathlib import Path

import pytest
import torch

from lookalike import models
from lookalike.config import parse
from lookalike.training.distributed.gather import average_gradients, gather_rows, share_statistics
from lookalike.training.distributed.launch import prepared_fabric
from lookalike.training.distributed.ranks import (
    one_of_machine_first,
    own_part,
    rank,
    world_size,
)
from lookalike.training.forward import ForwardDispatch
from lookalike.training.objective import build_objective

BATCH, CLASSES, STEPS = 11, 4, 3  # 11: the two parts are uneven

CASES = {
    "pair": {"loss": {"name": "multi-similarity"}, "miner": {"name": "multi-similarity"}},
    "triplet": {"loss": {"name": "triplet"}, "miner": {"name": "semi-hard"}},
    "proxy": {"loss": {"name": "proxy-anchor"}},
    "random miner": {
        "loss": {"name": "margin", "num_classes": "auto"},
        "miner": {"name": "distance-weighted"},
    },
    "memory": {"loss": {"name": "contrastive"}, "memory": {"size": 25, "start": 1}},
    "mixed embeddings": {"loss": {"name": "multi-similarity"}, "mix": {"where": "embed"}},
    "mixed features": {"loss": {"name": "proxy-anchor"}, "mix": {"where": "feature"}},
    "mixed features, learned pooling": {
        "loss": {"name": "multi-similarity"},
        "mix": {"where": "feature"},
        "model": {"pooling": "gem"},
    },
    "mixed images": {"loss": {"name": "contrastive"}, "mix": {"where": "input"}},
    "batch norm": {"loss": {"name": "multi-similarity"}, "batch_norm": True},
    "batch norm of mixed images": {
        "loss": {"name": "proxy-anchor"},
        "mix": {"where": "input"},
        "batch_norm": True,
    },
    "a backbone that warms up": {"loss": {"name": "proxy-nca"}, "warm_up": True},
    "chunks": {"loss": {"name": "multi-similarity"}, "chunks": 3},
    "chunks of mixed images": {
        "loss": {"name": "proxy-anchor"},
        "mix": {"where": "input"},
        "chunks": 2,
    },
}


def learn(case):
    """A few steps on random images; the losses, and every weight and statistic at the end."""
    case = dict(case)
    batch_norm, chunks = case.pop("batch_norm", False), case.pop("chunks", 1)
    warm_up = case.pop("warm_up", False)
    config = parse(case | {"train": {"device": "cpu"}})
    torch.manual_seed(1)
    model = models.build("small-cnn", dim=6, channels=1, pooling=config.model.pooling).double()
    model.freeze(bn_statistics=not batch_norm)
    if batch_norm and world_size() > 1:
        share_statistics(model, torch.device("cpu"))
    objective = build_objective(config, CLASSES, 6).double()
    images = torch.randn(STEPS, BATCH, 1, 16, 16, dtype=torch.float64)
    labels = torch.randint(0, CLASSES, (STEPS, BATCH))
    moving = [*model.parameters(), *objective.parameters()]
    fabric = prepared_fabric(config.train)
    network, optimizer = fabric.setup(
        ForwardDispatch(model, chunks=chunks), torch.optim.SGD(moving, lr=0.1, momentum=0.9)
    )
    model.train()
    losses = []
    for step in range(STEPS):
        model.set_backbone_trainable(not warm_up or step > 0)
        own = images[step, own_part(BATCH)]
        optimizer.zero_grad()
        loss, embeddings = objective(network, own, labels[step])
        fabric.backward(loss)
        average_gradients(objective.parameters())
        optimizer.step()
        losses.append(float(loss.detach()))
        assert len(embeddings) == BATCH
    everything = torch.nn.ModuleList([model, objective]).state_dict()
    return {
        "losses": losses,
        "gradients": [weight.grad for weight in moving],
        "state": everything,
        "random": torch.rand(4),
    }


def gathered_parts():
    """Rows of several sizes and none, with a gradient that each process sees its own way."""
    found = []
    for sizes in ([2, 3], [4, 0]):
        start = sum(sizes[: rank()])
        rows = torch.arange(start, start + sizes[rank()]).double()[:, None].requires_grad_()
        whole = gather_rows(rows)
        (whole * (1 + rank()) * torch.arange(len(whole))[:, None]).sum().backward()
        found.append((whole.detach(), rows.grad))
    return found


def in_turn(path):
    """Whether another process was first."""

    def make():
        before = path.exists()
        path.touch()
        return before

    return one_of_machine_first(make)


def one_of_two(folder):
    torch.set_num_threads(1)
    prepared_fabric(parse({"train": {"device": "cpu"}}).train)
    found = {name: learn(case) for name, case in CASES.items()}
    torch.save(
        (found, gathered_parts(), in_turn(Path(folder) / "first")), Path(folder) / f"{rank()}.pt"
    )


@pytest.fixture(scope="module")
def two(tmp_path_factory, in_two_processes):
    """What each of two processes found."""
    folder = tmp_path_factory.mktemp("two")
    in_two_processes(__file__, folder)
    return [torch.load(folder / f"{number}.pt") for number in range(2)]


@pytest.mark.parametrize("name", CASES)
def test_two_processes_learn_what_one_learns(two, name):
    alone = learn(CASES[name])
    for found, *_ in two:
        assert found[name]["losses"] == pytest.approx(alone["losses"], rel=1e-10)
        for ours, expected in zip(found[name]["gradients"], alone["gradients"], strict=True):
            assert (ours is None) == (expected is None)
            if expected is not None:
                torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-10)
        assert found[name]["state"].keys() == alone["state"].keys()
        for key, expected in alone["state"].items():
            torch.testing.assert_close(found[name]["state"][key], expected, rtol=1e-9, atol=1e-10)
        assert torch.equal(found[name]["random"], alone["random"])  # all have drawn the same


@pytest.mark.parametrize("name", CASES)
def test_weights_stay_in_step_to_the_last_bit(two, name):
    first, second = (found[name]["state"] for found, *_ in two)
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_gathering_sums_gradients_of_uneven_parts(two):
    # the processes weigh row k by k and by 2 k, so its gradient is 3 k
    for number, (_, gathered, _) in enumerate(two):
        for (whole, gradient), sizes in zip(gathered, ([2, 3], [4, 0]), strict=True):
            assert whole.flatten().tolist() == list(range(sum(sizes)))
            start = sum(sizes[:number])
            assert gradient.flatten().tolist() == [3 * (start + k) for k in range(sizes[number])]


def test_one_process_of_a_machine_reads_files_before_the_others(two):
    assert [late for *_, late in two] == [False, True]


def test_alone_nothing_is_copied():
    rows = torch.randn(3, 2)
    assert gather_rows(rows) is rows


if __name__ == "__main__":
    one_of_two(sys.argv[1])
