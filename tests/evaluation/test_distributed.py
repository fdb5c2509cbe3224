import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.distributed as dist

from lookalike.errors import BadInput
from lookalike.evaluation import gather_embeddings, score, score_distributed

NAMES = ("recall@1", "map@r", "map", "nmi", "pi-ratio")


def points_and_labels():
    random = np.random.default_rng(0)
    labels = random.integers(0, 6, 45)
    points = random.normal(size=(6, 5))[labels] + random.normal(size=(45, 5))
    return torch.from_numpy(points).float(), np.array([f"class {i}" for i in labels])


def one_process(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    points, labels = points_and_labels()
    # As a distributed sampler deals them: one to each in turn, the first again to make it even.
    own = np.append(np.arange(45), 0)[rank::2]
    whole, names = gather_embeddings(points[own], labels[own], own)
    found = score_distributed(whole, names, NAMES, confidence=0.9)
    halves = score_distributed(
        whole[:20], names[:20], ("map",), whole[20:], names[20:], ties="average"
    )
    # One process has nothing at all.
    few = own[:0] if rank else own[:7]
    rest, rest_names = gather_embeddings(points[few], labels[few], few)
    torch.save(
        {
            "whole": whole,
            "names": names.tolist(),
            "scores": found.scores,
            "per_query": found.per_query["map"].tolist(),
            "intervals": found.intervals,
            "without": found.queries_without_relevant,
            "halves": halves.scores,
            "rest": rest,
            "rest_names": rest_names.tolist(),
        },
        f"{folder}/{rank}.pt",
    )
    dist.destroy_process_group()


def test_two_processes_agree_with_one(tmp_path):
    commands = [[sys.executable, __file__, str(rank), str(tmp_path)] for rank in range(2)]
    processes = [subprocess.Popen(command) for command in commands]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    points, labels = points_and_labels()
    expected = score(points, labels, NAMES, confidence=0.9)
    halves = score(points[:20], labels[:20], ("map",), points[20:], labels[20:], ties="average")
    for rank in range(2):
        found = torch.load(tmp_path / f"{rank}.pt")
        assert torch.equal(found["whole"], points)
        assert found["names"] == labels.tolist()
        assert found["scores"] == pytest.approx(expected.scores)
        assert found["per_query"] == expected.per_query["map"].tolist()
        assert found["intervals"] == expected.intervals
        assert found["without"] == expected.queries_without_relevant
        assert found["halves"] == halves.scores
        assert torch.equal(found["rest"], points[:14:2])
        assert found["rest_names"] == labels[:14:2].tolist()


def test_one_process_alone():
    points, labels = points_and_labels()
    order = np.random.default_rng(1).permutation(45)
    order = np.append(order, order[:3])
    whole, names = gather_embeddings(points[order], labels[order], order)
    assert torch.equal(whole, points)
    assert names.tolist() == labels.tolist()
    assert score_distributed(whole, names, NAMES).scores == score(points, labels, NAMES).scores


def test_gathering_refuses_uneven_lists():
    with pytest.raises(BadInput, match="3 embeddings, 2 labels and 3 indices"):
        gather_embeddings(torch.eye(3), [1, 2], [0, 1, 2])


if __name__ == "__main__":  # one of the two processes that the test above starts
    one_process(int(sys.argv[1]), sys.argv[2])
