"""Weights and models: files that try to run code, or lie about their sizes."""

import io
import json
import os
import pickle
import shutil
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from safetensors.torch import save_file

from lookalike.evaluation.files import read_embeddings
from lookalike.inference.embedder import Embedder
from lookalike.models.weights import load_by_name, read_tensors
from tests.chaos.doors.documents import forged_json
from tests.chaos.doors.door import Broken, Door, Input, damaged

__all__ = ["Models", "Weights"]

DTYPES = ("F32", "I64", "BOOL", "F8_E4M3", "X", "", 3)
NUMBERS: tuple[Any, ...] = (0, 1, -1, 2**31, 2**63 - 1, 2**64, 1e300, "8", None, [], {})
MARK = "mark-of-code"
"""What code would leave in the current folder."""
CALLS: tuple[tuple[Any, ...], ...] = (
    (os.mkdir, (MARK,)),
    (eval, (f"open({MARK!r}, 'w')",)),
    (exec, (f"open({MARK!r}, 'w')",)),
    (os.system, (f"touch '{MARK}'",)),
    (open, (MARK, "w")),
    (Path.touch, (Path(MARK),)),
    (shutil.copyfile, (__file__, MARK)),
)


class Payload:
    """What unpickles as a call that leaves a mark, even if the file is refused afterwards."""

    def __init__(self, how: int) -> None:
        self.how = how

    def __reduce__(self) -> tuple[Any, ...]:
        return CALLS[self.how]


def ran() -> bool:
    """Whether a call was made; the mark is removed, so that it is not found again."""
    mark = Path(MARK)
    if mark.is_dir():
        mark.rmdir()
        return True
    found = mark.exists()
    mark.unlink(missing_ok=True)
    return found


@contextmanager
def no_code() -> Iterator[None]:
    """Whatever happens inside, a refusal too: no call may be made."""
    try:
        yield
    finally:
        if ran():
            raise Broken("code ran")


@st.composite
def with_code(draw: st.DrawFn) -> bytes:
    """A file for ``torch.load`` that would run code, in the new or the old format."""
    bad = Payload(draw(st.integers(0, len(CALLS) - 1)))
    forms = (bad, {"a": bad}, {"state_dict": {"w": bad}}, [bad], (torch.ones(2), bad))
    found = forms[draw(st.integers(0, len(forms) - 1))]
    kind = draw(st.sampled_from(("pickle", "zip", "old")))
    if kind == "pickle":
        return pickle.dumps(found, protocol=draw(st.integers(0, 5)))
    out = io.BytesIO()
    torch.save(found, out, _use_new_zipfile_serialization=kind == "zip")
    return out.getvalue()


