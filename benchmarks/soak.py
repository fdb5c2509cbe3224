"""A server under mixed work while its index changes: python benchmarks/soak.py --minutes 10.

Four clients upload, search by id, filter, mark and look at pictures, while other processes run
``lookalike index add`` and ``lookalike index remove``. Every answer is checked: no status of 500 or
more, similarities in order, label and filter obeyed, and for each generation of the index the same
ids in the whole answer. Prints counts and memory; the exit code is 1 if anything was wrong.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import httpx
import numpy as np
import psutil
from PIL import Image

from lookalike.search import Embedder, Index

LOOKALIKE = [sys.executable, "-c", "from lookalike.cli import main; main()"]
LABELS = ("amber", "indigo", "teal", "rose")
BASE = 150
EXTRA = 20
MOST = 200
"""The largest k: more than any state of the index has."""


def draw(folder: Path, name: str, number: int) -> str:
    """A picture; its line of the listing."""
    label = LABELS[number % len(LABELS)]
    rng = np.random.default_rng(number)
    coarse = rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)
    Image.fromarray(coarse).resize((320, 240)).save(folder / f"{name}.jpg")
    return f"{name}.jpg,{label},{number % 50}"


def listing(folder: Path, name: str, lines: list[str]) -> Path:
    """A CSV of pictures."""
    path = folder / name
    path.write_text("\n".join(["path,label,price", *lines]) + "\n")
    return path


@dataclass
class Report:
    """What happened."""

    statuses: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    states: dict[int, set[int]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, answer: httpx.Response) -> bool:
        """Count an answer; whether it can be checked."""
        with self.lock:
            self.statuses[answer.status_code] += 1
            if answer.status_code >= 500:
                self.faults.append(
                    f"{answer.status_code} {answer.request.url}: {answer.text[:200]}"
                )
        return answer.status_code == 200

    def require(self, right: bool, sentence: str) -> None:
        """Note a fault unless it is right."""
        if not right:
            with self.lock:
                self.faults.append(sentence)

    def check(
        self, answer: httpx.Response, label: str | None, most: float | None, without: int | None
    ) -> None:
        """Whether the neighbours are in order, obey the filter, and belong to one state."""
        found = answer.json()
        near, generation = found["neighbours"], found["generation"]
        values = [one["similarity"] for one in near]
        self.require(all(a >= b for a, b in pairwise(values)), "similarities are not in order")
        self.require(len({one["id"] for one in near}) == len(near), "a picture stands there twice")
        if label is not None:
            self.require(all(one["label"] == label for one in near), "a label was not obeyed")
        if most is not None:
            prices = [float(one["metadata"]["price"]) for one in near]
            self.require(all(price < most for price in prices), "a filter was not obeyed")
        whole = "k=200" in str(answer.request.url)
        if whole and label is None and most is None:
            ids = {one["id"] for one in near} | ({without} if without is not None else set())
            with self.lock:
                known = self.states.setdefault(generation, ids)
            self.require(known == ids, f"two answers of generation {generation} differ")
            self.require(ids >= set(range(BASE)), "a picture is missing")
            self.require(len(ids) in (BASE, BASE + EXTRA), f"a state has {len(ids)} pictures")


def visit(address: str, number: int, until: float, files: list[bytes], report: Report) -> None:
    """A client that does a bit of everything."""
    rng = random.Random(number)
    with httpx.Client(base_url=address, timeout=60) as client:
        while time.monotonic() < until:
            label = rng.choice([None, None, *LABELS])
            most = rng.choice([None, None, 10, 25])
            params = {"k": rng.choice([10, MOST])}
            params |= {"label": label} if label else {}
            params |= {"where": f"price < {most}"} if most else {}
            kind = rng.randrange(6)
            some = rng.randrange(BASE)
            if kind in (0, 1):
                answer = client.post(
                    "/api/search", files={"image": rng.choice(files)}, params=params
                )
            elif kind == 2:
                answer = client.get(f"/api/items/{some}/neighbours", params=params)
            elif kind == 3:
                body = {"items": [some], "right": [(some + 4) % BASE], "wrong": [(some + 1) % BASE]}
                answer = client.post("/api/query", json=body | params)
                report.note(answer)
                continue
            else:
                path = rng.choice([f"/api/items/{some}/image", "/api/items?seed=3", "/api/labels"])
                report.note(client.get(path))
                continue
            if report.note(answer):
                report.check(answer, label, most, some if kind == 2 else None)


def change(index: Path, folder: Path, until: float, report: Report) -> None:
    """Add pictures and remove them again, by real commands."""
    number = 0
    while time.monotonic() < until:
        lines = [draw(folder, f"extra-{i}", 1_000 + i) for i in range(EXTRA)]
        source = listing(folder, "extra.csv", lines)
        names = [line.partition(",")[0] for line in lines]
        for command in (["add", index, source], ["remove", index, *names]):
            words = [*LOOKALIKE, "index", *map(str, command)]
            done = subprocess.run(words, capture_output=True, text=True)
            report.require(done.returncode == 0, f"{command[0]}: {done.stderr.strip()}")
            number += 1
    print(f"{number} changes of the index")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--network", default="small-cnn")
    parser.add_argument("--weights", default="none")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "photos"
        folder.mkdir()
        lines = [draw(folder, str(i), i) for i in range(BASE)]
        index = Path(name) / "soak.index"
        embedder = Embedder.from_network(given.network, weights=given.weights)
        Index.create(index, embedder, listing(folder, "base.csv", lines))
        files = [(folder / f"{i}.jpg").read_bytes() for i in range(50)]
        log = (Path(name) / "log").open("w")
        server = subprocess.Popen(
            [*LOOKALIKE, "serve", str(index), "--port", "0", "--workers", str(given.workers)],
            stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
        try:
            assert server.stdout is not None
            address = next(w for w in server.stdout.readline().split() if w.startswith("http"))
            first, last = soak(given, server, address, index, folder, files, report)
        finally:
            server.terminate()
            server.wait(60)
        log.close()
        failed = "Traceback" in (Path(name) / "log").read_text()
        report.require(not failed, "the log has a traceback")
    result = {
        "requests": sum(report.statuses.values()),
        "statuses": {str(status): count for status, count in sorted(report.statuses.items())},
        "generations": len(report.states),
        "faults": len(report.faults),
        "megabytes_after_first_minute": first,
        "megabytes_at_the_end": last,
    }
    print(json.dumps(result) if given.json else "\n".join(f"{k}: {v}" for k, v in result.items()))
    for fault in report.faults[:20]:
        print("fault:", fault)
    sys.exit(1 if report.faults else 0)


def soak(given, server, address, index, folder, files, report):  # type: ignore[no-untyped-def]
    """All at once; memory after the first minute (or tenth) and at the end."""
    start = time.monotonic()
    until = start + 60 * given.minutes
    threads = [
        threading.Thread(target=visit, args=(address, number, until, files, report))
        for number in range(given.clients)
    ]
    threads.append(threading.Thread(target=change, args=(index, folder, until, report)))
    for thread in threads:
        thread.start()

    def megabytes() -> float:
        every = [psutil.Process(server.pid)]
        every += every[0].children()
        return round(sum(one.memory_info().rss for one in every) / 2**20, 1)

    time.sleep(min(60.0, 6 * given.minutes))
    first = last = megabytes()
    while time.monotonic() < until - 1:
        time.sleep(min(1.0, max(0.1, until - time.monotonic())))
        last = megabytes()
    for thread in threads:
        thread.join()
    return first, last


if __name__ == "__main__":
    main()
