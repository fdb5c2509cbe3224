"""Near-duplicates: groups of nearly equal pictures, and the thresholds that tell them apart.

Two pictures are taken for copies where the network finds them alike (the cosine of their
embeddings) and their pixels are alike too (the correlation of small grey thumbnails): different
things of one kind often pass the first test, seldom both. Both thresholds come from pairs whose
answer is known. Positives are pictures and altered copies of themselves, as re-saving and
re-posting alters them: a JPEG of low quality, a smaller size, a slight crop, a change of light.
Negatives are the nearest pictures of another label, or any other picture where there are no labels.
Half of the pictures choose the thresholds, the others measure them.
"""

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance

from lookalike.data.image_files import open_rgb
from lookalike.errors import BadInput, LookalikeError
from lookalike.inference.encoder import Vectors
from lookalike.inference.pictures import read_picture
from lookalike.progress import Watcher
from lookalike.search.index import Index
from lookalike.search.items import Hit, Item

NEIGHBOURS = 20
AT_A_TIME = 256
SAMPLE = 200
FEWEST = 4
FALSE_ALARMS = 0.01
THUMBNAIL = 24
"""The side of the thumbnails whose pixels are compared."""


@dataclass(frozen=True)
class Group:
    """Pictures of which every two are copies; ``similarity`` is the least of their cosines."""

    items: tuple[Item, ...]
    similarity: float
    confidence: float | None = None
    """How sure the least sure pair is, from 0 to 1; None where a threshold was given by hand."""

    @property
    def labels_differ(self) -> bool:
        """Whether one of them must have a wrong label."""
        return len({item.label for item in self.items}) > 1


@dataclass(frozen=True)
class Known:
    """Cosines and correlations of pairs whose answer is known, in two columns."""

    copies: Vectors
    strangers: Vectors


@dataclass(frozen=True)
class Calibration:
    """Two thresholds, and their errors on pairs that did not choose them.

    ``threshold`` is of the cosine, ``correlation`` of the thumbnails. ``found`` is the share of
    altered copies that pass both, ``false_alarms`` the share of pictures of which the nearest
    picture of another label does.
    """

    threshold: float
    correlation: float
    found: float
    false_alarms: float
    copies: int
    others: int
    known: Known = field(repr=False)

    def __str__(self) -> str:
        return (
            f"cosine {self.threshold:.4f} and correlation {self.correlation:.2f}: on validation "
            f"pairs they recognise {100 * self.found:.1f} % of {self.copies} altered copies and "
            f"take {100 * self.false_alarms:.1f} % of {self.others} nearest strangers for copies"
        )

    def as_dict(self) -> dict[str, float]:
        """The thresholds and their errors."""
        return {name: value for name, value in vars(self).items() if name != "known"}

    def passes(self, pairs: Vectors) -> NDArray[np.bool_]:
        """Which of these pairs (cosine, correlation) are taken for copies."""
        return np.logical_and(pairs[:, 0] >= self.threshold, pairs[:, 1] >= self.correlation)

    def confidence(self, cosine: float, correlation: float) -> float:
        """How much more such a pair looks like a copy than like a stranger, from 0 to 1.

        ``c / (c + s)``: c the share of known copies that are no more alike by either measure, s the
        share of known strangers that are no less alike by both; one pair of each is added.
        """
        pair = np.array([cosine, correlation])
        copies = (1 + int((self.known.copies <= pair).any(1).sum())) / (1 + len(self.known.copies))
        strangers = int((self.known.strangers >= pair).all(1).sum())
        against = (1 + strangers) / (1 + len(self.known.strangers))
        return copies / (copies + against)


def find_duplicates(
    index: Index,
    threshold: float,
    progress: Callable[[int, int], None] | None = None,
    calibration: Calibration | None = None,
) -> list[Group]:
    """Groups of pictures with a cosine of ``threshold`` or more, the most similar first.

    Every two pictures of a group are such a pair, so that no chain joins what differs. With a
    ``calibration`` their pixels must be alike too, and each group has a confidence.
    """
    ids = index.ids
    sure: dict[tuple[int, int], tuple[float, float | None]] = {}
    thumbnails: dict[int, Vectors | None] = {}
    for start in range(0, len(ids), AT_A_TIME):
        for one, other, cosine in _near_pairs(index, start, threshold):
            if (one, other) in sure:
                continue
            confidence = None
            if calibration is not None:
                alike = _alike(index, one, other, thumbnails)
                if alike is None or alike < calibration.correlation:
                    continue
                confidence = calibration.confidence(cosine, alike)
            sure[one, other] = (cosine, confidence)
        if progress:
            progress(min(start + AT_A_TIME, len(ids)), len(ids))
    groups = [_group(index, members, sure) for members in _without_chains(sure)]
    return sorted(groups, key=lambda group: (-group.similarity, group.items[0].path))


def _near_pairs(index: Index, start: int, threshold: float) -> Iterator[tuple[int, int, float]]:
    """The pairs of ids, the smaller first, of which one is in the block that begins at start."""
    ids = index.ids
    rows = index.vectors_of(ids[start : start + AT_A_TIME].tolist())
    for row, hits in enumerate(index.search(rows, NEIGHBOURS + 1), start):
        own = int(ids[row])
        for hit in hits:
            if hit.id != own and hit.similarity >= threshold:
                yield min(own, hit.id), max(own, hit.id), hit.similarity


