"""What an operator relies on: readiness, metrics, logs, stopping, overload, workers."""

import json
import os
import re
import signal
import socket
import threading
import time
from contextlib import suppress
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from tests.commands import run

SMALL = """
import sys
from dataclasses import replace
from lookalike.cli import main
from lookalike.serve import server
from lookalike.serve.limits import Limits
few = replace(Limits(), waiting=4, connections=300)
serve = server.serve
server.serve = lambda index, options, **more: serve(index, replace(options, limits=few), **more)
sys.argv = ["lookalike", "serve", {index!r}, "--port", "0"]
main()
"""
SLOW_MODEL = """
import sys, time
from lookalike.cli import main
from lookalike.serve import server
application, bind = server.application, server.bind
def slowly(*arguments, **options):
    time.sleep(3)
    return application(*arguments, **options)
def say(*arguments):
    bound = bind(*arguments)
    print(f"loading for http://127.0.0.1:{bound.getsockname()[1]}/", flush=True)
    return bound
server.application, server.bind = slowly, say
sys.argv = ["lookalike", "serve", {index!r}, "--port", "0"]
main()
"""

STOPPED_AT_START = """
import os, signal, sys
from multiprocessing.popen_spawn_posix import Popen
from lookalike.cli import main
launch = Popen._launch
def stop(self, process):
    os.kill(os.getpid(), signal.SIGTERM)
    launch(self, process)
Popen._launch = stop
sys.argv = ["lookalike", "serve", {index!r}, "--port", "0", "--workers", "2"]
main()
"""


def numbers(text, name):
    """The samples of a metric: labels -> value."""
    found = re.findall(rf"^{name}(\{{.*\}})? (\S+)$", text, re.M)
    return {labels: float(value) for labels, value in found}


def test_it_says_when_it_is_ready(start, shop_folder):
    program = SLOW_MODEL.replace("{index!r}", repr(str(shop_folder / "shop.index")))
    server = start(program=program)
    with server.client() as client:
        refused = 0
        for _ in range(600):
            try:
                answer = client.get("/ready")
                break
            except httpx.ConnectError:  # nobody listens
                refused += 1
                time.sleep(0.1)
        assert refused
        assert answer.json() == {"status": "ready"}
        assert client.get("/api/items/1/neighbours").status_code == 200
        assert client.get("/health").status_code == client.get("/api/ready").status_code == 200


def test_metrics_count_requests_by_route(client):
    for _ in range(3):
        client.get("/api/items/1/neighbours")
    client.get("/api/items/999999")
    client.get("/no/such/page/12345")
    text = client.get("/metrics").text
    counts = numbers(text, "lookalike_request_seconds_count")
    ours = '{method="GET",route="/api/items/{id}/neighbours",status="200"}'
    assert counts[ours] >= 3
    assert counts['{method="GET",route="/api/items/{id}",status="404"}'] >= 1
    assert counts['{method="GET",route="page",status="404"}'] >= 1
    assert "12345" not in text
    for name in ("queue_length", "batch_size_count", "index_age_seconds", "index_generation"):
        assert numbers(text, f"lookalike_{name}"), name
    assert numbers(text, "lookalike_errors_total") == {"": 0.0}
    assert numbers(text, "process_resident_memory_bytes")


@pytest.fixture(scope="module")
def named(start, shop_folder, tmp_path_factory):
    """A server with two tokens, a rate and JSON logs."""
    tokens = tmp_path_factory.mktemp("tokens") / "tokens"
    tokens.write_text("shop = secret-of-the-shop\nlab = secret-of-the-lab\n")
    tokens.chmod(0o600)
    index = str(shop_folder / "shop.index")
    arguments = ["--port", "0", "--tokens", str(tokens), "--rate", "3/h", "--log", "json"]
    return start([index, *arguments])


