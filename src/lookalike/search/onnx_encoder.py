"""A network run by ONNX Runtime: the same vectors, without torch's machinery."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lookalike.data.cache_folder import cache_folder
from lookalike.errors import BadInput, LookalikeError
from lookalike.files import atomically
from lookalike.search.embedder import Embedder
from lookalike.search.encoder import Encoder

__all__ = ["OnnxEncoder", "write_onnx"]

LEAST_AGREEMENT = 0.9999


class OnnxEncoder(Encoder):
    """Prepares pictures as ``embedder`` does and runs an ONNX file of its network."""

    def __init__(self, embedder: Embedder, file: Path, threads: int = 1) -> None:
        try:
            import onnxruntime
        except ModuleNotFoundError as error:
            raise BadInput(
                f"ONNX needs the package '{error.name}': pip install 'lookalike[export]'"
            ) from error
        super().__init__(
            embedder.preset, embedder.normalisation, embedder.dim, embedder.fingerprint
        )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(
            str(file), options, providers=["CPUExecutionProvider"]
        )
        self.agree(embedder)

    @classmethod
    def of(cls, embedder: Embedder) -> "OnnxEncoder":
        """The network of ``embedder``, written once into the cache folder."""
        file = cache_folder() / f"onnx-{embedder.fingerprint}.onnx"
        if not file.is_file():
            write_onnx(embedder, file)
        return cls(embedder, file)

    def run(self, batch: Tensor) -> Tensor:
        """The embeddings of a batch."""
        images = np.ascontiguousarray(batch.numpy())
        (found,) = self.session.run(None, {self.session.get_inputs()[0].name: images})
        return torch.from_numpy(found)

    def agree(self, embedder: Embedder) -> None:
        """Refuse a file whose vectors are not those of the network."""
        batch = example(embedder)
        ours, theirs = self.run(batch), embedder.run(batch)
        least = float(torch.nn.functional.cosine_similarity(ours, theirs).min())
        if not least >= LEAST_AGREEMENT:
            raise LookalikeError(
                f"the network in ONNX gives other vectors (cosine similarity {least:.4f})"
            )


def write_onnx(embedder: Embedder, file: Path) -> None:
    """Write the network from prepared batch to embedding, for batches of any length."""
    try:
        import onnx  # noqa: F401  torch's exporter asks for it late and with a traceback
        import onnxscript  # noqa: F401
    except ModuleNotFoundError as error:
        raise BadInput(
            f"ONNX needs the package '{error.name}': pip install 'lookalike[export]'"
        ) from error
    batch = example(embedder).contiguous()
    with atomically(file) as draft:
        torch.onnx.export(
            embedder.model,
            (batch,),
            str(draft),
            input_names=["images"],
            output_names=["embeddings"],
            dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=4096)},),
            external_data=False,
            dynamo=True,
            verbose=False,
        )


def example(embedder: Embedder) -> Tensor:
    """Two pictures of noise, as the network takes them."""
    side = embedder.preset.size or 224
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (2, 3, side, side), generator=generator, dtype=torch.uint8)
    return embedder.batch(list(pixels))
