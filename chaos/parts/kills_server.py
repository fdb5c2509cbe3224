"""``kill -9`` of the web server and its workers while visitors search and the index changes."""

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import httpx
import psutil

from chaos.scenario import Outcome, Scenario, Unit
from chaos.traffic import Phase, Shop, ShopServer, Traffic

AGAIN_SECONDS = 60.0
"""By then a killed worker has been replaced, and the workers of a killed server have ended."""


class ServerKills(Scenario):
    """A server with two workers: workers are killed, then the process that looks after them."""

    name = "kills.server"
    unit: Unit = "kills"
    quick = 0

    def prepare(self, folder: Path) -> None:
        """Make an index."""
        self.shop = Shop(folder / "shop", "small-cnn", "none")

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Kill up to three workers, then the server; every answer meanwhile is right."""
        server = ShopServer(self.shop, folder, workers=2)
        traffic = Traffic(self.shop, random.randrange(10**6))
        phases: list[Phase] = []
        changes: list[str] = []
        over = threading.Event()
        threads = [
            repeated(over, lambda: phases.append(traffic.closed(server.address, 2, 1.0))),
            repeated(over, lambda: changes.extend(self.shop.change(folder))),
        ]
        try:
            done, problems = self.disturbed(random, server)
        finally:
            over.set()
            server.command.kill_all()
            for thread in threads:
                thread.join()
        problems += changes + [problem for phase in phases for problem in phase.problems]
        if not any(phase.statuses[200] for phase in phases):
            problems.append("no search was answered")
        if server.command.traceback:
            problems.append(f"the server's log has a traceback: {server.command.errors[-2000:]}")
        wrong = Outcome(done, wrong=len(problems), problems=tuple(problems[:20]))
        return wrong + self.compare(folder)

    def disturbed(self, random: Random, server: ShopServer) -> tuple[int, list[str]]:
        """Kill workers and then the server; how many kills, and what went wrong."""
        done, problems = 0, []
        for _ in range(random.randint(1, 3)):
            time.sleep(random.uniform(0.5, 3.0))
            with suppress(IndexError, ProcessLookupError, psutil.NoSuchProcess):
                os.kill(random.choice(worker_ids(server)), signal.SIGKILL)
                done += 1
        if not answers_again(server):
            problems.append("no answer after workers were killed")
        time.sleep(random.uniform(0.5, 3.0))
        workers = worker_ids(server)
        done += int(server.command.kill())
        if not all(ended(worker) for worker in workers):
            problems.append("workers went on without their server")
        return done, problems

    def compare(self, folder: Path) -> Outcome:
        """Another server of the same index answers."""
        server = ShopServer(self.shop, folder)
        try:
            phase = Traffic(self.shop, 0).closed(server.address, 1, 1.0)
            problems = [*phase.problems, *server.stop()]
        finally:
            server.command.kill_all()
        if set(phase.statuses) != {200}:
            problems.append(f"answers of the next server: {dict(phase.statuses)}")
        return Outcome(wrong=len(problems), problems=tuple(problems[:20]))


def repeated(over: threading.Event, work: Callable[[], None]) -> threading.Thread:
    """Do something again and again, in a thread, until it is over."""

    def run() -> None:
        while not over.is_set():
            work()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def worker_ids(server: ShopServer) -> list[int]:
    """The processes that answer."""
    found = []
    for process in psutil.Process(server.command.pid).children():
        with suppress(psutil.NoSuchProcess):
            if "spawn_main" in " ".join(process.cmdline()):
                found.append(process.pid)
    return found


def answers_again(server: ShopServer) -> bool:
    """Whether a search is answered before long."""
    until = time.monotonic() + AGAIN_SECONDS
    while time.monotonic() < until:
        with suppress(httpx.TransportError):
            if httpx.get(f"{server.address}api/items/0/neighbours", timeout=10).status_code == 200:
                return True
        time.sleep(0.2)
    return False


def ended(pid: int) -> bool:
    """Whether a process ends before long."""
    until = time.monotonic() + AGAIN_SECONDS
    while time.monotonic() < until:
        with suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.1)
                continue
        return True
    return False


SCENARIOS: tuple[Scenario, ...] = (ServerKills(),)
