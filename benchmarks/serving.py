"""How many searches a server answers, with and without micro-batching: benchmarks/serving.py.

Three servers of the same index stand ready, on the loopback:

- batches: pictures that are asked at the same time go through the network together;
- one by one: each alone (``batch_pictures=1``), with torch's own choice of threads, all cores;
- one per core: each alone, on one core, as many at a time as there are cores.

4 and 32 clients ask one of them, then the next, in turns, so that whatever else the machine does
concerns all. A query sends a photograph and waits for the whole answer: upload, decoding,
embedding, search and JSON.
"""

import argparse
import asyncio
import json
import platform
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import numpy as np
import torch
from PIL import Image

from lookalike.search import Embedder, Index

PROGRAM = """
import sys
from dataclasses import replace
from lookalike.search import Index
from lookalike.serve import server
from lookalike.serve.limits import Limits, Options
limits = replace(Limits(), batch_pictures=int(sys.argv[2]), torch_threads=int(sys.argv[3]))
index = Index.open(sys.argv[1])
options = Options(index.address, limits, rate=None, runtime=sys.argv[4])
server.serve(index, options, port=0, ready=lambda address: print(address, flush=True))
"""
BATCHES = "batches"
TABLE = Path(__file__).parents[1] / "docs" / "benchmarks" / "serving.md"
HEAD = (
    "| clients | server | queries per second | p50 | p99 | batches answer |",
    "|---:|---|---:|---:|---:|---:|",
)
Server: TypeAlias = tuple["subprocess.Popen[str]", str]


def photographs(folder: Path, count: int) -> list[Path]:
    """Noise with the size of photographs in a shop."""
    drawn = np.random.default_rng(0)
    folder.mkdir()
    paths = []
    for number in range(count):
        height, width = drawn.permutation([375, 500])
        coarse = drawn.integers(0, 256, (height // 10, width // 10, 3), dtype=np.uint8)
        paths.append(folder / f"{number:03d}.jpg")
        Image.fromarray(coarse).resize((int(width), int(height))).save(paths[-1], quality=85)
    return paths


def started(index: Path, batch: int, threads: int, runtime: str) -> Server:
    """A server, and its address."""
    command = [sys.executable, "-c", PROGRAM, str(index), str(batch), str(threads), runtime]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    if not address:
        raise SystemExit("the server did not start")
    return process, address


def request_of(address: str, data: bytes) -> bytes:
    """The bytes of a query: a client that needs no time of its own."""
    form = (
        b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n%s\r\n--x--\r\n'
    )
    body = form % data
    head = (
        f"POST /api/search?k=24 HTTP/1.1\r\nHost: {urlsplit(address).netloc}\r\n"
        f"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def ask(address: str, clients: int, seconds: float, requests: list[bytes]) -> list[float]:
    """The milliseconds of each answered query."""
    until = time.perf_counter() + seconds
    taken: list[float] = []
    place = urlsplit(address)

    async def visit(number: int) -> None:
        chosen = random.Random(number)
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        while time.perf_counter() < until:
            start = time.perf_counter()
            writer.write(chosen.choice(requests))
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head)
            if not head.startswith(b"HTTP/1.1 200") or length is None:
                raise SystemExit(f"refused: {head.decode()}")
            await reader.readexactly(int(length[1]))
            taken.append(1e3 * (time.perf_counter() - start))
        writer.close()

    await asyncio.gather(*(visit(number) for number in range(clients)))
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", default="efficientnet-lite0")
    parser.add_argument("--weights", default="imagenet")
    parser.add_argument("--runtime", default="torch")
    parser.add_argument("--clients", type=int, nargs="+", default=[4, 32])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5.0, help="Of each turn.")
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = [path.read_bytes() for path in photographs(folder / "photos", 200)]
        embedder = Embedder.from_network(given.network, weights=given.weights)
        Index.create(folder / "shop.index", embedder, folder / "photos")
        index, many = folder / "shop.index", torch.get_num_threads()
        servers = {
            BATCHES: started(index, given.batch, 1, given.runtime),
            "one by one": started(index, 1, many, given.runtime),
            "one per core": started(index, 1, 1, given.runtime),
        }
        try:
            results = [measure(servers, clients, files, given) for clients in given.clients]
        finally:
            for process, _ in servers.values():
                process.terminate()
            for process, _ in servers.values():
                process.wait(30)
    if given.json:
        print(json.dumps(results, indent=2))
    lines = [*HEAD, *(row for one in results for row in rows(one))]
    if (given.network, given.runtime, given.batch) == ("efficientnet-lite0", "torch", 8):
        TABLE.write_text(
            "# Searches that a server answers\n\n"
            "Written by `python benchmarks/serving.py`, which says how. EfficientNet-Lite0, "
            f"{many} cores of {platform.machine()}, torch {torch.__version__}; the clients run on "
            "the same cores.\n\n" + "\n".join(lines) + "\n"
        )
    broken = [
        f"{one['clients']} clients: {one['ratios']['one by one']:.2f}"
        for one in results
        if one["clients"] >= 32 and one["ratios"]["one by one"] < 2
    ]
    if broken:
        raise SystemExit(f"batches answer less than twice as many: {'; '.join(broken)}")


def rows(result: dict[str, Any]) -> list[str]:
    """The rows of the table for so many clients."""
    return [
        f"| {result['clients']} | {name} | {speed:.1f} | {result['p50_ms'][name]:.0f} ms | "
        f"{result['p99_ms'][name]:.0f} ms | {result['ratios'][name]:.2f} times as many |"
        for name, speed in result["queries_per_second"].items()
    ]


def measure(
    servers: dict[str, Server], clients: int, files: list[bytes], given: argparse.Namespace
) -> dict[str, Any]:
    """All servers in turns, by so many clients."""
    speeds: dict[str, list[float]] = {name: [] for name in servers}
    waits: dict[str, list[float]] = {name: [] for name in servers}
    for turn in range(given.turns + 1):
        for name, (_, address) in servers.items():
            requests = [request_of(address, data) for data in files]
            start = time.perf_counter()
            taken = asyncio.run(ask(address, clients, given.seconds if turn else 1.0, requests))
            if turn:  # the first one warms up
                speeds[name].append(len(taken) / (time.perf_counter() - start))
                waits[name] += taken
    ratios = {}
    for name in servers:
        median, late = np.percentile(waits[name], [50, 99])
        pairs = zip(speeds[BATCHES], speeds[name], strict=True)
        ratios[name] = statistics.median(one / other for one, other in pairs)
        print(
            f"{clients:>3} clients, {name:<14} {statistics.median(speeds[name]):6.1f} queries/s  "
            f"p50 {median:6.1f} ms  p99 {late:6.1f} ms"
            + (f"  batches: {ratios[name]:.2f} times as many" if name != BATCHES else ""),
            flush=True,
        )
    return {
        "clients": clients,
        "ratios": ratios,
        "queries_per_second": {name: statistics.median(v) for name, v in speeds.items()},
        "p50_ms": {name: float(np.percentile(v, 50)) for name, v in waits.items()},
        "p99_ms": {name: float(np.percentile(v, 99)) for name, v in waits.items()},
    }


if __name__ == "__main__":
    main()
