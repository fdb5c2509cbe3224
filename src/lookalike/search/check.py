"""Is an index whole, and does it search well?"""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.addresses import is_postgres
from lookalike.errors import masked
from lookalike.progress import Watcher
from lookalike.search.index import Index
from lookalike.search.vectors import NEIGHBOURS, mean_recall, unit_rows

SAMPLE = 256
DRIFT_SAMPLE = 500
DRIFT_GALLERY = 50_000
FEWEST = 20
ROUNDS = 1_000
BLOCK = 65_536
SHOWN = 10


@dataclass(frozen=True)
class Drift:
    """How near the newest pictures are to the older ones, and older ones to each other.

    ``new`` and ``old`` are mean similarities to the nearest picture of the older ones; ``low`` and
    ``high`` bound the difference new - old with 95 % confidence (bootstrap over pictures).
    """

    new: float
    old: float
    low: float
    high: float
    pictures: int

    @property
    def found(self) -> bool:
        """Whether the newest pictures are surely farther away."""
        return self.high < 0

    def __str__(self) -> str:
        verdict = "they drift away" if self.found else "no drift"
        return (
            f"the newest {self.pictures:,} pictures have similarity {self.new:.3f} to the nearest "
            f"older one, older ones {self.old:.3f} (difference {self.new - self.old:+.3f}, 95 % "
            f"interval {self.low:+.3f} to {self.high:+.3f}): {verdict}"
        )


@dataclass
class Health:
    """What ``lookalike index check`` found.

    Args:
        index: The place of the index.
        damage: Why its files cannot be trusted; empty where they can.
        pictures: How many there are.
        recall: The share of the true ten nearest that search finds, on ``queries`` pictures.
        queries: How many pictures were held back as queries.
        vectors: How exactly vectors are stored.
        duplicates: Groups of pictures with exactly the same vector, by id.
        empty: Pictures whose vector is zero or not finite, by id.
        missing: Pictures without a file, by path; None: not looked for.
        drift: New pictures against old; None: too few.
    """

    index: str
    damage: list[str] = field(default_factory=list)
    pictures: int = 0
    recall: float | None = None
    queries: int = 0
    search: str = "exact"
    vectors: str = ""
    duplicates: list[list[int]] = field(default_factory=list)
    empty: list[int] = field(default_factory=list)
    missing: list[str] | None = None
    drift: Drift | None = None

    @property
    def healthy(self) -> bool:
        """Whether the files are as they were written."""
        return not self.damage

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {**asdict(self), "healthy": self.healthy}

    def __str__(self) -> str:
        lines = [f"{self.index}: {self.pictures:,} pictures"]
        lines += [f"damaged    {reason}" for reason in self.damage]
        if not self.damage:
            lines.append("files      as they were written")
        if self.pictures:
            lines.append(f"search     {self.search}")
            lines.append(f"vectors    {self.vectors}")
        if self.recall is not None:
            lines.append(
                f"recall     {self.recall:.3f} of the true {NEIGHBOURS} nearest of {self.queries} "
                "pictures"
            )
        if self.pictures:
            doubles = sum(map(len, self.duplicates))
            lines.append(
                f"duplicates {doubles:,} pictures have the vector of another, in "
                f"{len(self.duplicates):,} groups{_some([group[:2] for group in self.duplicates])}"
            )
            lines.append(f"empty      {len(self.empty):,} vectors are zero{_some(self.empty)}")
        if self.missing is not None:
            lines.append(f"missing    {len(self.missing):,} files{_some(self.missing)}")
        if self.drift is not None:
            lines.append(f"drift      {self.drift}")
        return "\n".join(lines)


def _some(found: Sequence[Any]) -> str:
    if not found:
        return ""
    return ": " + ", ".join(map(str, found[:SHOWN])) + (", ..." if len(found) > SHOWN else "")


