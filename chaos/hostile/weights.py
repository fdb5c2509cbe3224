"""Weights, checkpoints and models: files that try to run code, or lie about their sizes."""

import io
import json
import os
import pickle
import shutil
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from chaos.hostile.fuzzer import Broken, Fuzzer, Input
from chaos.hostile.mutation import mutated
from lookalike.evaluation.files import read_embeddings
from lookalike.files import CHECKSUM
from lookalike.inference.embedder import Embedder
from lookalike.models.weights import load_by_name, read_tensors
from lookalike.training import checkpoint

__all__ = ["Checkpoints", "Models", "Weights"]

DTYPES = ("F32", "I64", "BOOL", "F8_E4M3", "X", "", 3)
NUMBERS: tuple[Any, ...] = (0, 1, -1, 2**31, 2**63 - 1, 2**64, 1e300, "8", None, [], {})


class Payload:
    """What unpickles as a call that leaves a mark, even if the file is refused afterwards."""

    def __init__(self, mark: Path, how: int) -> None:
        self.mark, self.how = str(mark), how

    def __reduce__(self) -> tuple[Any, ...]:
        return calls(self.mark)[self.how]


def calls(mark: str) -> tuple[tuple[Any, ...], ...]:
    """Calls, each of which makes the file or the folder ``mark``."""
    return (
        (os.mkdir, (mark,)),
        (eval, (f"open({mark!r}, 'w')",)),
        (exec, (f"open({mark!r}, 'w')",)),
        (os.system, (f"touch '{mark}'",)),
        (open, (mark, "w")),
        (Path.touch, (Path(mark),)),
        (shutil.copyfile, (__file__, mark)),
    )


def payload(random: Random, mark: Path) -> Any:
    """Any of the calls."""
    return Payload(mark, random.randrange(len(calls(""))))


def prove_payloads(mark: Path) -> None:
    """See that each call leaves its mark when it is unpickled without any care."""
    for how in range(len(calls(""))):
        pickle.loads(pickle.dumps(Payload(mark, how)))
        assert ran(mark), f"call {how} leaves no mark"


def ran(mark: Path) -> bool:
    """Whether a call was made; the mark is removed, so that it is not found again."""
    if not mark.exists():
        return False
    if mark.is_dir():
        mark.rmdir()
    else:
        mark.unlink()
    return True


@contextmanager
def no_code(mark: Path) -> Iterator[None]:
    """Whatever happens inside, a refusal too: no call may be made."""
    try:
        yield
    finally:
        if ran(mark):
            raise Broken("code ran")


def with_code(random: Random, mark: Path) -> bytes:
    """A file for ``torch.load`` that would run code, in the new or the old format."""
    bad = payload(random, mark)
    found = random.choice(
        (bad, {"a": bad}, {"state_dict": {"w": bad}}, [bad], (torch.ones(2), bad))
    )
    out = io.BytesIO()
    kind = random.randrange(3)
    if kind == 0:
        return pickle.dumps(found, protocol=random.randrange(6))
    torch.save(found, out, _use_new_zipfile_serialization=kind == 1)
    return out.getvalue()


def forged_safetensors(random: Random, data: bytes) -> bytes:
    """Another header with the right length, or the right header with another length."""
    length = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8 : 8 + length])
    name = random.choice([name for name in head if name != "__metadata__"])
    one = head[name]
    kind = random.randrange(6)
    if kind == 0:
        one["shape"] = [random.choice(NUMBERS) for _ in range(random.randrange(5))]
    elif kind == 1:
        one["data_offsets"] = [random.choice(NUMBERS) for _ in range(random.randrange(4))]
    elif kind == 2:
        one["dtype"] = random.choice(DTYPES)
    elif kind == 3:
        head[random.choice(("", "a" * 5000, "__metadata__", "\0"))] = random.choice(
            (one, 1, [], {})
        )
    elif kind == 4:
        del head[name]
    text = json.dumps(head).encode()
    if kind == 5:
        size = random.choice((0, 1, 2**32, 2**63, 2**64 - 1, len(data)))
        return struct.pack("<Q", size) + text + data[8 + length :]
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


