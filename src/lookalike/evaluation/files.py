"""Embeddings from files: one ``.npz`` with everything, or an ``.npy`` and a file of labels."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import BadInput, did_you_mean
from lookalike.files import read_text, refuse_packed

KEYS = ("embeddings", "labels", "gallery", "gallery_labels", "ignore", "gallery_ignore")


@dataclass(frozen=True)
class EmbeddingsFile:
    """The arguments of ``score`` and ``rerank`` that a file can hold.

    Args:
        embeddings: One row per query.
        labels: One label per query, or a multi-hot table.
        gallery: One row per gallery item.
        gallery_labels: Labels of the gallery.
        ignore: One identity per query, or a table queries x gallery.
        gallery_ignore: Identities of the gallery.
    """

    embeddings: NDArray[Any]
    labels: NDArray[Any]
    gallery: NDArray[Any] | None = None
    gallery_labels: NDArray[Any] | None = None
    ignore: NDArray[Any] | None = None
    gallery_ignore: NDArray[Any] | None = None

    def arguments(self) -> dict[str, NDArray[Any]]:
        """The arguments that the file holds: ``score(**file.arguments())``."""
        found = {key: getattr(self, key) for key in KEYS}
        return {key: value for key, value in found.items() if value is not None}


def read_embeddings(path: str | Path, labels: str | Path | None = None) -> EmbeddingsFile:
    """Read embeddings and labels. Pickled objects are refused: they could run any code.

    Args:
        path: An ``.npz`` with the arrays embeddings and labels and perhaps gallery, gallery_labels,
            ignore and gallery_ignore; or an ``.npy`` with embeddings alone.
        labels: LabelArray, where ``path`` has none: an ``.npy``, or a text file with one per line.

    Returns:
        The arrays.

    Raises:
        BadInput: A file cannot be read, or an array is missing or unknown.
    """
    path = Path(path)
    if path.suffix not in (".npz", ".npy"):
        raise BadInput(f"'{path}' is neither an .npz nor an .npy file")
    arrays = _arrays(path)
    if labels is not None:
        arrays["labels"] = _labels(Path(labels))
    for key in ("embeddings", "labels"):
        if key not in arrays:
            known = ", ".join(arrays) or "nothing"
            hint = "" if path.suffix == ".npz" else "; give a file of labels too"
            raise BadInput(f"'{path}' holds no '{key}', only {known}{hint}")
    return EmbeddingsFile(**arrays)


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an ``.npz`` by name, or the one of an ``.npy``."""
    try:
        refuse_packed(path)
        loaded: Any = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray) != (path.suffix == ".npy"):
            raise BadInput(f"'{path}' does not hold what its suffix says")
        if isinstance(loaded, np.ndarray):
            return {"embeddings": loaded}
        with loaded:
            for key in loaded.files:
                if key not in KEYS:
                    hint = did_you_mean(key, KEYS)
                    raise BadInput(f"'{path}' holds '{key}', which has no meaning; {hint}")
            return {key: loaded[key] for key in loaded.files}
    except BadInput:  # which is a ValueError
        raise
    except FileNotFoundError:
        raise BadInput(f"there is no file '{path}'") from None
    except MemoryError:
        raise BadInput(f"'{path}' does not fit into memory") from None
    except Exception as error:  # NumPy raises almost any exception for a forged header
        reason = str(error).partition("\n")[0] or type(error).__name__
        if "pickle" in str(error):
            reason = "it holds Python objects (save strings as an array of dtype str)"
        raise BadInput(f"cannot read '{path}': {reason}") from error


def _labels(path: Path) -> NDArray[Any]:
    if path.suffix == ".npy":
        return _arrays(path)["embeddings"]
    try:
        lines = read_text(path).splitlines()
    except FileNotFoundError:
        raise BadInput(f"there is no file '{path}'") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read '{path}': {error}") from error
    return np.array(lines, dtype=str)
