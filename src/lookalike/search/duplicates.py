"""Near-duplicates: groups of nearly equal pictures, and the threshold that tells them apart.

The threshold comes from pairs whose answer is known. Positives are pictures and altered copies of
themselves, as re-saving and re-posting alters them: a JPEG of low quality, a smaller size, a slight
crop, a change of light. Negatives are the nearest pictures of another label, or any other picture
where there are no labels. Half of the pictures choose the threshold, the others measure it.
"""

import io
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageEnhance
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from lookalike.data.image_files import open_rgb
from lookalike.errors import BadInput, LookalikeError
from lookalike.inference.encoder import Vectors
from lookalike.inference.pictures import read_picture
from lookalike.progress import Watcher
from lookalike.search.index import Index
from lookalike.search.items import Item

NEIGHBOURS = 20
AT_A_TIME = 256
SAMPLE = 200
FEWEST = 4
FALSE_ALARMS = 0.01


@dataclass(frozen=True)
class Group:
    """Pictures connected by pairs above the threshold; ``similarity`` is the least of these."""

    items: tuple[Item, ...]
    similarity: float

    @property
    def labels_differ(self) -> bool:
        """Whether one of them must have a wrong label."""
        return len({item.label for item in self.items}) > 1


def find_duplicates(
    index: Index, threshold: float, progress: Callable[[int, int], None] | None = None
) -> list[Group]:
    """Groups of pictures with a cosine of ``threshold`` or more, the most similar first."""
    ids = index.ids
    pairs: list[tuple[int, int, float]] = []
    for start in range(0, len(ids), AT_A_TIME):
        rows = np.asarray(index.vectors[start : start + AT_A_TIME])
        for row, hits in enumerate(index.search(rows, NEIGHBOURS + 1), start):
            for hit in hits:
                if hit.id != ids[row] and hit.similarity >= threshold:
                    pairs.append((row, int(np.searchsorted(ids, hit.id)), hit.similarity))
        if progress:
            progress(min(start + AT_A_TIME, len(ids)), len(ids))
    if not pairs:
        return []
    left, right, _ = zip(*pairs, strict=True)
    graph = coo_matrix((np.ones(len(pairs)), (left, right)), shape=(len(ids), len(ids)))
    part = connected_components(graph, directed=False)[1]
    members: dict[int, set[int]] = defaultdict(set)
    least: dict[int, float] = defaultdict(lambda: 1.0)
    for a, b, similarity in pairs:
        members[part[a]] |= {a, b}
        least[part[a]] = min(similarity, least[part[a]])
    groups = [
        Group(tuple(index.items(ids[sorted(rows)])), least[number])
        for number, rows in members.items()
    ]
    return sorted(groups, key=lambda group: (-group.similarity, group.items[0].path))


@dataclass(frozen=True)
class Calibration:
    """A threshold, and its errors on pairs that did not choose it.

    ``found`` is the share of altered copies that it recognises, ``false_alarms`` the share of
    pictures of which it takes the nearest picture of another label for a copy.
    """

    threshold: float
    found: float
    false_alarms: float
    copies: int
    others: int

    def __str__(self) -> str:
        return (
            f"threshold {self.threshold:.4f}: on validation pairs it recognises "
            f"{100 * self.found:.1f} % of {self.copies} altered copies and takes "
            f"{100 * self.false_alarms:.1f} % of {self.others} nearest strangers for copies"
        )


def altered(image: Image.Image, random: np.random.Generator) -> list[Image.Image]:
    """Four copies of a picture, altered as copies found elsewhere are."""
    width, height = image.size
    jpeg = io.BytesIO()
    image.save(jpeg, "JPEG", quality=int(random.integers(25, 50)))
    scale = random.uniform(0.4, 0.7)
    small = image.resize((max(1, int(width * scale)), max(1, int(height * scale))))
    left, top, right, low = random.uniform(0, 0.04, 4)
    box = (width * left, height * top, width * (1 - right), height * (1 - low))
    cropped = image.crop(tuple(round(value) for value in box))
    light = ImageEnhance.Brightness(image).enhance(random.uniform(0.8, 1.2))
    jpeg.seek(0)
    return [open_rgb(jpeg), small, cropped if min(cropped.size) else image, light]


def calibrate(index: Index, watcher: Watcher | None = None, seed: int = 0) -> Calibration:
    """The threshold for the pictures of ``index`` by its own model."""
    watcher = watcher or Watcher()
    random = np.random.default_rng(seed)
    drawn = random.permutation(index.ids)[: 2 * SAMPLE].tolist()
    copies: list[Vectors] = []
    strangers: list[float] = []
    for id in drawn:
        try:
            image = read_picture(index.file_of(id))
        except LookalikeError:
            continue
        own = index.vector_of(id)
        copies.append(index.embedder.embed(altered(image, random)) @ own)
        strangers.append(nearest_stranger(index, id, own))
        watcher.stage("calibrating", len(copies), min(SAMPLE, len(drawn)))
        if len(copies) == SAMPLE:
            break
    if len(copies) < FEWEST:
        raise BadInput(
            f"to calibrate a threshold takes {FEWEST} readable pictures, and there are "
            f"{len(copies)}; '--threshold 0.95' sets one by hand"
        )
    half = len(copies) // 2
    first = [value for value in strangers[:half] if np.isfinite(value)]
    threshold = threshold_for(np.concatenate(copies[:half]), first)
    kept = np.concatenate(copies[half:])
    others = np.array([value for value in strangers[half:] if np.isfinite(value)])
    found = float((kept >= threshold).mean())
    alarms = float((others >= threshold).mean()) if len(others) else 0.0
    return Calibration(threshold, found, alarms, len(kept), len(others))


def threshold_for(copies: Vectors, strangers: Sequence[float]) -> float:
    """Above all but 1 % of the strangers; the least similar copy where there are none.

    >>> round(threshold_for(np.array([0.9, 0.95], np.float32), [0.2, 0.5]), 2)
    0.7
    """
    if not strangers:
        return float(np.min(copies))
    ordered = np.sort(np.asarray(strangers))
    allowed = int(FALSE_ALARMS * len(ordered))
    bound = float(ordered[len(ordered) - 1 - allowed])
    above = copies[copies > bound]
    # Half-way between the strangers and the least similar copy above them.
    return float((bound + np.min(above)) / 2) if len(above) else float(np.nextafter(bound, 2))


def nearest_stranger(index: Index, id: int, vector: Vectors) -> float:
    """The highest similarity with a picture of another label; NaN where there is none."""
    label = index.item(id).label
    k = 16
    while True:
        hits = index.search(vector, k)[0]
        for hit in hits:
            if hit.id != id and (label is None or hit.label != label):
                return hit.similarity
        if len(hits) < k:
            return float("nan")
        k *= 4
