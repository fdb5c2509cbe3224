"""A small shop: its pictures and index, a real server, and requests whose answers are checked."""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import psutil
from PIL import Image

from chaos.commands import Command, fork, spawn
from lookalike.inference.embedder import Embedder
from lookalike.search import Index

__all__ = ["Shop", "ShopServer", "Traffic"]

LABELS = ("amber", "indigo", "teal", "rose")
BASE = 150
"""Pictures that are in the index all the time."""
EXTRA = 20
"""Pictures that are added and removed."""
ALL = 200
"""The largest k that a server allows: more than the index ever holds."""
TOLERANCE = 1e-3
"""Of similarities: a network's sums differ a little with the size of the batch."""
START_SECONDS = 120.0
REQUEST_SECONDS = 60.0


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
        vectors = created.vectors
        self.similarities = vectors @ vectors.T
        """Of each of the first pictures to each other, in the order of their ids."""
        self.uploads = [(self.photos / f"{number}.jpg").read_bytes() for number in range(50)]

    def _listing(self, name: str, numbers: range) -> Path:
        """Draw pictures and write a CSV of them."""
        lines = ["path,label,price"]
        for number in numbers:
            rng = np.random.default_rng(number)
            coarse = rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)
            Image.fromarray(coarse).resize((320, 240)).save(self.photos / f"{number}.jpg")
            lines.append(f"{number}.jpg,{LABELS[number % len(LABELS)]},{number % 50}")
        path = self.photos / name
        path.write_text("\n".join(lines) + "\n")
        return path

    def change(self, folder: Path) -> list[str]:
        """Add the extra pictures and remove them again, by real commands.

        Args:
            folder: For what the commands print.

        Returns:
            What went wrong.
        """
        names = [f"{number}.jpg" for number in range(BASE, BASE + EXTRA)]
        index, extra = str(self.index), str(self._extra)
        commands = (["index", "add", index, extra], ["index", "remove", index, *names])
        problems = []
        for arguments in commands:
            command = fork(arguments, folder)
            if command.wait() != 0:
                problems.append(f"index {arguments[1]}: {command.errors.strip()}")
        return problems


class ShopServer:
    """``lookalike serve`` as a user starts it.

    Args:
        shop: What it serves.
        folder: For what it prints.
        workers: Processes that answer.
    """

    def __init__(self, shop: Shop, folder: Path, workers: int = 1) -> None:
        arguments = ["serve", str(shop.index), "--port", "0", "--rate", "none"]
        arguments += ["--workers", str(workers)]
        self.command: Command = spawn(arguments, folder)
        until = time.monotonic() + START_SECONDS
        while "http://" not in self.command.output:
            if self.command.poll() is not None or time.monotonic() > until:
                self.command.kill()
                raise RuntimeError(f"the server did not start: {self.command.errors[-2000:]}")
            time.sleep(0.05)
        words = self.command.output.split()
        self.address = next(word for word in words if word.startswith("http://"))

    @property
    def megabytes(self) -> float:
        """Resident memory of all its processes."""
        processes = [psutil.Process(self.command.pid)]
        processes += processes[0].children(recursive=True)
        return float(sum(process.memory_info().rss for process in processes)) / 2**20

    def stop(self) -> list[str]:
        """Ask it to stop; what went wrong."""
        self.command.kill(15)
        code = self.command.wait(60)
        problems = [] if code == 130 else [f"the server stopped with exit code {code}"]
        if self.command.traceback:
            problems.append(f"the server's log has a traceback: {self.command.errors[-2000:]}")
        return problems


@dataclass
class Phase:
    """What was answered in one stretch of time.

    Attributes:
        seconds: How long it was, until the last answer.
        statuses: How many answers had each status.
        latencies: Seconds of each answer of status 200.
        disconnected: Requests that had no answer.
        postponed: Refusals after which the request came again.
        lag: The longest time by which a request was sent too late, in seconds.
        problems: What was wrong with answers.
    """

    seconds: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    disconnected: int = 0
    postponed: int = 0
    lag: float = 0.0
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


Run = Callable[[aiohttp.ClientSession, Phase, float], Coroutine[Any, Any, None]]
"""Sends requests by the client until a time, and notes the answers."""


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

    Args:
        shop: What the server serves.
        seed: Of the visitors.
    """

    def __init__(self, shop: Shop, seed: int) -> None:
        self._uploads = shop.uploads
        self._similarities = shop.similarities
        self._random = random.Random(seed)
        self._pictures: dict[int, set[int]] = {}
        """By generation of the index: the ids of all its pictures."""

    @property
    def generations(self) -> int:
        """How many states of the index were seen."""
        return len(self._pictures)

    def closed(self, address: str, clients: int, seconds: float) -> Phase:
        """Clients that wait for each answer before they send the next request."""

        async def run(client: aiohttp.ClientSession, phase: Phase, until: float) -> None:
            async def visitor() -> None:
                while time.monotonic() < until:
                    await self._request(client, phase)

            await asyncio.gather(*(visitor() for _ in range(clients)))

        return asyncio.run(self._phase(run, address, seconds))

    def open(self, address: str, rate: float, seconds: float, again: bool = False) -> Phase:
        """Requests that come at random, whatever the server does.

        Args:
            address: Of the server.
            rate: Requests per second.
            seconds: How long they come.
            again: Who is refused comes again when ``Retry-After`` says, as the protocol has it.
        """

        async def run(client: aiohttp.ClientSession, phase: Phase, until: float) -> None:
            due = time.monotonic()
            async with asyncio.TaskGroup() as requests:
                while (due := due + self._random.expovariate(rate)) < until:
                    await asyncio.sleep(due - time.monotonic())
                    phase.lag = max(phase.lag, time.monotonic() - due)
                    requests.create_task(self._request(client, phase, again))

        return asyncio.run(self._phase(run, address, seconds))

    async def _phase(self, run: Run, address: str, seconds: float) -> Phase:
        phase, start = Phase(), time.monotonic()
        async with aiohttp.ClientSession(
            address,
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=2.0),
            timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
        ) as client:
            await run(client, phase, start + seconds)
        phase.seconds = time.monotonic() - start
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
            number = draw.randrange(len(self._uploads))
            picture = self._uploads[number]
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
        similarities = [hit["similarity"] for hit in hits]
        ids = {hit["id"] for hit in hits}
        whole = visit.k == ALL and label is None and price is None
        pictures = self._pictures.setdefault(generation, ids | excluded) if whole else set()
        claims = {
            "similarities are not in order": all(a >= b for a, b in pairwise(similarities)),
            "the similarities are those of another picture": visit.known is None
            or self._is_of(visit.known, hits),
            "a picture is there twice": len(ids) == len(hits),
            "a label was not obeyed": label is None or all(hit["label"] == label for hit in hits),
            "a filter was not obeyed": price is None
            or all(float(hit["metadata"]["price"]) < price for hit in hits),
            f"two answers of generation {generation} differ": not whole
            or pictures == ids | excluded,
            "a picture is missing": not whole or pictures >= set(range(BASE)),
            f"a state has {len(pictures)} pictures": not whole
            or len(pictures) in (BASE, BASE + EXTRA),
        }
        return [sentence for sentence, holds in claims.items() if not holds]

    def _is_of(self, known: int, hits: Sequence[Mapping[str, Any]]) -> bool:
        """Whether the similarities are those to a picture of the index."""
        expected = self._similarities[known]
        first = [hit for hit in hits if hit["id"] < BASE]
        return all(abs(hit["similarity"] - expected[hit["id"]]) < TOLERANCE for hit in first)
