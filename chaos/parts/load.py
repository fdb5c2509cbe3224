"""A server under load: for minutes below its capacity, and for seconds far above it."""

import threading
import time
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import httpx

from chaos.scenario import Outcome, Scenario, Unit
from chaos.traffic import Shop, ShopServer, Traffic

STRETCHES = 10
"""The capacity is the rate in the slowest of so many stretches: a machine is not always as fast."""
STEADY = 0.8
"""Share of the capacity at which every request must be answered."""
POSTPONED = 0.01
"""Share of those requests that may be told to come again, when the machine was slower for once."""
OVERLOAD = 3.0
OVERLOAD_SECONDS = 20.0
RECOVERY_SECONDS = 10.0
"""After an overload the server must answer in its usual time by then."""
CHANGE_PAUSE = 2.0
SENT = 0.95
"""Share of the requests of a load, which come at random, that must have been sent."""
GROWTH = 1.1
"""Memory may be this many times that of the first minute, and :data:`GROWTH_MEGABYTES` more."""
GROWTH_MEGABYTES = 32.0


class Background:
    """Changes the index again and again, and samples the server's memory, while a block runs."""

    def __init__(self, shop: Shop, server: ShopServer, folder: Path) -> None:
        self.changes = 0
        self.problems: list[str] = []
        self.megabytes: list[float] = []
        self._shop, self._server, self._folder = shop, server, folder
        self._ended = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Work until the block ends."""
        threads = [threading.Thread(target=work) for work in (self._change, self._sample)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._ended.set()
            for thread in threads:
                thread.join()
        if not self.changes:
            self.problems.append("the index was never changed")

    def memory(self) -> tuple[float, float]:
        """Megabytes after the first minute (of short runs: the first fifth), and at the end."""
        first = min(60, len(self.megabytes) // 5)
        return self.megabytes[first], self.megabytes[-1]

    def _change(self) -> None:
        with self._noting():
            while not self._ended.wait(CHANGE_PAUSE):
                self.problems += self._shop.change(self._folder)
                self.changes += 2

    def _sample(self) -> None:
        with self._noting():
            while not self._ended.wait(1.0):
                self.megabytes.append(self._server.megabytes)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """An exception in a thread is a problem, too."""
        try:
            yield
        except Exception as error:
            self.problems.append(f"{type(error).__name__}: {error}")


class ServerLoad(Scenario):
    """What both loads share: a shop, its server, and the judgement of answers."""

    unit: Unit = "requests"
    quick = 0

    def prepare(self, folder: Path) -> None:
        """Embed the pictures of the shop by a network of ordinary size."""
        self.shop = Shop(folder / "shop", "efficientnet-lite0", "imagenet")
        self.remarks: list[str] = []

    def remark(self) -> str:
        """What was measured."""
        return "; ".join(self.remarks)

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Start a server, load it, and stop it."""
        server = ShopServer(self.shop, folder)
        try:
            problems, requests = self.load(
                server, Traffic(self.shop, random.randrange(10**6)), folder
            )
        finally:
            stopping = server.stop()
        problems += stopping
        return Outcome(done=requests, wrong=len(problems), problems=tuple(problems[:20]))

    @abstractmethod
    def load(self, server: ShopServer, traffic: Traffic, folder: Path) -> tuple[list[str], int]:
        """Send requests for ``self.seconds``; the problems, and the number of requests."""


class Soak(ServerLoad):
    """Four clients without a pause, while other processes add and remove pictures."""

    name = "load.soak"
    share = 0.05

    def load(self, server: ShopServer, traffic: Traffic, folder: Path) -> tuple[list[str], int]:
        """Every request is answered, from one state of the index; memory stays as it is."""
        background = Background(self.shop, server, folder)
        with background.running():
            phase = traffic.closed(server.address, 4, self.seconds)
        refused = phase.requests - phase.statuses[200]
        first, last = background.memory()
        self.remarks.append(
            f"{phase.rate:.0f} requests per second for {phase.seconds / 60:.1f} minutes, "
            f"{background.changes} changes and {traffic.generations} states of the index, "
            f"memory {first:.0f} MB, then {last:.0f} MB"
        )
        problems = [*phase.problems, *background.problems]
        if refused:
            problems.append(f"{refused} requests were not answered: {dict(phase.statuses)}")
        return problems + grown(first, last), phase.requests


