"""Studies on a real Ray: nodes that die, parts of GPUs, a cluster that is full."""

import logging
import os
import threading
import time

import pytest

from lookalike.errors import BadInput
from lookalike.progress import Watcher
from lookalike.study.config import parse_study
from lookalike.study.driver import run_study
from lookalike.study.local import LocalExecutor
from lookalike.study.ray import RayExecutor
from lookalike.study.records import TaskKey
from lookalike.study.tasks import Task
from tests.chaos.works import task_keys


@pytest.fixture(scope="module")
def cluster():
    """A Ray of one node that says it has two GPUs; no task here touches one."""
    import ray

    ray.init(
        num_cpus=2,
        num_gpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )
    yield ray
    ray.shutdown()


@pytest.fixture
def busy(cluster):
    """Somebody else's actor, which has one of the two CPUs."""
    actor = cluster.remote(num_cpus=1)(Silent).remote()
    cluster.get(actor.ready.remote())
    yield actor
    cluster.kill(actor)


class Silent:
    def ready(self):
        pass


class Deadly:
    def __init__(self, threads):
        pass

    def run(self, task):
        os._exit(3)


def task(number):
    """Work that ends with a sentence, as there is no such configuration."""
    return Task(0, TaskKey(number, 0), {"nothing": number})


@pytest.mark.slow
def test_tasks_are_done_while_others_use_a_part_of_the_cluster(cluster, busy):
    with RayExecutor(cpus=1) as executor:
        assert executor.slots == 2  # what the cluster has; Ray knows who uses it
        for number in range(2):
            executor.submit(task(number))
        assert executor.slots == 0
        outcomes = []
        while len(outcomes) < 2:
            outcomes += executor.wait(0.5)
    assert {outcome.task.key.trial for outcome in outcomes} == {0, 1}
    assert all("nothing" in outcome.record.error for outcome in outcomes)


@pytest.mark.slow
def test_a_task_that_no_process_survives_fails(cluster):
    with RayExecutor(gpus=0.5, actor=Deadly) as executor:
        executor.submit("deadly")
        while not (found := executor.wait(0.5)):
            pass
    assert found[0].record is None
    assert "5 workers died of it" in found[0].reason


def test_what_no_node_has_is_refused(cluster):
    with pytest.raises(BadInput, match="no room for 3 CPUs, 0 GPUs"), RayExecutor(cpus=3):
        pass


@pytest.mark.parametrize(
    ("gpus", "words"), [(1.5, "a fraction of one GPU or whole ones"), (-1, "give 0.0001 or more")]
)
def test_gpus_that_ray_cannot_give_are_refused(gpus, words):
    with pytest.raises(BadInput, match=words):
        RayExecutor(gpus=gpus)


@pytest.mark.slow
def test_a_node_dies_and_the_study_ends_the_same(study_values, tmp_path, timeless):
    from ray.cluster_utils import Cluster

    values = study_values(tuner={"trials": 4})
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    doomed = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    seen = []

    def kill_once_it_works():
        while len(task_keys(tmp_path / "ray")) < 3:
            time.sleep(0.05)
        seen.append(len(task_keys(tmp_path / "ray")))
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
