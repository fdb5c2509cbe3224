"""Export for other programs: ONNX, TorchScript or safetensors, checked against the original."""

import copy
import ctypes
import json
import os
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import torch
from jinja2 import Environment, PackageLoader, StrictUndefined, TemplateError
from torch import Tensor, nn

from lookalike.errors import BadInput, LookalikeError, did_you_mean, escaped
from lookalike.evaluation import score
from lookalike.files import atomically
from lookalike.inference.embedder import Embedder
from lookalike.inference.onnx_encoder import OnnxEncoder
from lookalike.ops.rows import normalize_rows
from lookalike.runs.run import Run, test_embeddings

Kind: TypeAlias = Literal["onnx", "torchscript", "safetensors"]
KINDS: tuple[str, ...] = get_args(Kind)

LEAST_COSINE = 0.9999
OPSET = 18
MARKS = re.compile(r"[\\|\[\]*!]")
"""What Markdown makes cells, links, pictures and emphasis of."""


def model_of(folder: Path) -> Embedder:
    """The model to export, for its card with intervals over classes of its run's test scores."""
    embedder, run = Embedder.open(folder), Run(folder)
    if not (folder / "config.yaml").is_file():  # an exported model, or one of a hub
        return embedder
    embedder.origin["intervals"] = {}
    if "test" in run.result and run.checked("test.safetensors").is_file():
        try:
            tested: dict[str, Any] = dict(test_embeddings(run).arrays().arguments())
        except LookalikeError:  # the pictures are missing or changed: scores without intervals
            return embedder
        found = score(**tested, metrics=tuple(run.result["test"]), confidence=0.95)
        embedder.origin["intervals"] = dict(found.intervals)
    return embedder


