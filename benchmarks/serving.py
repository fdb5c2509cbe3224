"""How long a running search page takes: python benchmarks/serving.py http://127.0.0.1:8000 photos/.

Each query sends a picture and waits for the whole answer: upload, decoding, embedding, search and
JSON. Then as many visitors as --visitors ask at once.
"""

import argparse
import random
import threading
import time
from pathlib import Path

import httpx
import numpy as np

SUFFIXES = {".jpg", ".jpeg", ".png", ".webp"}


def asked(client: httpx.Client, files: list[bytes]) -> list[float]:
    taken = []
    for data in files:
        start = time.perf_counter()
        client.post("/api/search", files={"image": data}, params={"k": 36}).raise_for_status()
        taken.append(1e3 * (time.perf_counter() - start))
    return taken


def told(name: str, taken: list[float], seconds: float) -> None:
    median, late, most = np.percentile(taken, [50, 95, 100])
    print(
        f"{name:<12} {len(taken):>5} queries  median {median:6.1f} ms  95 % {late:6.1f} ms  "
        f"slowest {most:6.1f} ms  {len(taken) / seconds:6.1f} a second"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("photos", type=Path)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--visitors", type=int, default=4)
    given = parser.parse_args()
    paths = sorted(path for path in given.photos.rglob("*") if path.suffix.lower() in SUFFIXES)
    chosen = random.Random(0).sample(paths, min(given.queries, len(paths)))
    files = [path.read_bytes() for path in chosen]
    with httpx.Client(base_url=given.address, timeout=60) as client:
        about = client.get("/api/about").json()
        print(f"{about['pictures']:,} pictures, {about['network']}, {about['runtime']}")
        asked(client, files[:5])
        start = time.perf_counter()
        told("one visitor", asked(client, files), time.perf_counter() - start)
    taken: list[float] = []

    def visit() -> None:
        with httpx.Client(base_url=given.address, timeout=60) as client:
            taken.extend(asked(client, files))

    visitors = [threading.Thread(target=visit) for _ in range(given.visitors)]
    start = time.perf_counter()
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        visitor.join()
    told(f"{given.visitors} visitors", taken, time.perf_counter() - start)


if __name__ == "__main__":
    main()
