"""Finding pictures by folder and path: sorted 64-bit hashes, so that k paths cost k log n."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Hashes: TypeAlias = NDArray[np.uint64]


def hash_keys(keys: Iterable[tuple[int, str]]) -> Hashes:
    """A hash of each (root, path)."""
    digests = [
        hashlib.blake2b(f"{root}/{path}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
        for root, path in keys
    ]
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


def sorted_keys(hashes: Hashes) -> Hashes:
    """The content of ``keys.npy``: the hashes in order, and below them their rows, [2, n]."""
    order = np.argsort(hashes, kind="stable")
    return np.stack([hashes[order], order.astype(np.uint64)])


def candidates(table: Hashes, wanted: Hashes) -> Iterator[tuple[int, int]]:
    """Pairs of a place among ``wanted`` and a row with this hash; other keys may have it too."""
    if not table.shape[1]:
        return
    left, right = (np.searchsorted(table[0], wanted, side) for side in ("left", "right"))
    for place in np.flatnonzero(right > left).tolist():
        for at in range(int(left[place]), int(right[place])):
            yield place, int(table[1, at])