def _without_chains(
    pairs: dict[tuple[int, int], tuple[float, float | None]],
) -> list[set[int]]:
    """Groups of which every two are a pair, joined from the most similar pair on."""
    group_of: dict[int, set[int]] = {}
    for one, other in sorted(pairs, key=lambda pair: (-pairs[pair][0], pair)):
        left, right = (group_of.get(id, {id}) for id in (one, other))
        if left is right:
            continue
        if all((min(a, b), max(a, b)) in pairs for a, b in product(left, right)):
            joined = left | right
            group_of |= dict.fromkeys(joined, joined)
    return list({id(group): group for group in group_of.values()}.values())


def _group(
    index: Index, members: set[int], pairs: dict[tuple[int, int], tuple[float, float | None]]
) -> Group:
    ids = sorted(members)
    inside = [pairs[a, b] for at, a in enumerate(ids) for b in ids[at + 1 :]]
    told = [confidence for _, confidence in inside if confidence is not None]
    items = tuple(index.items(np.array(ids)))
    return Group(items, min(cosine for cosine, _ in inside), min(told) if told else None)


def _alike(
    index: Index, one: int, other: int, thumbnails: dict[int, Vectors | None]
) -> float | None:
    """The correlation of two pictures' thumbnails; None where one cannot be read."""
    for id in (one, other):
        if id not in thumbnails:
            try:
                thumbnails[id] = thumbnail(read_picture(index.file_of(id)))
            except LookalikeError:
                thumbnails[id] = None
    left, right = thumbnails[one], thumbnails[other]
    return None if left is None or right is None else float(left @ right)


def thumbnail(image: Image.Image) -> Vectors:
    """The grey pixels of a small copy, of mean 0 and length 1; their product is a correlation.

    A picture of one grey has length 0: it is like no other.
    """
    small = image.convert("L").resize((THUMBNAIL, THUMBNAIL), Image.Resampling.BOX)
    pixels: Vectors = np.asarray(small, np.float32).ravel()
    pixels = pixels - pixels.mean(dtype=np.float32)
    length = np.float32(np.linalg.norm(pixels))
    return pixels / length if length > 0 else pixels


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
    """The thresholds for the pictures of ``index`` by its own model."""
    watcher = watcher or Watcher()
    random = np.random.default_rng(seed)
    drawn = random.permutation(index.ids)[: 2 * SAMPLE].tolist()
    copies: list[Vectors] = []
    strangers: list[Vectors] = []
    for id in drawn:
        try:
            image = read_picture(index.file_of(id))
        except LookalikeError:
            continue
        changed = altered(image, random)
        small = thumbnail(image)
        cosines = index.embedder.embed(changed) @ index.vector_of(id)
        correlations = np.stack([thumbnail(copy) for copy in changed]) @ small
        copies.append(np.stack([cosines, correlations], 1))
        strangers.append(_nearest_stranger_pair(index, id, small))
        watcher.stage("calibrating", len(copies), min(SAMPLE, len(drawn)))
        if len(copies) == SAMPLE:
            break
    if len(copies) < FEWEST:
        raise BadInput(
            f"to calibrate a threshold takes {FEWEST} readable pictures, and there are "
            f"{len(copies)}; '--threshold 0.95' sets one by hand"
        )
    half = len(copies) // 2
    chosen, kept = np.concatenate(copies[:half]), np.concatenate(copies[half:])
    usual = np.quantile(chosen, 0.25, axis=0)  # what is this alike by both is a copy itself
    first, others = (
        rows[~(rows >= usual).all(1)]
        for rows in (np.concatenate(strangers[:half]), np.concatenate(strangers[half:]))
    )
    threshold, correlation = (
        threshold_for(chosen[:, column], first[:, column].tolist()) for column in (0, 1)
    )
    made = Calibration(threshold, correlation, 0, 0, len(kept), len(others), Known(chosen, first))
    return replace(
        made,
        found=float(made.passes(kept).mean()),
        false_alarms=float(made.passes(others).mean()) if len(others) else 0.0,
    )


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


def _nearest_stranger_pair(index: Index, id: int, small: Vectors) -> Vectors:
    """Cosine and correlation with the nearest picture of another label: one row, or none."""
    hit = nearest_stranger(index, id, index.vector_of(id))
    if hit is not None:
        try:
            other = thumbnail(read_picture(index.file_of(hit.id)))
            return np.array([[hit.similarity, float(small @ other)]], np.float32)
        except LookalikeError:
            pass
    return np.empty((0, 2), np.float32)


def nearest_stranger(index: Index, id: int, vector: Vectors) -> Hit | None:
    """The most similar picture of another label; None where there is none."""
    label = index.item(id).label
    k = 16
    while True:
        hits = index.search(vector, k)[0]
        for hit in hits:
            if hit.id != id and (label is None or hit.label != label):
                return hit
        if len(hits) < k:
            return None
        k *= 4
