import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.distributed as dist

from lookalike.evaluation import score

pytestmark = pytest.mark.trust("medians:median_rank")

NAMES = ("recall@1", "map@r", "map", "nmi", "pi-ratio", "medians:median_rank")
MEDIANS = """
import numpy as np
from lookalike.evaluation import over_queries

@over_queries(np.median)
def median_rank(ranks):
    return ranks.mean(ranks.values)
"""


def points_and_labels():
    random = np.random.default_rng(0)
    labels = random.integers(0, 6, 45)
    points = random.normal(size=(6, 5))[labels] + random.normal(size=(45, 5))
    return torch.from_numpy(points).float(), np.array([f"class {i}" for i in labels])


def both(distributed):
    points, labels = points_and_labels()
    return (
        score(points, labels, NAMES, confidence=0.9, distributed=distributed),
        score(
            points[:1],
            labels[:1],
            ("map",),
            points[1:],
            labels[1:],
            ties="average",
            distributed=distributed,
        ),
    )


@pytest.fixture(autouse=True)
def medians(tmp_path, monkeypatch):
    """A module with a metric that is not a mean over queries."""
    (tmp_path / "medians.py").write_text(MEDIANS)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("medians", None)


def one_process(rank, folder):
    sys.path.insert(0, folder)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    found, single = both(distributed=True)
    torch.save(
        {
            "scores": found.scores,
            "per_query": found.per_query["map"].tolist(),
            "intervals": found.intervals,
            "without": found.queries_without_relevant,
            "single": single.scores,
        },
        f"{folder}/{rank}.pt",
    )
    dist.destroy_process_group()


def test_two_processes_agree_with_one(tmp_path):
    """Also where one of them has no query at all."""
    commands = [[sys.executable, __file__, str(rank), str(tmp_path)] for rank in range(2)]
    processes = [subprocess.Popen(command) for command in commands]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    expected, single = both(distributed=False)
    values = expected.per_query["medians:median_rank"]
    assert expected.scores["medians:median_rank"] == np.median(values) != np.mean(values)
    for rank in range(2):
        found = torch.load(tmp_path / f"{rank}.pt")
        assert found["scores"] == pytest.approx(expected.scores)
        assert found["per_query"] == expected.per_query["map"].tolist()
        assert found["intervals"] == expected.intervals
        assert found["without"] == expected.queries_without_relevant
        assert found["single"] == single.scores


def test_without_a_process_group_it_has_no_effect():
    assert both(distributed=True)[0].scores == both(distributed=False)[0].scores


if __name__ == "__main__":  # one of the two processes that the test above starts
    one_process(int(sys.argv[1]), sys.argv[2])