def forged_npy(random: Random) -> bytes:
    """An array of NumPy with a header of its own."""
    shape = random.choice(((2, 3), (10**12,), (-1,), (2**63, 2), "(2)", (0, 10**9), ()))
    kind = random.choice(("<f4", "|O", "<U99999999", "<i8", "M8[s]", "nonsense", [("a", "<f4")]))
    order = random.choice((True, False, None))
    head = {"descr": kind, "fortran_order": order, "shape": shape}
    text = random.choice((repr(head), repr(head) * 3, "__import__('os')", "{" * 3000, repr([head])))
    version = random.choice((b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x09"))
    size = struct.pack("<H" if version == b"\x01\x00" else "<I", len(text) % 65536)
    return b"\x93NUMPY" + version + size + text.encode() + bytes(24)


class Weights(Fuzzer):
    """Through ``read_tensors`` and ``read_embeddings``: data come out, and code never runs."""

    name = "weights"
    count = 150
    megabytes = 2000

    def prepare(self, folder: Path) -> None:
        """Make undamaged files of a small network."""
        prove_payloads(folder / "mark")
        torch.manual_seed(0)
        self.network = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
        state = self.network.state_dict()
        path = folder / "whole.safetensors"
        save_file(state, path)
        self.safetensors = path.read_bytes()
        self.torch_files = []
        for wrapped in (state, {"state_dict": state, "epoch": 3}, {"model": {"module.a": state}}):
            for new in (True, False):
                out = io.BytesIO()
                torch.save(wrapped, out, _use_new_zipfile_serialization=new)
                self.torch_files.append(out.getvalue())
        arrays = {"embeddings": np.eye(4, dtype=np.float32), "labels": np.arange(4)}
        out = io.BytesIO()
        np.savez(out, **arrays)  # type: ignore[arg-type]
        self.npz = out.getvalue()

    def inputs(self, random: Random, folder: Path) -> Iterator[Input]:
        """Files of weights and of embeddings."""
        mark = folder / "mark"
        while True:
            refuse = False
            draw = random.randrange(10)
            if draw < 2:
                kind, suffix, data, refuse = "code", ".pt", with_code(random, mark), True
            elif draw < 4:
                kind, suffix = "forged safetensors", ".safetensors"
                data = forged_safetensors(random, self.safetensors)
            elif draw < 5:
                kind, suffix = "damaged safetensors", ".safetensors"
                data = mutated(random, self.safetensors, 300)
            elif draw < 7:
                kind, suffix = "damaged torch", random.choice((".pt", ".pth", ".bin"))
                data = mutated(random, random.choice(self.torch_files))
            elif draw < 8:
                kind, suffix, data = "forged npy", ".npy", forged_npy(random)
            elif draw < 9:
                kind, suffix, data = "damaged npz", ".npz", mutated(random, self.npz)
            else:
                kind, suffix, data, refuse = "objects npz", ".npz", objects(random, mark), True
            path = folder / f"file{suffix}"
            yield Input(kind, self.call(path, data, mark), refuse, data)

    def call(self, path: Path, data: bytes, mark: Path) -> Callable[[], None]:
        """Read the file for the purpose that its suffix says."""

        def run() -> None:
            path.write_bytes(data)
            with no_code(mark):
                if path.suffix in (".npy", ".npz"):
                    read_embeddings(path)
                else:
                    load_by_name(self.network, read_tensors(path), f"'{path}'")

        return run


def objects(random: Random, mark: Path) -> bytes:
    """An .npz whose labels are Python objects."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in ("embeddings.npy", "labels.npy"):
            part = io.BytesIO()
            bad = np.array([payload(random, mark)], dtype=object)
            np.save(part, bad, allow_pickle=True)
            archive.writestr(name, part.getvalue())
    return out.getvalue()


class Checkpoints(Fuzzer):
    """Through ``checkpoint.read``: a forged checkpoint is refused, and runs nothing."""

    name = "checkpoints"
    count = 100

    def prepare(self, folder: Path) -> None:
        """Write a checkpoint."""
        self.whole = folder / "checkpoints"
        weights = {"model": {"w": torch.randn(8, 8)}, "best": {"w": torch.randn(8, 8)}}
        self.saved = weights | {"random": checkpoint.random_states(), "optimizer": {"state": {}}}
        checkpoint.write(self.whole / "last.pt", self.saved)
        assert same(checkpoint.read(self.whole / "last.pt"), self.saved)

    def inputs(self, random: Random, folder: Path) -> Iterator[Input]:
        """A checkpoint that was changed."""
        mark, place = folder / "mark", folder / "checkpoints"
        while True:
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(self.whole, place)
            (path,) = place.iterdir()
            kind, data = "damaged", mutated(random, path.read_bytes())
            draw = random.random()
            if draw < 0.4:
                kind, data = "code", with_code(random, mark)
            yield Input(kind, self.call(path, data, mark), kind == "code", data)

    def call(self, path: Path, data: bytes, mark: Path) -> Callable[[], None]:
        """Change the file, and resume; what is accepted is what was saved."""

        def run() -> None:
            path.write_bytes(data)
            with no_code(mark):
                found = checkpoint.read(path)
            if not same(found, self.saved):
                raise Broken("another checkpoint than the saved one was accepted")

        return run


def same(first: Any, second: Any) -> bool:
    """Whether two nested values are equal, tensor by tensor."""
    if type(first) is not type(second):
        return False
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, torch.Tensor):
        return first.dtype == second.dtype and torch.equal(first, second)
    return bool(first == second)


class Models(Fuzzer):
    """Through ``Embedder.load``: a model from anyone, damaged, forged, or naming code."""

    name = "models"
    count = 40

    def prepare(self, folder: Path) -> None:
        """Write a model."""
        torch.manual_seed(0)
        Embedder.from_network("small-cnn", weights="none").save(folder / "model")
        self.record = json.loads((folder / "model" / "model.json").read_text())
        del self.record[CHECKSUM]  # as a forger does
        self.weights = (folder / "model" / "weights.safetensors").read_bytes()

    def inputs(self, random: Random, folder: Path) -> Iterator[Input]:
        """A model with one value or some bytes changed."""
        place, mark = folder / "model", folder / "mark"
        place.mkdir()
        values: tuple[Any, ...] = (
            *NUMBERS,
            "os:system", "chaos.hostile:x", "hub:a/b", "../..", "x" * 10_000, "timm:nothing",
            {"preset": "os:mkdir"}, {"size": 10**6}, {"size": -1}, {"mean": [1]}, [[[[]]]], "<b>",
        )  # fmt: skip
        while True:
            record, weights = json.loads(json.dumps(self.record)), self.weights
            refuse = False
            kind = random.choice(("setting", "code", "model.json", "weights", "forged weights"))
            if kind == "setting":
                part = random.choice((record, record["blueprint"]))
                part[random.choice([*part, "other"])] = random.choice(values)
            elif kind == "code":
                key = random.choice(("network", "transform"))
                record["blueprint"][key] = random.choice(
                    ("os:system", "subprocess:Popen", "pathlib:Path", "builtins:eval")
                )
                refuse = True
            elif kind == "weights":
                weights = mutated(random, weights, 2000)
            elif kind == "forged weights":
                weights = forged_safetensors(random, weights)
            text = json.dumps(record).encode()
            if kind == "model.json":
                text = mutated(random, text)
            yield Input(kind, self.call(place, text, weights, mark), refuse, text)

    def call(self, place: Path, text: bytes, weights: bytes, mark: Path) -> Callable[[], None]:
        """Write the model, and load it; what is accepted is what was saved."""

        def run() -> None:
            (place / "model.json").write_bytes(text)
            (place / "weights.safetensors").write_bytes(weights)
            with no_code(mark):
                found = Embedder.load(place)
            if found.fingerprint != self.record["fingerprint"]:
                raise Broken("a model with another fingerprint was accepted")

        return run
