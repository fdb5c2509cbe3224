"""A file of data with an index after it, and a trailer that says where the index begins.

The index is an array in NumPy's format. A file that was cut has no trailer, so it is recognised.
"""

from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

__all__ = ["read_index", "write_index"]

_MAGIC_BYTES = 8


def write_index(file: BinaryIO, magic: bytes, index: NDArray[Any]) -> None:
    """End ``file`` with its index; ``magic``, of 8 bytes, says what kind of file it is."""
    start = file.tell()
    np.save(file, index)
    file.write(magic + start.to_bytes(8, "little"))


def read_index(path: Path, magic: bytes) -> tuple[NDArray[Any], int]:
    """The index of a file, and the number of bytes before it.

    Raises:
        ValueError: The file is of another kind, or damaged.
    """
    trailer_bytes = _MAGIC_BYTES + 8
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - trailer_bytes))
        trailer = file.read()
        if len(trailer) < trailer_bytes or not trailer.startswith(magic):
            raise ValueError(f"{path} is no image store")
        start = int.from_bytes(trailer[_MAGIC_BYTES:], "little")
        file.seek(start)
        return np.load(file, allow_pickle=False), start
