"""A real server of a small shop: its workers are killed, or it gets more requests than it can."""

import asyncio
import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import httpx
import numpy as np
import psutil
from PIL import Image

from lookalike.inference.embedder import Embedder
from lookalike.search import Index
from tests.chaos.commands import Command, start
from tests.chaos.outcome import Outcome, Scenario, Unit

__all__ = ["ServerKills", "ServerLoad"]

LABELS = ("amber", "indigo", "teal", "rose")
BASE, EXTRA = 150, 20
"""Pictures that are in the index all the time, and those that are added and removed."""
ALL = 200
"""The largest k that a server allows: more than the index ever holds."""
TOLERANCE = 1e-3
"""Of similarities: a network's sums differ a little with the size of the batch."""
REQUEST_SECONDS = 60.0
AGAIN_SECONDS = 60.0
"""By then a killed worker has been replaced, and the workers of a killed server have ended."""
STRETCHES = 10
"""The capacity is the rate in the slowest of so many stretches: a machine is not always as fast."""
STEADY, OVERLOAD, OVERLOAD_SECONDS = 0.8, 3.0, 20.0
"""Shares of the capacity: every request must be answered; some must be refused, for seconds."""
POSTPONED = 0.01
"""Share of the steady requests that may be told to come again: the machine was slower for once."""
RECOVERY_SECONDS = 10.0
"""After an overload the server must answer in its usual time by then."""


class Shop:
    """Pictures with labels and prices, and an index of the first of them.

    Args:
        folder: A new folder for everything.
        network: Embeds the pictures.
        weights: Of the network.
    """

    def __init__(self, folder: Path, network: str, weights: str) -> None:
        self.photos = folder / "photos"
        self.photos.mkdir(parents=True)
        self.index = folder / "shop.index"
        base = self._listing("base.csv", range(BASE))
        self._extra = self._listing("extra.csv", range(BASE, BASE + EXTRA))
        created = Index.create(self.index, Embedder.from_network(network, weights=weights), base)
        self.similarities = created.vectors @ created.vectors.T
        """Of each of the first pictures to each other, in the order of their ids."""
        self.uploads = [(self.photos / f"{number}.jpg").read_bytes() for number in range(50)]

    def _listing(self, name: str, numbers: range) -> Path:
        """Draw pictures and write a CSV of them."""
        lines = ["path,label,price"]
        for number in numbers:
            coarse = np.random.default_rng(number).integers(0, 256, (12, 16, 3), dtype=np.uint8)
            Image.fromarray(coarse).resize((320, 240)).save(self.photos / f"{number}.jpg")
            lines.append(f"{number}.jpg,{LABELS[number % len(LABELS)]},{number % 50}")
        (self.photos / name).write_text("\n".join(lines) + "\n")
        return self.photos / name

    def change(self, folder: Path) -> list[str]:
        """Add the extra pictures and remove them again, by real commands; what went wrong."""
        names = [f"{number}.jpg" for number in range(BASE, BASE + EXTRA)]
        problems = []
        for change in (["add", self.index, self._extra], ["remove", self.index, *names]):
            command = start(["index", *change], folder)
            if command.end() != 0:
                problems.append(f"{command}: {command.stderr.strip()}")
        return problems

    @contextmanager
    def served(self, folder: Path, problems: list[str], workers: int = 1) -> Iterator["Served"]:
        """``lookalike serve`` as a user starts it; it is stopped, and what went wrong is noted."""
        options = ["--port", "0", "--rate", "none", "--workers", str(workers)]
        command = start(["serve", self.index, *options], folder, fresh=True)
        line = next((line for line in command.stdout if "http://" in line), None)
        if line is None:
            raise RuntimeError(f"the server did not start: {command.stderr[-2000:]}")
        drain = threading.Thread(target=lambda: list(command.stdout), daemon=True)
        drain.start()
        try:
            yield Served(command, next(word for word in line.split() if "http://" in word))
            if command.poll() is None:
                command.send_signal(signal.SIGTERM)
                if (code := command.within(60)) != 130:
                    problems.append(f"the server stopped with exit code {code}")
        finally:
            command.kill_all()
        if command.traceback:
            problems.append(f"the server's log has a traceback: {command.stderr[-2000:]}")


@dataclass(frozen=True)
class Served:
    """A server that runs."""

    command: Command
    address: str

    def processes(self) -> list[psutil.Process]:
        """All its processes, itself first."""
        first = psutil.Process(self.command.pid)
        return [first, *first.children(recursive=True)]

    def workers(self) -> list[psutil.Process]:
        """The processes that answer."""
        found = []
        for process in self.processes()[1:]:
            with suppress(psutil.NoSuchProcess):
                if "spawn_main" in " ".join(process.cmdline()):
                    found.append(process)
        return found

    def megabytes(self) -> float:
        """Resident memory of all processes."""
        return float(sum(process.memory_info().rss for process in self.processes())) / 2**20