def test_tokens_have_names_rates_and_lines_in_the_log(named):
    def client(name):
        return named.client(headers={"Authorization": f"Bearer secret-of-the-{name}"})

    with client("shop") as shop, client("lab") as lab, client("thief") as thief:
        assert [shop.get("/api/items/1/neighbours").status_code for _ in range(4)] == [200] * 3 + [
            429
        ]
        late = shop.post("/api/query", json={"items": [1]})
        assert late.status_code == 429
        assert int(late.headers["retry-after"]) > 60
        assert shop.get("/api/items/1/image").status_code == 200  # pictures are not counted
        assert lab.get("/api/items/1/neighbours").status_code == 200
        assert thief.get("/metrics").status_code == thief.get("/api/about").status_code == 401
        assert shop.get("/metrics").status_code == 200
        answer = shop.get("/api/about?token=x", headers={"X-Request-Id": "my-id.1"})
        assert answer.headers["x-request-id"] == "my-id.1"
        assert re.fullmatch(r"[0-9a-f]{16}", lab.get("/health").headers["x-request-id"])
        spoiled = lab.get("/health", headers={"X-Request-Id": "<script>"})
        assert re.fullmatch(r"[0-9a-f]{16}", spoiled.headers["x-request-id"])
    for _ in range(100):
        if any("my-id.1" in line for line in named.said):
            break
        time.sleep(0.05)
    lines = [json.loads(line) for line in named.said if line.startswith("{")]
    assert all({"time", "level", "event"} <= set(line) for line in lines)
    (mine,) = [line for line in lines if line.get("request") == "my-id.1"]
    assert (mine["route"], mine["status"], mine["token"]) == ("/api/about", 200, "shop")
    assert {line.get("token") for line in lines} >= {"shop", "lab"}
    assert not any("secret-of" in line or "token=x" in line for line in named.said)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_it_finishes_what_runs_and_stops_with_a_sentence(
    start, shop_folder, number, picture, as_bytes
):
    server = start([str(shop_folder / "shop.index"), "--port", "0"])
    large = as_bytes(picture().resize((3000, 3000)), "JPEG")
    statuses = []

    def upload():
        with server.client() as client:
            statuses.append(client.post("/api/search", files={"image": large}).status_code)

    with server.client() as client:
        client.get("/api/health")
        visitors = [threading.Thread(target=upload) for _ in range(3)]
        for visitor in visitors:
            visitor.start()
        while numbers(client.get("/metrics").text, "lookalike_requests_running")[""] < 4:
            if len(statuses) == 3:
                break
    server.process.send_signal(number)
    for visitor in visitors:
        visitor.join()
    assert statuses == [200] * 3
    assert server.process.wait(20) == 130
    for _ in range(50):
        if any("stopped" in line for line in server.said):
            break
        time.sleep(0.1)
    assert any("stopped" in line for line in server.said)
    assert not any("Traceback" in line for line in server.said)


@pytest.fixture(scope="module")
def small(start, shop_folder):
    return start(program=SMALL.format(index=str(shop_folder / "shop.index")))


def test_overload_is_refused_with_a_time_and_passes(small, picture, as_bytes):
    data, statuses, again = as_bytes(picture().resize((1500, 1500))), [], []

    def visit():
        with small.client() as client:
            for _ in range(4):
                answer = client.post("/api/search", files={"image": data})
                statuses.append(answer.status_code)
                if answer.status_code != 200:
                    again.append(int(answer.headers["retry-after"]))

    visitors = [threading.Thread(target=visit) for _ in range(16)]
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        visitor.join()
    assert set(statuses) == {200, 429}
    assert all(seconds > 0 for seconds in again)
    with small.client() as client:
        assert client.post("/api/search", files={"image": data}).status_code == 200