@st.composite
def objects(draw: st.DrawFn) -> bytes:
    """An .npz whose arrays are Python objects."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in ("embeddings.npy", "labels.npy"):
            bad = np.array([Payload(draw(st.integers(0, len(CALLS) - 1)))], dtype=object)
            part = io.BytesIO()
            np.save(part, bad, allow_pickle=True)
            archive.writestr(name, part.getvalue())
    return out.getvalue()


@st.composite
def forged_safetensors(draw: st.DrawFn, data: bytes) -> bytes:
    """Another header with the right length, or the right header with another length."""
    length = struct.unpack("<Q", data[:8])[0]
    head, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    name = draw(st.sampled_from(sorted(name for name in head if name != "__metadata__")))
    numbers = st.lists(st.sampled_from(NUMBERS), max_size=4)
    kind = draw(st.sampled_from(("shape", "data_offsets", "dtype", "other", "gone", "length")))
    if kind in ("shape", "data_offsets"):
        head[name][kind] = draw(numbers)
    elif kind == "dtype":
        head[name][kind] = draw(st.sampled_from(DTYPES))
    elif kind == "other":
        key = draw(st.sampled_from(("", "a" * 5000, "__metadata__", "\0")))
        head[key] = draw(st.sampled_from((head[name], 1, [], {})))
    elif kind == "gone":
        del head[name]
    text = json.dumps(head).encode()
    size = len(text)
    if kind == "length":
        size = draw(st.sampled_from((0, 1, 2**32, 2**63, 2**64 - 1, len(data))))
    return struct.pack("<Q", size) + text + body


class Weights(Door):
    """Through ``read_tensors`` and ``read_embeddings``: data come out, and code never runs."""

    name = "weights"
    count = 150
    megabytes = 2000

    def prepare(self, folder: Path) -> None:
        """Make undamaged files of a small network, and see that payloads would work."""
        for how in range(len(CALLS)):
            pickle.loads(pickle.dumps(Payload(how)))
            assert ran(), f"call {how} leaves no mark"
        torch.manual_seed(0)
        self.network = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
        state = self.network.state_dict()
        save_file(state, folder / "whole.safetensors")
        self.safetensors = (folder / "whole.safetensors").read_bytes()
        self.torch_files = []
        for wrapped in (state, {"state_dict": state, "epoch": 3}, {"model": {"module.a": state}}):
            for new in (True, False):
                out = io.BytesIO()
                torch.save(wrapped, out, _use_new_zipfile_serialization=new)
                self.torch_files.append(out.getvalue())
        out = io.BytesIO()
        np.savez(out, embeddings=np.eye(4, dtype=np.float32), labels=np.arange(4))
        self.npz = out.getvalue()

    def inputs(self) -> st.SearchStrategy[Input]:
        """Files of weights and of embeddings, with their suffix."""
        files: dict[str, tuple[str, st.SearchStrategy[bytes]]] = {
            "code": (".pt", with_code()),
            "objects npz": (".npz", objects()),
            "forged safetensors": (".safetensors", forged_safetensors(self.safetensors)),
            "damaged safetensors": (".safetensors", damaged(self.safetensors, 300)),
            "damaged torch": (".pth", st.sampled_from(self.torch_files).flatmap(damaged)),
            "damaged npz": (".npz", damaged(self.npz)),
        }
        return st.one_of(
            *(
                st.builds(
                    Input,
                    st.just(kind),
                    st.tuples(st.just(suffix), made),
                    st.just(kind in ("code", "objects npz")),
                )
                for kind, (suffix, made) in files.items()
            )
        )

    def receive(self, sent: Input, folder: Path) -> None:
        """Read the file for the purpose that its suffix says."""
        suffix, content = sent.content
        path = folder / f"file{suffix}"
        path.write_bytes(content)
        with no_code():
            if suffix in (".npy", ".npz"):
                read_embeddings(path)
            else:
                load_by_name(self.network, read_tensors(path), f"'{path}'")


class Models(Door):
    """Through ``Embedder.load``: a model from anyone, damaged, forged, or naming code."""

    name = "models"
    count = 40

    def prepare(self, folder: Path) -> None:
        """Write a model."""
        torch.manual_seed(0)
        Embedder.from_network("small-cnn", weights="none").save(folder / "model")
        self.text = (folder / "model" / "model.json").read_text()
        self.weights = (folder / "model" / "weights.safetensors").read_bytes()

    def inputs(self) -> st.SearchStrategy[Input]:
        """A model's two files, of which one was changed."""
        code = ("os:system", "subprocess:Popen", "pathlib:Path", "builtins:eval")
        whole, weights = st.just(self.text.encode()), st.just(self.weights)
        kinds = {
            "settings": st.tuples(forged_json(self.text), weights),
            "code": st.tuples(
                st.builds(self.naming, st.sampled_from(("network", "transform")),
                          st.sampled_from(code)), weights),
            "weights": st.tuples(whole, damaged(self.weights, 2000)),
            "forged weights": st.tuples(whole, forged_safetensors(self.weights)),
        }  # fmt: skip
        return st.one_of(
            *(
                st.builds(Input, st.just(kind), made, st.just(kind == "code"))
                for kind, made in kinds.items()
            )
        )

    def naming(self, key: str, value: str) -> bytes:
        """The settings with the name of code at a key."""
        record = json.loads(self.text)
        record["blueprint"][key] = value
        return json.dumps(record).encode()

    def receive(self, sent: Input, folder: Path) -> None:
        """Write the model, and load it; what is accepted is what was saved."""
        (folder / "model.json").write_bytes(sent.content[0])
        (folder / "weights.safetensors").write_bytes(sent.content[1])
        with no_code():
            found = Embedder.load(folder)
        if found.fingerprint != json.loads(self.text)["fingerprint"]:
            raise Broken("a model with another fingerprint was accepted")
