"""Anything composes with anything: random combinations of parts, three steps of each.

One rule follows from the maths, and the test states it anew: a mix is a candidate of two classes
by weight, so mixing needs a loss that sums over candidates by weight, and one class per image;
so does a memory, which keeps one class per embedding. Everything else must run.

Run as a script this file is one of two processes.
"""

import random
import sys
from pathlib import Path

import pytest
import torch

from lookalike import losses, miners, models, samplers
from lookalike.config import parse
from lookalike.errors import BadInput
from lookalike.mixing import additive_names
from lookalike.training.distributed.gather import average_gradients
from lookalike.training.distributed.launch import prepared_fabric
from lookalike.training.distributed.ranks import own_part, rank
from lookalike.training.forward import ForwardDispatch
from lookalike.training.objective import build_objective

IMAGES, CLASSES, BATCH, STEPS, DIM = 48, 6, 12, 3, 4
SAMPLE, ALL, TOGETHER = 60, 300, 40  # TOGETHER: run in two processes too, of each

LABELS = torch.arange(IMAGES) % CLASSES
REGULARIZERS = [None, "l2", "zero-mean"]


def drawn(seed):
    """A combination of parts; every name is equally likely."""
    choose = random.Random(seed).choice
    loss = {"name": choose(losses.names())}
    regularizer = choose(REGULARIZERS)
    if regularizer is not None:
        loss |= {"embedding_regularizer": regularizer, "embedding_reg_weight": 0.1}
    case = {"loss": loss, "sampler": {"name": choose(samplers.names()), "batch_size": BATCH}}
    miner = choose([None, *miners.names()])
    if miner is not None:
        case["miner"] = {"name": miner}
        if miner == "rho":
            inner = choose([name for name in miners.names() if name != "rho"])
            case["miner"] |= {"miner": inner, "probability": 0.5}
    if choose([True, False, False]):
        case["mix"] = {
            "where": choose(["input", "feature", "embed"]),
            "pairs": choose(["positive-negative", "both"]),
            "negatives": choose([None, 2, "all"]),
        }
    if choose([True, False]):
        case["memory"] = {"size": choose([BATCH, 20, 40]), "start": choose([0, 1])}
    return case, choose(["class indices", "class indices", "rows"])


def refused(case, labels):
    """Whether the rule above forbids this combination."""
    if "mix" in case and (case["loss"]["name"] not in additive_names() or labels == "rows"):
        return True
    return "memory" in case and labels == "rows"


def learn(seed):
    """Three steps; the loss of each, and every learned weight at the end."""
    case, kind = drawn(seed)
    torch.manual_seed(seed)
    config = parse(case | {"train": {"device": "cpu"}})
    model = models.build("small-cnn", dim=DIM, channels=1).double()
    model.freeze(bn_statistics=True)
    objective = build_objective(config, CLASSES, DIM).double()
    trainable = [*model.parameters(), *objective.parameters()]
    fabric = prepared_fabric(config.train)
    network, optimizer = fabric.setup(ForwardDispatch(model), torch.optim.SGD(trainable, lr=0.01))
    images = torch.randn(IMAGES, 1, 16, 16, dtype=torch.float64)
    sampler = _sampler(config.sampler.name, images)
    rows = torch.nn.functional.one_hot(LABELS, CLASSES)
    batches = [batch for _ in range(STEPS) for batch in sampler][:STEPS]
    values = []
    for batch in batches:
        own = images[batch][own_part(len(batch))]
        optimizer.zero_grad()
        labels = LABELS[batch] if kind == "class indices" else rows[batch]
        loss, embeddings = objective(network, own, labels)
        fabric.backward(loss)
        average_gradients(objective.parameters())
        optimizer.step()
        assert embeddings.shape == (len(batch), DIM)
        values.append(float(loss.detach()))
    return values, [weight.detach() for weight in trainable]


def _sampler(name, images):
    more = {} if name in ("random", "spc-r") else {"per_class": 2}
    if name == "hierarchical":
        more["super_labels"] = LABELS % 2
    sampler = samplers.create(name, LABELS, batch_size=BATCH, seed=0, **more)
    if isinstance(sampler, samplers.StoreSampler):
        sampler.fill(images.flatten(1)[:, :DIM])
    return sampler


def check(seed):
    case, labels = drawn(seed)
    if refused(case, labels):
        with pytest.raises(BadInput):
            learn(seed)
        return
    values, weights = learn(seed)
    assert all(torch.isfinite(torch.tensor(values))), case
    assert all(torch.isfinite(weight).all() for weight in weights), case


@pytest.mark.parametrize("seed", range(SAMPLE))
def test_a_combination(seed):
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SAMPLE, ALL))
def test_many_combinations(seed):
    check(seed)


def of_two(first):
    """The combinations from this seed on that run in two processes."""
    return [seed for seed in range(first, first + TOGETHER) if not refused(*drawn(seed))]


def one_of_two(folder):
    torch.set_num_threads(1)
    prepared_fabric(parse({"train": {"device": "cpu"}}).train)
    first = int(Path(folder).name.split("-")[-1])
    torch.save({seed: learn(seed) for seed in of_two(first)}, Path(folder) / f"{rank()}.pt")


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(at, marks=pytest.mark.slow) for at in (100, 200))]
)
def test_two_processes_learn_the_same(first, tmp_path, in_two_processes):
    folder = tmp_path / f"from-{first}"
    folder.mkdir()
    in_two_processes(__file__, folder)
    for found in (torch.load(folder / f"{number}.pt") for number in range(2)):
        for seed in of_two(first):
            values, weights = learn(seed)
            assert found[seed][0] == pytest.approx(values, rel=1e-8, abs=1e-10), drawn(seed)
            for ours, expected in zip(found[seed][1], weights, strict=True):
                torch.testing.assert_close(ours, expected, rtol=1e-7, atol=1e-9)


if __name__ == "__main__":
    one_of_two(sys.argv[1])