class Capacity(ServerLoad):
    """80 % of the measured capacity for minutes, then three times the capacity for seconds."""

    name = "load.capacity"
    share = 0.5

    def load(self, server: ShopServer, traffic: Traffic, folder: Path) -> tuple[list[str], int]:
        """No error below the capacity; above it refusals with ``Retry-After``, and recovery."""
        background = Background(self.shop, server, folder)
        with background.running():
            first_ones = traffic.closed(server.address, 16, min(10.0, self.seconds / 10))  # slow
            stretch = min(60.0, self.seconds / 5) / STRETCHES
            measured = [traffic.closed(server.address, 16, stretch) for _ in range(STRETCHES)]
            rate = min(phase.rate for phase in measured)
            steady = traffic.open(server.address, STEADY * rate, self.seconds, again=True)
        over = traffic.open(server.address, OVERLOAD * rate, OVERLOAD_SECONDS)
        draining = over.seconds - OVERLOAD_SECONDS
        recovery = draining + recovery_seconds(server.address, steady.percentile(99) / 1e3)
        first, last = background.memory()
        failed = steady.requests - steady.statuses[200]
        refused = over.statuses[429] + over.statuses[503]
        self.remarks.append(
            f"capacity {rate:.0f} requests per second; at {STEADY:.0%} of it "
            f"{steady.requests:,} requests in {steady.seconds / 60:.0f} minutes, {failed} errors, "
            f"{steady.postponed} told to come again, "
            f"p50 {steady.percentile(50):.0f} ms, p99 {steady.percentile(99):.0f} ms, "
            f"{background.changes} changes and {traffic.generations} states of the index, memory "
            f"{first:.0f} MB, then {last:.0f} MB; "
            f"at {OVERLOAD:g} times the capacity {over.requests:,} requests, "
            f"{refused / max(1, over.requests):.0%} refused with Retry-After, p99 of the answered "
            f"{over.percentile(99):.0f} ms, usual times again after {recovery:.1f} s"
        )
        phases = [first_ones, *measured, steady, over]
        problems = [problem for phase in phases for problem in phase.problems]
        problems += background.problems
        if steady.postponed > POSTPONED * steady.requests:
            problems.append(f"{steady.postponed} refusals below the capacity")
        if steady.requests < SENT * STEADY * rate * self.seconds:
            problems.append(f"the campaign sent only {steady.requests} requests below the capacity")
        if over.lag > 1:
            problems.append(f"the campaign was {over.lag:.0f} s late with the overload")
        if failed:
            problems.append(f"{failed} requests below the capacity failed: {dict(steady.statuses)}")
        if over.disconnected:
            problems.append(f"{over.disconnected} requests of the overload had no answer")
        if not refused:
            problems.append("nothing was refused at three times the capacity")
        if recovery > RECOVERY_SECONDS:
            problems.append(f"usual times only {recovery:.0f} s after the overload")
        return problems + grown(first, last), sum(phase.requests for phase in phases)


def grown(first: float, last: float) -> list[str]:
    """A problem if memory is not flat."""
    if last <= GROWTH * first + GROWTH_MEGABYTES:
        return []
    return [f"memory grew from {first:.0f} MB to {last:.0f} MB"]


def recovery_seconds(address: str, usual: float) -> float:
    """Seconds from now until a search is answered within the usual time."""
    start = time.monotonic()
    with httpx.Client(base_url=address, timeout=60) as client:
        while (waited := time.monotonic() - start) < 60:
            begun = time.monotonic()
            status = client.get("/api/items/0/neighbours").status_code
            if status == 200 and time.monotonic() - begun <= usual:
                break
            time.sleep(0.1)
    return waited


SCENARIOS: tuple[Scenario, ...] = (Soak(), Capacity())
