"""A file of data with an index after it, and a trailer that says where the index begins.

The index is an array in NumPy's format. A file that was cut has no trailer, so it is recognised;
the trailer also has a checksum of the index, and the index one of each image, compared when the
image is read for the first time.
"""

import io
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import LookalikeError
from lookalike.files import checksum, open_regular

__all__ = ["ImageChecks", "read_index", "write_index"]

_MAGIC_BYTES = 8


def write_index(file: BinaryIO, magic: bytes, index: NDArray[Any]) -> None:
    """End ``file`` with its index; ``magic``, of 8 bytes, says what kind of file it is."""
    start = file.tell()
    content = io.BytesIO()
    np.save(content, index)
    file.write(content.getbuffer())
    file.write(magic + start.to_bytes(8, "little") + checksum(content.getbuffer()).encode())


def read_index(path: Path, magic: bytes) -> tuple[NDArray[Any], int]:
    """The index of a file, and the number of bytes before it.

    Raises:
        ValueError: The file is of another kind, or damaged.
    """
    trailer_bytes = _MAGIC_BYTES + 8 + 8
    with open_regular(path) as file:
        file.seek(max(0, path.stat().st_size - trailer_bytes))
        trailer = file.read()
        if len(trailer) < trailer_bytes or not trailer.startswith(magic):
            raise ValueError(f"{path} is no image store")
        start = int.from_bytes(trailer[_MAGIC_BYTES : _MAGIC_BYTES + 8], "little")
        length = path.stat().st_size - trailer_bytes - start
        if length < 0:
            raise ValueError(f"{path} is damaged: its index is not in it")
        file.seek(start)
        content = file.read(length)
        if checksum(content).encode() != trailer[_MAGIC_BYTES + 8 :]:
            raise ValueError(f"{path} is damaged: its index has changed")
        return np.load(io.BytesIO(content), allow_pickle=False), start


class ImageChecks:
    """Compares each image of a file with its checksum, once.

    Args:
        checksums: Of all images, as :func:`zlib.crc32` gives them.
    """

    def __init__(self, checksums: NDArray[np.uint32]) -> None:
        self.checksums = checksums
        self.seen = np.zeros(len(checksums), np.bool_)

    def compare(self, index: int, data: Any, path: Path) -> None:
        """Compare the bytes of image ``index``, unless that was done before.

        Raises:
            LookalikeError: They are not those that were written.
        """
        if self.seen[index]:
            return
        if zlib.crc32(data) != self.checksums[index]:
            raise LookalikeError(
                f"the image cache '{path}' is damaged (image {index}); remove it, and the same "
                "command makes it again"
            )
        self.seen[index] = True