@dataclass
class Phase:
    """What was answered in one stretch of time.

    Attributes:
        seconds: How long it was, until the last answer.
        statuses: How many answers had each status.
        latencies: Seconds of each answer of status 200.
        disconnected: Requests that had no answer.
        postponed: Refusals after which the request came again.
        problems: What was wrong with answers.
    """

    seconds: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    disconnected: int = 0
    postponed: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def requests(self) -> int:
        """How many were sent."""
        return sum(self.statuses.values()) + self.disconnected

    @property
    def rate(self) -> float:
        """Good answers per second."""
        return self.statuses[200] / self.seconds

    def percentile(self, percent: float) -> float:
        """So many percent of the good answers took at most this many milliseconds."""
        return 1e3 * float(np.percentile(self.latencies, percent)) if self.latencies else 0.0


@dataclass(frozen=True)
class Visit:
    """One request, and what its answer must obey.

    Attributes:
        path: What is asked for.
        picture: What is uploaded.
        marks: The ids of a search by marks.
        k: How many neighbours are asked for; 0: the request is no search.
        label: The only label of the answer; None: any.
        price_below: All prices of the answer are below it; None: any.
        known: The id of the picture that is searched with; its similarities are known.
        excluded: Pictures that the answer leaves out, as they were asked with.
    """

    path: str
    picture: bytes | None = None
    marks: Mapping[str, Sequence[int]] | None = None
    k: int = 0
    label: str | None = None
    price_below: int | None = None
    known: int | None = None
    excluded: frozenset[int] = frozenset()

    def send(self, client: aiohttp.ClientSession) -> AbstractAsyncContextManager[Any]:
        """The answer, as aiohttp gives it."""
        filters: dict[str, str | int] = {"k": self.k} if self.k else {}
        if self.label is not None:
            filters["label"] = self.label
        if self.price_below is not None:
            filters["where"] = f"price < {self.price_below}"
        if self.marks is not None:
            return client.post(self.path, json={**self.marks, **filters})
        if self.picture is None:
            return client.get(self.path, params=filters)
        form = aiohttp.FormData()
        form.add_field("image", self.picture, filename="upload.jpg")
        return client.post(self.path, data=form, params=filters)


