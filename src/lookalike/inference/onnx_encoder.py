"""An exported model that ONNX Runtime runs, without anything else."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lookalike.data import Normalisation
from lookalike.data.cache import cache_folder
from lookalike.errors import BadInput
from lookalike.files import atomically, parse_json
from lookalike.inference.embedder import Blueprint, Embedder
from lookalike.inference.encoder import Encoder


class OnnxEncoder(Encoder):
    """Embeds pictures by ONNX Runtime; its fingerprint is that of the exported model."""

    def __init__(self, path: Path | str, threads: int = 1) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise BadInput(
                "an ONNX file needs the package 'onnxruntime': pip install 'lookalike[export]'"
            ) from error
        if not Path(path).is_file():
            raise BadInput(f"there is no file '{path}'")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        try:
            self._session: Any = onnxruntime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
            properties = self._session.get_modelmeta().custom_metadata_map
            told = parse_json(properties["lookalike"])
            pixels: dict[str, Any] = {  # JSON has lists where a normalisation has tuples
                name: tuple(value) if isinstance(value, list) else value
                for name, value in told["input"].items()
            }
            blueprint = Blueprint(
                network=told.get("network", ""), dim=told["dim"], transform=told["transform"]
            )
            blueprint.refuse_foreign_transform()
            scaling = Normalisation(**pixels)
            super().__init__(blueprint.preset, scaling, told["dim"], told["fingerprint"])
        except BadInput:
            raise
        except Exception as error:  # the runtime raises errors of many types
            raise BadInput(f"'{path}' is not a model that 'lookalike export' wrote") from error

    @classmethod
    def of(cls, embedder: Embedder, threads: int = 1) -> "OnnxEncoder":
        """The network of ``embedder``, written to the cache folder once, and checked."""
        from lookalike.inference.export import write_onnx

        path = _kept_path(embedder.fingerprint)
        if not path.is_file():
            with atomically(path) as draft:
                write_onnx(embedder, draft)
        return cls(path, threads)

    @classmethod
    def kept(cls, fingerprint: str) -> "OnnxEncoder | None":
        """The copy that :meth:`of` wrote, which starts sooner than the network; None: no copy."""
        path = _kept_path(fingerprint)
        if not (path.is_file() and find_spec("onnxruntime")):
            return None
        try:
            return cls(path)
        except BadInput:  # it is damaged, and the network itself is not
            return None

    def run(self, batch: Tensor) -> Tensor:
        """The embeddings of a batch."""
        found = self._session.run(None, {"images": batch.contiguous().numpy()})[0]
        return torch.from_numpy(found)


def _kept_path(fingerprint: str) -> Path:
    return cache_folder() / f"model-{fingerprint}.onnx"


def load_encoder(path: Path | str) -> Encoder:
    """The model of a run, of a model's folder, or of an ``.onnx`` file."""
    return OnnxEncoder(path) if Path(path).suffix == ".onnx" else Embedder.open(path)
