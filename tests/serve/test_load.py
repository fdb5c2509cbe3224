"""Four visitors at once for a while: no error, no growth."""

import threading
import time

import psutil
import pytest


def visit(server, until, data, failures, number):
    rounds = 0
    with server.client() as client:
        while time.monotonic() < until:
            rounds += 1
            id = (17 * rounds + 5 * number) % 54
            answers = [
                client.post("/api/search", files={"image": data}, params={"k": 20}),
                client.get(f"/api/items/{id}/neighbours"),
                client.get(f"/api/items/{id}/image", params={"size": "small"}),
                client.post("/api/why", data={"item": id, "neighbour": (id + 1) % 54}),
                client.post("/api/search", files={"image": b"no picture"}),
            ]
            statuses = [answer.status_code for answer in answers]
            if statuses != [200, 200, 200, 200, 415]:
                failures.append(statuses)
    return rounds


def load(server, data, seconds):
    """Memory in megabytes, at eight moments of the time."""
    process = psutil.Process(server.process.pid)
    failures: list = []
    until = time.monotonic() + seconds
    visitors = [
        threading.Thread(target=visit, args=(server, until, data, failures, number))
        for number in range(4)
    ]
    for visitor in visitors:
        visitor.start()
    held = []
    for _ in range(8):
        time.sleep(seconds / 8)
        held.append(process.memory_info().rss / 2**20)
    for visitor in visitors:
        visitor.join()
    assert failures == []
    return held


@pytest.mark.slow
def test_four_visitors_for_a_minute_do_not_make_it_grow(server, picture, as_bytes):
    data = as_bytes(picture())
    load(server, data, 10)  # caches fill
    held = load(server, data, 60)
    assert held[-1] < held[0] + 20, held