class Traffic:
    """Visitors of a shop: they upload, search by id and by marks, filter, and look at pictures.

    Every answer of status 200 is checked: similarities in order and those of the picture that was
    sent, no picture twice, label and filter obeyed, and for each generation of the index the same
    pictures in every whole answer.
    """

    def __init__(self, shop: Shop, seed: int) -> None:
        self._shop = shop
        self._random = random.Random(seed)
        self.pictures: dict[int, set[int]] = {}
        """By generation of the index: the ids of all its pictures."""

    def closed(self, address: str, clients: int, seconds: float) -> Phase:
        """Clients that wait for each answer before they send the next request."""

        async def visitors(client: aiohttp.ClientSession, phase: Phase, until: float) -> None:
            async def visitor() -> None:
                while time.monotonic() < until:
                    await self._request(client, phase)

            await asyncio.gather(*(visitor() for _ in range(clients)))

        return asyncio.run(self._phase(visitors, address, seconds))

    def open(self, address: str, rate: float, seconds: float, again: bool = False) -> Phase:
        """Requests that come at random, so many per second, whatever the server does.

        ``again``: who is refused comes again when ``Retry-After`` says, as the protocol has it.
        """

        async def visitors(client: aiohttp.ClientSession, phase: Phase, until: float) -> None:
            due = time.monotonic()
            async with asyncio.TaskGroup() as requests:
                while (due := due + self._random.expovariate(rate)) < until:
                    await asyncio.sleep(due - time.monotonic())
                    requests.create_task(self._request(client, phase, again))

        return asyncio.run(self._phase(visitors, address, seconds))

    async def _phase(self, visitors: Any, address: str, seconds: float) -> Phase:
        phase, begun = Phase(), time.monotonic()
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=2.0)
        limit = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
        async with aiohttp.ClientSession(address, connector=connector, timeout=limit) as client:
            await visitors(client, phase, begun + seconds)
        phase.seconds = time.monotonic() - begun
        return phase

    def _visit(self) -> Visit:
        """A request of a random kind."""
        draw = self._random
        kind = draw.choice(("upload", "upload", "item", "marks", "look", "look"))
        some = draw.randrange(BASE)
        if kind == "look":
            paths = (f"/api/items/{some}/image", "/api/items?seed=3", "/api/labels")
            return Visit(draw.choice(paths))
        k = draw.choice((10, ALL))
        label, price = draw.choice((None, None, *LABELS)), draw.choice((None, None, 10, 25))
        if kind == "upload":
            number = draw.randrange(len(self._shop.uploads))
            picture = self._shop.uploads[number]
            return Visit("/api/search", picture, None, k, label, price, known=number)
        if kind == "item":
            path, excluded = f"/api/items/{some}/neighbours", frozenset({some})
            return Visit(path, None, None, k, label, price, some, excluded)
        right, wrong = (some + 4) % BASE, (some + 1) % BASE
        marks = {"items": [some], "positive_ids": [right], "negative_ids": [wrong]}
        excluded = frozenset({some, right, wrong})
        return Visit("/api/query", None, marks, k, label, price, excluded=excluded)

    async def _request(
        self, client: aiohttp.ClientSession, phase: Phase, again: bool = False
    ) -> None:
        """Send a request, if wanted again after a refusal, and check its answer."""
        visit, begun = self._visit(), time.monotonic()
        while True:
            try:
                async with visit.send(client) as answer:
                    content = await answer.read()
            except (aiohttp.ClientError, TimeoutError):
                phase.disconnected += 1
                return
            wait = answer.headers.get("Retry-After")
            refused = answer.status in (429, 503) and wait is not None
            if not (refused and again) or time.monotonic() - begun > REQUEST_SECONDS:
                break
            phase.postponed += 1
            await asyncio.sleep(float(wait))
        phase.statuses[answer.status] += 1
        if answer.status == 200:
            phase.latencies.append(time.monotonic() - begun)
            if visit.k:
                phase.problems += self._wrong(visit, json.loads(content))
        elif not refused:
            phase.problems.append(f"{visit.path}: {answer.status} {content[:200]!r}")

    def _wrong(self, visit: Visit, answer: dict[str, Any]) -> list[str]:
        """What is wrong with the answer to a search."""
        hits, generation = answer["neighbours"], answer["generation"]
        label, price, excluded = visit.label, visit.price_below, visit.excluded
        ids = {hit["id"] for hit in hits}
        whole = visit.k == ALL and label is None and price is None
        pictures = self.pictures.setdefault(generation, ids | excluded) if whole else set()
        known = {} if visit.known is None else dict(enumerate(self._shop.similarities[visit.known]))
        claims = {
            "similarities are in order": all(
                a["similarity"] >= b["similarity"] for a, b in pairwise(hits)
            ),
            "similarities are those of the picture": all(
                abs(hit["similarity"] - known.get(hit["id"], hit["similarity"])) < TOLERANCE
                for hit in hits
            ),
            "no picture is there twice": len(ids) == len(hits),
            "the label is obeyed": label is None or all(hit["label"] == label for hit in hits),
            "the filter is obeyed": price is None
            or all(float(hit["metadata"]["price"]) < price for hit in hits),
            f"answers of generation {generation} agree": not whole or pictures == ids | excluded,
            "no picture is missing": not whole or pictures >= set(range(BASE)),
            f"a state has {len(pictures)} pictures": not whole
            or len(pictures) in (BASE, BASE + EXTRA),
        }
        return [f"not so: {sentence}" for sentence, holds in claims.items() if not holds]


@contextmanager
def repeated(*works: Callable[[], object]) -> Iterator[None]:
    """Do things again and again, each in a thread, while a block runs."""
    over = threading.Event()

    def repeat(work: Callable[[], object]) -> None:
        while not over.is_set():
            work()

    threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def judged(done: int, problems: list[str]) -> Outcome:
    """The outcome of an attempt with these problems."""
    return Outcome(done, wrong=len(problems), problems=tuple(problems[:20]))


def within_seconds(holds: Callable[[], bool], seconds: float = AGAIN_SECONDS) -> bool:
    """Whether something holds before long."""
    until = time.monotonic() + seconds
    while not (found := holds()) and time.monotonic() < until:
        time.sleep(0.2)
    return found


def answers(address: str, usual: float = 10.0) -> bool:
    """Whether a search is answered within the usual time."""
    with suppress(httpx.TransportError):
        begun = time.monotonic()
        status = httpx.get(f"{address}api/items/0/neighbours", timeout=60).status_code
        return status == 200 and time.monotonic() - begun <= usual
    return False


