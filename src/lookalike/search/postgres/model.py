"""The model of an index as a row of its table."""

import json
import tempfile
from pathlib import Path

from lookalike.inference.embedder import Embedder


def stored_model(embedder: Embedder | None) -> tuple[str | None, bytes | None, str]:
    """The settings, weights and fingerprint of a model, as the table has them."""
    if embedder is None:
        return None, None, ""
    with tempfile.TemporaryDirectory() as folder:
        embedder.save(folder)
        weights = (Path(folder) / "weights.safetensors").read_bytes()
    return json.dumps(embedder.record()), weights, embedder.fingerprint


def restored_model(settings: str, weights: bytes, place: str) -> Embedder:
    """The model that the table has."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights.safetensors"
        path.write_bytes(weights)
        return Embedder.restore(settings, path, place)
