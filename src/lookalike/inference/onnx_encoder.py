"""An exported model that ONNX Runtime runs, without anything else."""

import hashlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lookalike.data import Normalisation
from lookalike.data.cache import cache_folder
from lookalike.errors import BadInput, LookalikeError
from lookalike.files import atomically, parse_json, read_json, write_json
from lookalike.inference.embedder import Blueprint, Embedder
from lookalike.inference.encoder import Encoder


class OnnxEncoder(Encoder):
    """Embeds pictures by ONNX Runtime; its fingerprint is that of the exported model.

    Args:
        path: The file.
        threads: Of the runtime.
        content: The file's bytes, if they were read already.
    """

    def __init__(self, path: Path | str, threads: int = 1, content: bytes | None = None) -> None:
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
                content or str(path), options, providers=["CPUExecutionProvider"]
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

        kept = cls.kept(embedder.fingerprint, threads)
        if kept is not None:
            return kept
        path = _kept_path(embedder.fingerprint)
        with atomically(path) as draft:
            write_onnx(embedder, draft)
            digest = hashlib.sha256(draft.read_bytes()).hexdigest()
        write_json(path.with_suffix(".json"), {"model": embedder.fingerprint, "sha256": digest})
        return cls(path, threads)

    @classmethod
    def kept(cls, fingerprint: str, threads: int = 1) -> "OnnxEncoder | None":
        """The copy that :meth:`of` wrote, which starts sooner than the network; None: no copy.

        What the file says about itself proves nothing. It is used if its digest is the one that was
        noted, beside it, for this model; else it is exported again.
        """
        path = _kept_path(fingerprint)
        if find_spec("onnxruntime") is None:
            return None
        try:
            content = path.read_bytes()
            noted = read_json(path.with_suffix(".json"))
            if noted != {"model": fingerprint, "sha256": hashlib.sha256(content).hexdigest()}:
                return None
            found = cls(path, threads, content)
        except (OSError, LookalikeError):  # there is none, or it is damaged
            return None
        return found if found.fingerprint == fingerprint else None

    def run(self, batch: Tensor) -> Tensor:
        """The embeddings of a batch."""
        found = self._session.run(None, {"images": batch.contiguous().numpy()})[0]
        return torch.from_numpy(found)


def _kept_path(fingerprint: str) -> Path:
    return cache_folder() / f"model-{fingerprint}.onnx"


def load_encoder(path: Path | str) -> Encoder:
    """The model of a run, of a model's folder, or of an ``.onnx`` file."""
    return OnnxEncoder(path) if Path(path).suffix == ".onnx" else Embedder.open(path)
