"""Studies on a real Ray: nodes that die, parts of GPUs, a cluster that is full."""

import logging
import threading
import time

import pytest

from lookalike.errors import BadInput, LookalikeError
from lookalike.progress import Watcher
from lookalike.study.config import parse_study
from lookalike.study.driver import run_study
from lookalike.study.local import LocalExecutor
from lookalike.study.ray import RayExecutor, places_on
from lookalike.study.runner import Task


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


def task(number):
    """Work that ends with a sentence, as there is no such configuration."""
    return Task(str(number), "validate", {"nothing": number})


@pytest.mark.parametrize(
    ("needs", "places"),
    [
        ({"CPU": 1.0, "GPU": 0.35}, 4),  # two on each of the two GPUs, 0.3 of each left over
        ({"CPU": 0.1, "GPU": 0.1}, 20),  # though in floating point 2 // 0.1 is 19
        ({"CPU": 1.0, "GPU": 0.6}, 2),
        ({"CPU": 1.0, "GPU": 2.0}, 1),
        ({"CPU": 3.0, "GPU": 0.1}, 2),
        ({"CPU": 0.1}, 80),
        ({"GPU": 3.0}, 0),
    ],
)
def test_a_part_of_a_gpu_lies_on_one_gpu(needs, places):
    assert places_on({"CPU": 8.0, "GPU": 2.0, "memory": 1e9}, needs) == places


@pytest.mark.slow
def test_as_many_actors_are_asked_for_as_ray_starts(cluster):
    with RayExecutor(cpus=0.1, gpus=0.35) as executor:
        assert executor.room() == executor.slots == 4
        kind = cluster.remote(num_cpus=0.1, num_gpus=0.35)(Silent)
        actors = [kind.remote() for _ in range(executor.room())]
        cluster.get([actor.ready.remote() for actor in actors])
        more = kind.remote()  # what is left is 0.3 of each GPU: 0.6 in sum, and of no use
        assert cluster.wait([more.ready.remote()], timeout=2)[0] == []
        for actor in (*actors, more):
            cluster.kill(actor)


@pytest.mark.slow
def test_an_actor_that_cannot_start_is_given_up(cluster, busy):
    class Notes(Watcher):
        told = ()

        def note(self, text):
            self.told = (*self.told, text)

    notes = Notes()
    with RayExecutor(cpus=1, start_seconds=600, watcher=notes) as executor:
        assert executor.slots == 2  # what the cluster has; it does not say who uses it
        executor.submit(task(0))
        outcomes = []
        while not outcomes:
            outcomes = executor.wait(0.5)
        executor.start_seconds = 0.5
        executor.submit(task(1))
        executor.submit(task(2))
        while len(outcomes) < 3:
            outcomes += executor.wait(0.2)
        found = {outcome.task.key: outcome.record for outcome in outcomes}
        assert found.pop("2") is None  # to be done by another
        assert all("nothing" in record["error"] for record in found.values())
        assert executor.slots == 1
        executor.submit(task(2))
        while not (again := executor.wait(0.5)):
            pass
        assert "nothing" in again[0].record["error"]
    assert notes.told == (
        "1 of 2 workers did not start on the Ray cluster within 0.5 s; the study continues with 1",
    )


@pytest.mark.slow
def test_a_full_cluster_is_said_in_a_sentence(cluster, busy):
    other = cluster.remote(num_cpus=1)(Silent).remote()
    cluster.get(other.ready.remote())
    with RayExecutor(cpus=1, gpus=1, start_seconds=0.5) as executor:
        executor.submit(task(0))
        words = r"no worker started on the Ray cluster within 0\.5 s: one needs 1 CPUs, 1 GPUs"
        with pytest.raises(LookalikeError, match=words):
            while True:
                assert executor.wait(0.2) == []
    cluster.kill(other)


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