class UnitVectors(nn.Module):
    """The exported model: normalized images in, unit vectors out."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        """The unit vectors of a batch."""
        return normalize_rows(self.model(images))


def export(embedder: Embedder, kind: str, target: Path) -> float:
    """Write the model and its card, and check the copy; where it does not agree, nothing remains.

    Args:
        embedder: The model.
        kind: "onnx", "torchscript" or "safetensors".
        target: The file to write, a folder for safetensors; it must not exist.

    Returns:
        The least cosine between vectors of the copy and of the original.

    Raises:
        BadInput: There is no such export, or the target exists.
        LookalikeError: The copy does not agree with the original.
    """
    if kind not in KINDS:
        raise BadInput(f"there is no export to '{kind}'; {did_you_mean(kind, KINDS)}")
    if target.exists():
        raise BadInput(f"'{target}' exists already")
    if kind == "safetensors":
        try:
            embedder.save(target)
            again = Embedder.load(target)
            least = agreement(embedder, again.run)
            write_card(target / "README.md", embedder, kind, target.name, least)
        except BaseException:
            shutil.rmtree(target, ignore_errors=True)
            raise
        return least
    write = write_onnx if kind == "onnx" else write_torchscript
    with atomically(target) as draft:
        least = write(embedder, draft)
    write_card(target.with_name(f"{target.name}.md"), embedder, kind, target.name, least)
    return least


def write_card(path: Path, embedder: Embedder, kind: str, name: str, cosine: float) -> None:
    """Write the model card: model, use, training data, protocol and scores of its run."""
    environment = Environment(
        loader=PackageLoader("lookalike.inference", "."),
        undefined=StrictUndefined,
        autoescape=True,  # Markdown may have HTML, and a run's names may be anybody's
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_within_a_line,
    )
    environment.filters["cell"] = lambda text: MARKS.sub(r"\\\g<0>", str(text))
    try:
        card = environment.get_template("card.md.j2").render(
            embedder=embedder, kind=kind, name=name, cosine=cosine
        )
    except (TypeError, ValueError, AttributeError, TemplateError) as error:
        raise BadInput(f"the model's record of its training cannot be read: {error}") from error
    with atomically(path) as draft:
        draft.write_text(card, encoding="utf-8")


def _within_a_line(value: object) -> object:
    """A value of a card; a text cannot end the line or the code that it stands in."""
    return escaped(" ".join(value.split())).replace("`", "'") if type(value) is str else value


def write_onnx(embedder: Embedder, path: Path) -> float:
    """ONNX with a batch of any size; its metadata describes the model for the runtime.

    torch has two exporters. The one that traces is quicker, and cannot write some layers
    (rotary position embeddings, RMS norm, padded windows) or for one size of batch only.
    """
    try:
        import onnx  # noqa: F401
    except ModuleNotFoundError as error:
        raise BadInput(
            f"ONNX needs the package '{error.name}': pip install 'lookalike[export]'"
        ) from error
    try:
        with _silent():  # torch prints the whole graph where this fails
            _write_onnx(embedder, path, by_tracing=True)
        return agreement(embedder, OnnxEncoder(path).run)
    except Exception:  # exporter and runtime raise errors of many types
        pass
    try:
        _write_onnx(embedder, path, by_tracing=False)
        return agreement(embedder, OnnxEncoder(path).run)
    except Exception as error:
        if type(error) is LookalikeError:  # the copy does not agree
            raise
        reason = str(error).strip().partition("\n")[0]
        raise LookalikeError(
            f"torch cannot export '{embedder.blueprint.network}' to ONNX ({reason}); "
            "TorchScript may work (--to torchscript)"
        ) from error


@contextmanager
def _silent() -> Iterator[None]:
    """Nothing that a library prints, also from C++, comes to standard output."""
    libc = ctypes.CDLL(None)
    sys.stdout.flush()
    libc.fflush(None)
    kept = os.dup(1)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            yield
    finally:
        libc.fflush(None)
        os.dup2(kept, 1)
        os.close(kept)


def _write_onnx(embedder: Embedder, path: Path, *, by_tracing: bool) -> None:
    import onnx

    options: dict[str, Any] = {
        "dynamo": True,
        "dynamic_shapes": ({0: torch.export.Dim("batch", min=1)},),
        "external_data": False,
        "verbose": False,
    }
    if by_tracing:
        axes = {"images": {0: "batch"}, "embeddings": {0: "batch"}}
        options = {"dynamo": False, "dynamic_axes": axes}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            plain(embedder),
            (example(embedder, 2),),
            str(path),
            input_names=["images"],
            output_names=["embeddings"],
            opset_version=OPSET,
            **options,
        )
    model = onnx.load(str(path))
    described = {
        "network": embedder.blueprint.network,
        "transform": embedder.blueprint.settings()["transform"],
        "input": vars(embedder.normalisation),
        "dim": embedder.dim,
        "fingerprint": embedder.fingerprint,
    }
    onnx.helper.set_model_props(model, {"lookalike": json.dumps(described)})
    onnx.checker.check_model(model)
    onnx.save(model, str(path))


def write_torchscript(embedder: Embedder, path: Path) -> float:
    """TorchScript by tracing; the batch may have any size."""
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        jit: Any = torch.jit  # untyped
        traced = jit.trace(plain(embedder), example(embedder, 2))
    record = json.dumps(embedder.record())
    jit.save(traced, str(path), _extra_files={"lookalike.json": record})
    return agreement(embedder, jit.load(str(path)))


def plain(embedder: Embedder) -> UnitVectors:
    """A copy in the ordinary memory layout, which exporters need."""
    model = copy.deepcopy(embedder.model).to(memory_format=torch.contiguous_format)
    return UnitVectors(model).eval()


def example(embedder: Embedder, number: int, seed: int = 0) -> Tensor:
    """A batch like pictures: smooth shapes under noise, the same every time."""
    side = embedder.preset.test_size or 64
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(number, 3, 6, 6, generator=generator)
    smooth = nn.functional.interpolate(coarse, (side, side), mode="bicubic").clamp(0, 1)
    noise = torch.rand(number, 3, side, side, generator=generator)
    pixels = (255 * (0.8 * smooth + 0.2 * noise)).to(torch.uint8)
    return embedder.normalisation(pixels, torch.contiguous_format)


@torch.inference_mode()
def agreement(embedder: Embedder, other: Callable[[Tensor], Tensor]) -> float:
    """The least cosine between two models' vectors, over batches of three sizes."""
    least = 1.0
    for number in (1, 3, 8):
        batch = example(embedder, number, seed=number)
        right = normalize_rows(embedder.run(batch).double())
        least = min(least, float((right * normalize_rows(other(batch).double())).sum(1).min()))
    if not least >= LEAST_COSINE:
        raise LookalikeError(f"the copy does not agree with the original: cosine {least:.6f}")
    return least
