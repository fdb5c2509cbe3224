"""``kill -9`` of a driver, a worker or a node of a study on Ray."""

import importlib.util
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from random import Random

import psutil

from chaos.checks import begun, unexpected
from chaos.commands import environment, send, spawn
from chaos.parts.kills_study import StudyScenario
from chaos.scenario import Outcome, Scenario, Unavailable
from chaos.study import records, study_command


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
        command = spawn(start, folder, self.cache)
        total = Outcome()
        for _ in range(random.randint(1, 3)):
            before = records(results)
            begun(command, lambda: records(results) > before)  # noqa: B023 - called at once
            if command.wait(random.uniform(0, 0.2) * self.seconds) is not None:
                break
            what = random.choice(("driver", "worker", "node"))
            if what == "driver":
                total += Outcome(int(command.kill_after(0)))
                total += unexpected(command, (0, -signal.SIGKILL))
                command = spawn(start, folder, self.cache)
            elif what == "worker":
                total += Outcome(int(self.kill_worker(random)))
            else:
                self.kill_node()
                total += Outcome(1)
        total += self.to_the_end(start, folder, command)
        return total + self.compare(results)


SCENARIOS: tuple[Scenario, ...] = (RayKills(),)
