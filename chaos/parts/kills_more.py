"""``kill -9`` while image stores are built, tables are reproduced, and on Ray."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from random import Random

import psutil

from chaos.checks import begun, failure, killed_once, moment, unexpected
from chaos.commands import cold, environment, warm
from chaos.parts.kills_study import StudyScenario
from chaos.pictures import make_pictures
from chaos.postgres import send
from chaos.scenario import Outcome, Scenario, Unavailable, Unit
from chaos.study import records, study_command
from chaos.training import outcome, settings, whole_outcome
from lookalike.files import file_checksum
from lookalike.study.result_files import load_results


class StoreKills(Scenario):
    """A store of some hundred images is built by a training that is killed meanwhile."""

    unit: Unit = "kills"

    def __init__(self, kind: str) -> None:
        self.name = f"kills.store.{kind}"
        self.kind = kind
        self.quick = int(kind == "jpeg")

    def prepare(self, folder: Path) -> None:
        """Build the store undisturbed."""
        self.pictures = make_pictures(folder / "pictures", images=60)
        start = time.monotonic()
        command = warm(self.arguments(folder / "runs"), folder, self.cache(folder))
        if command.wait() != 0:
            raise RuntimeError(f"the undisturbed run failed: {command.errors}")
        self.seconds = time.monotonic() - start
        self.expected = (whole_outcome(folder / "runs"), self.content(folder))
        if not self.expected[1]:
            raise RuntimeError("the undisturbed run has made no store")

    def arguments(self, runs: Path) -> list[str]:
        """A training that needs the store, and does little with it."""
        common = settings("plain", self.pictures, runs)
        return [*common, "train.epochs=0", f"data.store={self.kind}"]

    def cache(self, folder: Path) -> dict[str, str]:
        """The variable that names the cache folder."""
        return {"LOOKALIKE_CACHE": str(folder / "cache")}

    def content(self, folder: Path) -> dict[str, str]:
        """The files of the store, without those that killed processes have left."""
        files = (path for path in (folder / "cache").rglob("*") if path.is_file())
        return {
            path.name: file_checksum(path)
            for path in files
            if not path.name.startswith(".") and path.suffix != ".claim"
        }

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Kill up to six times while the store is built."""
        arguments, total = self.arguments(folder / "runs"), Outcome()
        kills = random.randint(2, 6)
        for _ in range(kills):
            delay, number = moment(random, self.seconds, kills), random.randint(1, 6)
            total += killed_once(arguments, folder, random, delay, number, self.cache(folder))
        command = warm(arguments, folder, self.cache(folder))
        if command.wait() != 0:
            total += failure(command, f"exit code {command.poll()} after kills")
        if (outcome(folder / "runs"), self.content(folder)) != self.expected:
            total += Outcome(wrong=1, problems=("not the store or result of the undisturbed run",))
        return total