class ServerKills(Scenario):
    """A server with two workers: workers are killed, then the process that looks after them."""

    name = "server.kills"
    unit: Unit = "kills"

    def prepare(self, folder: Path) -> None:
        """Make an index."""
        self.shop = Shop(folder / "shop", "small-cnn", "none")

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Kill up to three workers, then the server; every answer meanwhile is right."""
        traffic, phases = Traffic(self.shop, random.randrange(10**6)), list[Phase]()
        done, problems = 0, list[str]()
        with (
            self.shop.served(folder, problems, workers=2) as server,
            repeated(
                lambda: phases.append(traffic.closed(server.address, 2, 1.0)),
                lambda: problems.extend(self.shop.change(folder)),
            ),
        ):
            for _ in range(random.randint(1, 3)):
                time.sleep(random.uniform(0.5, 3.0))
                with suppress(IndexError, psutil.NoSuchProcess):
                    random.choice(server.workers()).kill()
                    done += 1
            if not within_seconds(lambda: answers(server.address)):
                problems.append("no answer after workers were killed")
            time.sleep(random.uniform(0.5, 3.0))
            workers = server.workers()
            os.kill(server.command.pid, signal.SIGKILL)
            server.command.within(10)
            done += 1
            if psutil.wait_procs(workers, timeout=AGAIN_SECONDS)[1]:
                problems.append("workers went on without their server")
        with self.shop.served(folder, problems) as server:
            phases.append(Traffic(self.shop, 0).closed(server.address, 1, 1.0))
        if set(phases[-1].statuses) != {200}:
            problems.append(f"answers of the next server: {dict(phases[-1].statuses)}")
        problems += [problem for phase in phases for problem in phase.problems]
        return judged(done, problems)


class ServerLoad(Scenario):
    """80 % of the measured capacity for minutes, then three times the capacity for seconds.

    Meanwhile other processes add and remove pictures. There is no error below the capacity; above
    it are refusals with ``Retry-After``, and recovery; memory stays as it is.
    """

    name = "server.load"
    unit: Unit = "requests"
    share = 0.5

    def prepare(self, folder: Path) -> None:
        """Embed the pictures of the shop by a network of ordinary size."""
        self.shop = Shop(folder / "shop", "efficientnet-lite0", "imagenet")
        self.measured = ""

    def remark(self) -> str:
        """What was measured."""
        return self.measured

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Measure the capacity, stay below it, go above it, and see how the server recovers."""
        traffic, problems = Traffic(self.shop, random.randrange(10**6)), list[str]()
        megabytes, changes = list[float](), list[int]()

        def change() -> None:
            problems.extend(self.shop.change(folder))
            changes.append(2)
            time.sleep(2)

        with self.shop.served(folder, problems) as server:
            at = server.address
            with repeated(change, lambda: (megabytes.append(server.megabytes()), time.sleep(1))):
                phases = [traffic.closed(at, 16, min(10.0, self.seconds / 10))]  # slow at first
                stretch = min(60.0, self.seconds / 5) / STRETCHES
                phases += [traffic.closed(at, 16, stretch) for _ in range(STRETCHES)]
                rate = min(phase.rate for phase in phases[1:])
                steady = traffic.open(at, STEADY * rate, self.seconds, again=True)
            over = traffic.open(at, OVERLOAD * rate, OVERLOAD_SECONDS)
            begun = time.monotonic() - (over.seconds - OVERLOAD_SECONDS)
            within_seconds(lambda: answers(at, steady.percentile(99) / 1e3))
            recovery = time.monotonic() - begun
        phases += [steady, over]
        failed = steady.requests - steady.statuses[200]
        refused = over.statuses[429] + over.statuses[503]
        first, last = megabytes[min(60, len(megabytes) // 5)], megabytes[-1]
        wrong = {
            f"{steady.postponed} refusals below the capacity": steady.postponed
            > POSTPONED * steady.requests,
            f"{failed} requests below the capacity failed: {dict(steady.statuses)}": failed,
            f"{over.disconnected} requests of the overload had no answer": over.disconnected,
            "nothing was refused at three times the capacity": not refused,
            f"usual times only {recovery:.0f} s after the overload": recovery > RECOVERY_SECONDS,
            f"memory grew from {first:.0f} MB to {last:.0f} MB": last > 1.1 * first + 32,
            "the index was never changed": not changes,
        }
        problems += [problem for phase in phases for problem in phase.problems]
        problems += [sentence for sentence, holds in wrong.items() if holds]
        self.measured = (
            f"capacity {rate:.0f} requests per second; at {STEADY:.0%} of it "
            f"{steady.requests:,} requests in {steady.seconds / 60:.0f} minutes, {failed} errors, "
            f"{steady.postponed} told to come again, p50 {steady.percentile(50):.0f} ms, p99 "
            f"{steady.percentile(99):.0f} ms, {sum(changes)} changes and {len(traffic.pictures)} "
            f"states of the index, memory {first:.0f} MB, then {last:.0f} MB; at {OVERLOAD:g} "
            f"times the capacity {over.requests:,} requests, "
            f"{refused / max(1, over.requests):.0%} refused with Retry-After, p99 of the answered "
            f"{over.percentile(99):.0f} ms, usual times again after {recovery:.1f} s"
        )
        return judged(sum(phase.requests for phase in phases), problems)
