"""The model behind a name on the command line."""

from pathlib import Path

from lookalike.errors import BadInput
from lookalike.inference.embedder import Embedder
from lookalike.inference.encoder import Encoder
from lookalike.inference.onnx_encoder import OnnxEncoder

__all__ = ["find_embedder", "find_encoder"]


def find_embedder(folder: Path | str) -> Embedder:
    """The model of a run's folder, or of a folder that holds an exported one."""
    folder = Path(folder)
    if (folder / "model.json").is_file():
        return Embedder.load(folder)
    if not folder.is_dir():
        raise BadInput(f"there is no run or model '{folder}'")
    return Embedder.from_run(folder)


def find_encoder(path: Path | str) -> Encoder:
    """The model of a run or an export, whatever runs it."""
    if Path(path).suffix == ".onnx":
        return OnnxEncoder(path)
    return find_embedder(path)