class ReproduceKills(Scenario):
    """A table of a paper in its smallest form, killed and started again."""

    name = "kills.reproduce"
    unit: Unit = "kills"
    quick = 0

    def prepare(self, folder: Path) -> None:
        """Reproduce it undisturbed."""
        self.pictures = make_pictures(folder / "pictures", classes=16)
        self.variables = {"LOOKALIKE_CACHE": str(folder / "cache")}
        start = time.monotonic()
        command = warm(self.arguments(folder / "whole"), folder, self.variables)
        if command.wait() != 0:
            raise RuntimeError(f"the undisturbed table failed: {command.errors}")
        self.seconds = time.monotonic() - start
        self.expected = self.scores(folder / "whole")
        if not all(scores and all(scores) for _, scores in json.loads(self.expected) or [("", [])]):
            raise RuntimeError(f"the undisturbed table has no scores: {self.expected}")

    def arguments(self, results: Path) -> list[str]:
        """One of the shortest tables, with the smallest network."""
        return [
            "reproduce", "thesis/fixed-validation", "--scale", "small", "--results", str(results),
            "--workers", "1", "--repeats", "1", "data.name=folder", f"data.root={self.pictures}",
            "data.transform=none", "model.network=small-cnn", "model.weights=none",
            "model.frozen=false", "model.frozen_until=null", "model.head_init=random",
            "model.freeze_bn_statistics=false", "model.freeze_bn_affine=false",
            "sampler.batch_size=8", "train.epochs=1", "train.batches_per_epoch=2",
        ]  # fmt: skip

    def scores(self, results: Path) -> str:
        """The scores of every row."""
        rows = load_results(results).rows
        return json.dumps([[r.label, [x.separate for x in r.repeats]] for r in rows])

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Kill up to three times."""
        arguments, total = self.arguments(folder / "results"), Outcome()
        kills = random.randint(1, 3)
        for _ in range(kills):
            command = warm(arguments, folder, self.variables)
            killed = command.kill_after(moment(random, self.seconds, kills))
            total += Outcome(int(killed)) + unexpected(command, (0, -signal.SIGKILL))
        command = warm(arguments, folder, self.variables)
        if command.wait() != 0:
            return total + failure(command, f"exit code {command.poll()} after kills")
        if self.scores(folder / "results") != self.expected:
            total += Outcome(wrong=1, problems=("other scores than the undisturbed table",))
        return total


class RayKills(StudyScenario):
    """A study on a Ray cluster of two nodes: a worker, a node or the driver is killed."""

    name = "kills.study.ray"
    weight = 2.0
    quick = 0
    cluster: subprocess.Popen[str] | None = None

    def prepare(self, folder: Path) -> None:
        """Run the study undisturbed, and start a cluster."""
        if importlib.util.find_spec("ray") is None:
            raise Unavailable("ray is not installed")
        super().prepare(folder)
        self.cluster = subprocess.Popen(
            [sys.executable, "-m", "chaos.ray_cluster"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment({}),
            start_new_session=True,
        )
        self.address = self.answer("address ")

    def answer(self, beginning: str) -> str:
        """The rest of the next line of the cluster that begins so."""
        assert self.cluster is not None
        assert self.cluster.stdout is not None
        for line in self.cluster.stdout:
            if line.startswith(beginning):
                return line.removeprefix(beginning).strip()
        raise RuntimeError("the Ray cluster has ended")

    def kill_node(self) -> None:
        """Kill the second node; another one takes its place."""
        assert self.cluster is not None
        assert self.cluster.stdin is not None
        self.cluster.stdin.write("node\n")
        self.cluster.stdin.flush()
        self.answer("node")

    def kill_worker(self, random: Random) -> bool:
        """Kill one of the cluster's processes that train; whether there was one."""
        assert self.cluster is not None
        found = []
        for process in psutil.Process(self.cluster.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if "ray::RunnerActor" in " ".join(process.cmdline()):
                    found.append(process.pid)
        with suppress(ProcessLookupError, IndexError):
            os.kill(random.choice(found), signal.SIGKILL)
            return True
        return False

    def close(self) -> None:
        """Stop the cluster."""
        if self.cluster is not None:
            processes = psutil.Process(self.cluster.pid).children(recursive=True)
            with suppress(subprocess.TimeoutExpired):
                self.cluster.communicate(timeout=60)
                return
            self.cluster.kill()
            send(processes, signal.SIGKILL)

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Kill up to three times."""
        results = folder / "results"
        options = ("--executor", "ray", "--address", self.address)
        start = study_command(self.study_in(folder), results, *options)
        url = f"sqlite:///{results / 'study.db'}"
        command = cold(start, folder, self.cache)
        total = Outcome()
        for _ in range(random.randint(1, 3)):
            before = records(url)
            begun(command, lambda: records(url) > before)  # noqa: B023 - called at once
            if command.wait(random.uniform(0, 0.2) * self.seconds) is not None:
                break
            what = random.choice(("driver", "worker", "node"))
            if what == "driver":
                total += Outcome(int(command.kill_after(0)))
                total += unexpected(command, (0, -signal.SIGKILL))
                command = cold(start, folder, self.cache)
            elif what == "worker":
                total += Outcome(int(self.kill_worker(random)))
            else:
                self.kill_node()
                total += Outcome(1)
        total += self.to_the_end(start, folder, command)
        return total + self.compare(results, url)


SCENARIOS: tuple[Scenario, ...] = (
    StoreKills("raw"),
    StoreKills("jpeg"),
    ReproduceKills(),
    RayKills(),
)
