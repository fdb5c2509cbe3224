"""Two processes with half a batch each get the gradient of one with the whole batch."""

import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from lookalike.errors import BadInput
from lookalike.losses import (
    ArcFaceLoss,
    ContrastiveLoss,
    HISTLoss,
    HyperbolicLoss,
    NTXentLoss,
    RecallAtKLoss,
    TripletMarginLoss,
)
from lookalike.memory import CrossBatchMemory
from lookalike.miners import MultiSimilarityMiner, TripletMarginMiner
from lookalike.pml.utils.distributed import DistributedLossWrapper, DistributedMinerWrapper

CLASS_WEIGHTS = {"name": "class-weighted", "weights": [1.0, 2.0, 0.5, 3.0]}
CASES = {
    "contrastive": (ContrastiveLoss, None, False),
    "triplet with miner": (TripletMarginLoss, TripletMarginMiner, False),
    "pairs with miner": (NTXentLoss, MultiSimilarityMiner, False),
    "proxies": (lambda: ArcFaceLoss(4, 3), None, False),
    "memory": (lambda: CrossBatchMemory(ContrastiveLoss(), 3, 40), None, False),
    "own anchors": (NTXentLoss, None, True),
    "own anchors with miner": (NTXentLoss, lambda: MultiSimilarityMiner(epsilon=2.0), True),
    "sum": (lambda: ContrastiveLoss(reducer="sum"), None, False),
    "per anchor": (lambda: TripletMarginLoss(reducer="per-anchor"), TripletMarginMiner, False),
    "class weights": (lambda: ArcFaceLoss(4, 3, reducer=CLASS_WEIGHTS), None, False),
    "comparison of labels": (
        lambda: ContrastiveLoss(label_comparison=lambda x, y: (x - y).abs() <= 1),
        None,
        False,
    ),
    "recall": (RecallAtKLoss, None, False),
    "hyperbolic": (HyperbolicLoss, MultiSimilarityMiner, False),
    "hypergraph": (lambda: HISTLoss(4, 3, hidden=5), None, False),
}


def batch():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(16, 5, generator=generator), torch.arange(16) % 4


def parts(case):
    torch.manual_seed(1)
    make, miner, efficient = CASES[case]
    model = nn.Linear(5, 3).double()
    return model, make().double(), None if miner is None else miner(), efficient


def alone(case):
    """One process, the whole batch."""
    model, loss, miner, _ = parts(case)
    images, labels = batch()
    for _ in range(2 if case == "memory" else 1):
        rows = model(images.double())
        value = loss(rows, labels, *(() if miner is None else (miner(rows, labels),)))
    value.backward()
    return value.item(), [weight.grad for weight in (*model.parameters(), *loss.parameters())]


def one_process(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    images, labels = batch()
    own = slice(8 * rank, 8 * rank + 8)
    found = {}
    for case in CASES:
        model, loss, miner, efficient = parts(case)
        network = DistributedDataParallel(model)
        wrapped = DistributedLossWrapper(loss, efficient=efficient)
        if list(loss.parameters()):
            wrapped = DistributedDataParallel(wrapped)
        for _ in range(2 if case == "memory" else 1):
            rows = network(images[own].double())
            mined = None
            if miner is not None:
                mined = DistributedMinerWrapper(miner, efficient=efficient)(rows, labels[own])
            value = wrapped(rows, labels[own], mined)
        value.backward()
        gradients = [weight.grad for weight in (*model.parameters(), *loss.parameters())]
        found[case] = value.item(), gradients
    torch.save(found, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    commands = [[sys.executable, __file__, str(rank), str(folder)] for rank in range(2)]
    processes = [subprocess.Popen(command) for command in commands]
    assert [process.wait(timeout=240) for process in processes] == [0, 0]
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


@pytest.mark.parametrize("case", CASES)
def test_gradients_of_one_process(case, together):
    value, gradients = alone(case)
    of_ranks = [found[case] for found in together]
    if CASES[case][2]:  # each has its own anchors: the mean over both is the whole
        assert sum(found[0] for found in of_ranks) / 2 == pytest.approx(value)
    else:
        assert [found[0] for found in of_ranks] == pytest.approx([value, value])
    for _, found in of_ranks:
        torch.testing.assert_close(found, gradients)


def test_in_one_process():
    images, labels = batch()
    loss, miner = TripletMarginLoss(), TripletMarginMiner()
    found = DistributedMinerWrapper(miner, efficient=True)(images, labels)
    value = DistributedLossWrapper(loss, efficient=True)(images, labels, found)
    torch.testing.assert_close(value, loss(images, labels, miner(images, labels)))
    memory = CrossBatchMemory(loss, 5, 40)
    with pytest.raises(BadInput, match="efficient"):
        DistributedLossWrapper(memory, efficient=True)
    with pytest.raises(BadInput, match="no ref_emb"):
        DistributedLossWrapper(memory)(images, labels, ref_emb=images)


if __name__ == "__main__":  # one of the two processes that the fixture starts
    one_process(int(sys.argv[1]), sys.argv[2])