def test_many_connections_and_broken_requests_do_not_take_it_down(small):
    place = urlsplit(small.address)
    lines = []
    for _ in range(400):  # more than it accepts
        line = socket.create_connection((place.hostname, place.port), 20)
        line.settimeout(20)
        lines.append(line)
    lines[-1].sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    refused = lines[-1].recv(1000)
    assert refused.startswith(b"HTTP/1.1 503")
    for line in lines:
        line.close()
    broken = [
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST /api/query HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET / HTTP/9.9\r\n\r\n",
    ]
    for request in broken:
        with socket.create_connection((place.hostname, place.port), 20) as line:
            line.settimeout(20)
            try:
                line.sendall(request)
                answer = line.recv(1000)
            except ConnectionError:
                answer = b""
        assert answer == b"" or re.match(rb"HTTP/1.1 4\d\d", answer), (request[:60], answer)
    with small.client() as client:
        assert client.get("/ready").status_code == 200
        assert client.get("/api/items/1/neighbours").status_code == 200
    assert not any("Traceback" in line for line in small.said)


def test_who_leaves_is_not_computed_for(small, picture, as_bytes):
    data = as_bytes(picture())
    head = (
        f"POST /api/search HTTP/1.1\r\nHost: {urlsplit(small.address).netloc}\r\n"
        "Content-Type: multipart/form-data; boundary=x\r\n"
    )
    form = b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n'
    body = form + data + b"\r\n--x--\r\n"
    place = urlsplit(small.address)
    for _ in range(20):
        with socket.create_connection((place.hostname, place.port), 20) as line:
            line.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    with small.client() as client:
        for _ in range(100):
            counts = numbers(client.get("/metrics").text, "lookalike_request_seconds_count")
            if any('status="499"' in labels for labels in counts):
                break
            time.sleep(0.05)
        assert any('status="499"' in labels for labels in counts)
        assert client.post("/api/search", files={"image": data}).status_code == 200
        running = numbers(client.get("/metrics").text, "lookalike_requests_running")
        assert running[""] == 1  # this one


@pytest.fixture(scope="module")
def team(start, shop_folder):
    """Two workers and a rate."""
    index = str(shop_folder / "shop.index")
    return start([index, "--port", "0", "--workers", "2", "--rate", "1000/h", "--log", "json"])


def children(server):
    """The workers that live."""
    pids = []
    for one in psutil.Process(server.process.pid).children():
        with suppress(psutil.NoSuchProcess):  # it has died meanwhile
            if "spawn_main" in " ".join(one.cmdline()):
                pids.append(one.pid)
    return pids


def test_workers_share_metrics_and_rates_and_are_replaced(team):
    def ask(count):
        statuses = []
        for _ in range(count):
            with team.client() as client:  # a connection each, so that both workers get some
                statuses.append(client.get("/api/items/1/neighbours").status_code)
        return statuses

    def counted():
        with team.client() as client:
            counts = numbers(client.get("/metrics").text, "lookalike_request_seconds_count")
        ours = '{method="GET",route="/api/items/{id}/neighbours",status="200"}'
        return counts[ours]

    assert ask(30) == [200] * 30
    assert counted() == 30
    first = children(team)
    assert len(first) == 2
    os.kill(first[0], signal.SIGKILL)
    for _ in range(600):
        now = children(team)
        if len(now) == 2 and first[0] not in now:
            break
        time.sleep(0.1)
    assert ask(5) == [200] * 5
    assert counted() == 35
    assert any("worker died" in line for line in team.said)


def test_workers_stop_together(team):
    pids = children(team)
    team.process.send_signal(signal.SIGTERM)
    assert team.process.wait(30) == 130
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_a_signal_while_a_worker_is_started_stops_all_in_order(shop_folder):
    program = STOPPED_AT_START.format(index=str(shop_folder / "shop.index"))
    done = run(program=program)
    assert (done.returncode, "Traceback" in done.stderr) == (130, False), done.stderr


@pytest.mark.slow
def test_workers_end_when_their_supervisor_is_killed(start, shop_folder):
    server = start([str(shop_folder / "shop.index"), "--port", "0", "--workers", "2"])
    pids = children(server)
    server.process.kill()
    gone = psutil.wait_procs([psutil.Process(p) for p in pids if psutil.pid_exists(p)], 30)[1]
    assert gone == []
