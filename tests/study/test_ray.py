"""A study on a real Ray of two nodes, one of which is killed meanwhile."""

import threading
import time

import pytest

from lookalike.study.config import parse_study
from lookalike.study.driver import run_study
from lookalike.study.local import LocalExecutor
from lookalike.study.ray import RayExecutor
from lookalike.training.watcher import Watcher


@pytest.mark.slow
def test_a_node_dies_and_the_study_ends_the_same(study_values, tmp_path, timeless):
    from ray.cluster_utils import Cluster

    values = study_values(tuner={"trials": 4})
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    doomed = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    seen = []

    def kill_once_it_works():
        while not list((tmp_path / "ray").rglob("triplet.json")):
            time.sleep(0.05)
        seen.append(len(list((tmp_path / "ray").rglob("*.json"))))
        cluster.remove_node(doomed, allow_graceful=False)

    killer = threading.Thread(target=kill_once_it_works, daemon=True)
    killer.start()
    try:
        found = run_study(
            parse_study(values),
            lambda: RayExecutor(cluster.address, cpus=1),
            folder=tmp_path / "ray",
        )
    finally:
        cluster.shutdown()
    assert seen, "the node was not killed while the study ran"
    local = run_study(
        parse_study(values), lambda: LocalExecutor(1, Watcher()), folder=tmp_path / "local"
    )
    assert found.finished
    assert timeless(found) == timeless(local)
