"""Embeddings from files: one ``.npz`` with everything, or an ``.npy`` and a file of labels."""

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import BadInput, did_you_mean

__all__ = ["EmbeddingsFile", "read_embeddings"]

KEYS = ("embeddings", "labels", "gallery", "gallery_labels", "ignore", "gallery_ignore")


@dataclass(frozen=True)
class EmbeddingsFile:
    """What ``score`` and ``rerank`` take; the names are those of their arguments."""

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
    """Read ``path``.

    An ``.npz`` holds the arrays embeddings and labels and, if wanted, gallery, gallery_labels,
    ignore and gallery_ignore. An ``.npy`` holds embeddings alone: ``labels`` then names another
    ``.npy``, or a text file with one label a line. ``labels`` also stands in for those of an
    ``.npz`` that has none. Pickled objects are refused: they could run anything.
    """
    path = Path(path)
    if path.suffix == ".npz":
        arrays = _archive(path)
    elif path.suffix == ".npy":
        arrays = {"embeddings": _array(path)}
    else:
        raise BadInput(f"'{path}' is neither an .npz nor an .npy file")
    if labels is not None:
        arrays["labels"] = _labels(Path(labels))
    for key in ("embeddings", "labels"):
        if key not in arrays:
            known = ", ".join(arrays) or "nothing"
            hint = "" if path.suffix == ".npz" else "; give a file of labels beside it"
            raise BadInput(f"'{path}' holds no '{key}', only {known}{hint}")
    return EmbeddingsFile(**arrays)


def _archive(path: Path) -> dict[str, NDArray[Any]]:
    with _opened(path) as archive:
        for key in archive.files:
            if key not in KEYS:
                raise BadInput(
                    f"'{path}' holds '{key}', which has no meaning; {did_you_mean(key, KEYS)}"
                )
        try:
            return {key: archive[key] for key in archive.files}
        except (ValueError, OSError, zipfile.BadZipFile) as error:
            raise BadInput(f"cannot read '{path}': {_reason(error)}") from error


def _array(path: Path) -> NDArray[Any]:
    array: NDArray[Any] = _opened(path)
    return array


def _opened(path: Path) -> Any:
    try:
        loaded = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise BadInput(f"there is no file '{path}'") from None
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise BadInput(f"cannot read '{path}': {_reason(error)}") from error
    if isinstance(loaded, np.ndarray) != (path.suffix == ".npy"):
        raise BadInput(f"'{path}' is not what its name says")
    return loaded


def _labels(path: Path) -> NDArray[Any]:
    if path.suffix == ".npy":
        return _array(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise BadInput(f"there is no file '{path}'") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read '{path}': {error}") from error
    return np.array(lines, dtype=str)


def _reason(error: Exception) -> str:
    if "pickle" in str(error):
        return "it holds Python objects (save strings as an array of dtype str)"
    return str(error).partition("\n")[0] or type(error).__name__