def check_index(place: str, watcher: Watcher | None = None, *, files: bool = False) -> Health:
    """Look at the files of an index, and at how it searches.

    Args:
        place: A folder, or ``postgresql://...#name``.
        watcher: Is told the progress.
        files: Look for every picture's file.

    Returns:
        What was found; a damaged index is no error.

    Raises:
        BadInput: There is no index.
    """
    watcher = watcher or Watcher()
    found = Health(masked(place))
    if not is_postgres(place):
        from lookalike.search.folder.store import damage_of

        found.damage = damage_of(Path(place), watcher)
        if found.damage:
            return found
    index = Index.open(place)
    found.pictures, found.vectors = len(index), index.dtype
    found.search = index.approximation or "exact"
    ids = index.ids_where(None)
    found.duplicates, found.empty = twins(index, ids, watcher)
    usable = np.setdiff1d(ids, np.array(found.empty, np.int64))
    if len(usable) > 1:
        found.recall, found.queries = measured_recall(index, usable)
    if len(usable) >= 2 * FEWEST:
        found.drift = drift_of(index, usable)
    if files:
        found.missing = [record.path for record in index.records if index.find_file(record) is None]
    return found


def twins(
    index: Index, ids: NDArray[np.int64], watcher: Watcher
) -> tuple[list[list[int]], list[int]]:
    """Groups of pictures with one vector, and pictures with none."""
    hashes, empty = np.empty(len(ids), np.uint64), np.zeros(len(ids), bool)
    for start in range(0, len(ids), BLOCK):
        some = slice(start, start + BLOCK)
        rows = index.vectors_of(ids[some].tolist()) + np.float32(0)  # -0 is 0
        empty[some] = ~np.isfinite(rows).all(1) | ~rows.any(1)
        digests = [hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in rows]
        hashes[some] = np.frombuffer(b"".join(digests), np.uint64)
        watcher.stage("comparing", start + len(rows), len(ids))
    _, numbers, counts = np.unique(hashes[~empty], return_inverse=True, return_counts=True)
    groups: dict[int, list[int]] = {}
    for id, number in zip(ids[~empty].tolist(), numbers.tolist(), strict=True):
        if counts[number] > 1:
            groups.setdefault(number, []).append(id)
    return sorted(groups.values()), ids[empty].tolist()


def measured_recall(index: Index, ids: NDArray[np.int64]) -> tuple[float, int]:
    """The recall of the index's search against comparing with every picture."""
    random = np.random.default_rng(2)
    own = np.sort(random.choice(ids, min(SAMPLE, len(ids)), replace=False)).tolist()
    queries = unit_rows(index.vectors_of(own))
    truth, found = (
        [[hit.id for hit in one] for one in index.search(queries, NEIGHBOURS + 1, exact=exact)]
        for exact in (True, False)
    )
    return mean_recall(own, truth, found), len(own)


def drift_of(index: Index, ids: NDArray[np.int64]) -> Drift:
    """The newest tenth of the pictures against the others.

    Both the newest and as many held-out older pictures are compared with the older pictures that
    remain, or with a random sample of those; exact copies count, too.
    """
    count = max(FEWEST, len(ids) // 10)
    older, newest = ids[:-count], ids[-count:]
    random = np.random.default_rng(3)
    size = min(DRIFT_SAMPLE, count, max(1, len(older) // 2))
    new = np.sort(random.choice(newest, min(size, len(newest)), replace=False))
    held = np.sort(random.choice(older, size, replace=False))
    gallery = older[~np.isin(older, held)]
    if len(gallery) > DRIFT_GALLERY:
        gallery = np.sort(random.choice(gallery, DRIFT_GALLERY, replace=False))
    nearest_new = nearest_among(index, new, gallery)
    nearest_old = nearest_among(index, held, gallery)
    means = np.array(
        [
            [random.choice(part, len(part)).mean() for _ in range(ROUNDS)]
            for part in (nearest_new, nearest_old)
        ]
    )
    low, high = np.percentile(means[0] - means[1], [2.5, 97.5])
    return Drift(
        float(nearest_new.mean()), float(nearest_old.mean()), float(low), float(high), count
    )


def nearest_among(
    index: Index, own: NDArray[np.int64], gallery: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The similarity of each picture to its nearest of the gallery."""
    queries, others = (unit_rows(index.vectors_of(ids.tolist())) for ids in (own, gallery))
    return np.asarray((queries @ others.T).max(1), float)
