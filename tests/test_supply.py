"""What is installed is what is pinned, under licences that allow it, and it calls nobody.

Whether a pinned version has a known vulnerability, or was withdrawn, only a service in the network
can say: docs/security.md names the command.
"""

import re
import socket
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PINNED = dict(
    line.split("==")
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if "==" in line and not line.startswith("#")
)
REFUSED_LICENCES = re.compile(
    r"\bAGPL|Affero|SSPL|Commons Clause|non-?commercial|proprietary", re.I
)
PROPRIETARY_BUT_FREE = re.compile(r"^(nvidia-|cuda-)")
"""Libraries of the graphics card, which torch itself requires; nothing of ours needs them."""


def test_every_version_is_pinned_exactly():
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    lines = [line for line in text if line.strip() and not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.\-]+==[\w.+!]+", line) for line in lines)
    names = [re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in lines]
    assert len(names) == len(set(names))


def test_what_is_installed_is_what_is_pinned():
    wrong = {}
    for name, pinned in PINNED.items():
        try:
            found = version(name).partition("+")[0]  # without the build, such as +cpu
        except PackageNotFoundError:
            continue  # of another platform, or of an extra that is not installed
        if found != pinned.partition("+")[0]:
            wrong[name] = (pinned, found)
    assert wrong == {}


def test_no_licence_forbids_use():
    refused = {}
    for name in PINNED:
        try:
            about = distribution(name).metadata
        except PackageNotFoundError:
            continue
        words = [about.get("License-Expression") or "", *(about.get_all("Classifier") or [])]
        said = " ".join(word for word in words if "License" in word or word == words[0])
        if REFUSED_LICENCES.search(said) and not PROPRIETARY_BUT_FREE.match(name):
            refused[name] = said
    assert refused == {}


OFFLINE = """
import importlib, pkgutil, socket, sys

def guarded(call):
    def only_here(self, address, *rest):
        if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1", "localhost"):
            print("NETWORK", address, file=sys.stderr, flush=True)
            raise OSError("no network in tests")
        return call(self, address, *rest)
    return only_here

class Guarded(socket.socket):
    connect = guarded(socket.socket.connect)
    connect_ex = guarded(socket.socket.connect_ex)

def no_names(host, *rest, **options):
    if host not in (None, "127.0.0.1", "::1", "localhost", ""):
        print("NETWORK", host, file=sys.stderr, flush=True)
        raise socket.gaierror("no network in tests")
    return names(host, *rest, **options)

names, socket.getaddrinfo, socket.socket = socket.getaddrinfo, no_names, Guarded
"""
IMPORTS = """
import lookalike
for module in pkgutil.walk_packages(lookalike.__path__, "lookalike."):
    if module.name != "lookalike.__main__" and not module.name.startswith("lookalike.pml"):
        importlib.import_module(module.name)
"""
TRAINING = """
from lookalike.config import load
from lookalike.training import train
print(train(load(None, sys.argv[1:])).scores)
"""


def test_no_test_calls_the_network(network_calls):
    """The hook of conftest.py, which sees what tests of this process do, refuses and remembers."""
    with pytest.raises(OSError, match=r"asks for 192\.0\.2\.1"):
        socket.create_connection(("192.0.2.1", 80), timeout=1)
    assert network_calls == ["192.0.2.1"]
    network_calls.clear()


@pytest.mark.parametrize("program", [IMPORTS, TRAINING], ids=["every import", "a training"])
def test_nothing_calls_the_network(program, tmp_path):
    settings = [
        *("data.name=glyphs", "model.network=small-cnn", "model.dim=8", "protocol.name=paper"),
        *("train.epochs=1", "train.batches_per_epoch=2", f"runs_dir={tmp_path}"),
    ]
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE + program, *settings],
        capture_output=True, text=True, timeout=600, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "NETWORK" not in done.stderr
