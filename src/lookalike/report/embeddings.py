"""The parts of the page that need embeddings and images: neighbours, the map, structure."""

import base64
import io
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import plotly.graph_objects as go
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from lookalike.compare.contenders import MethodResult
from lookalike.config import RunConfig
from lookalike.data import ImageSet, ImageStore
from lookalike.errors import LookalikeError
from lookalike.evaluation import evaluate, nearest, score
from lookalike.evaluation.projection import project_tsne
from lookalike.evaluation.scoring import ScoreOptions
from lookalike.inference.pictures import read_picture
from lookalike.report.charts import Chart, colour, draw, json_of
from lookalike.runs.run import TestEmbeddings, test_embeddings
from lookalike.search import Index
from lookalike.training.building import load_images, open_store

TINY = 64


class Pictures:
    """Reads from an image store. Tiny pictures keep their size; photos become thumbnails."""

    def __init__(self, store: ImageStore) -> None:
        self._store = store

    @classmethod
    def of_run(cls, config: RunConfig, images: ImageSet) -> Self:
        """The pixels that a run of this configuration reads, so that nothing is decoded again."""
        _, preset = load_images(config, images)
        return cls(open_store(config.data, images, preset))

    def are_tiny(self, indices: Sequence[int]) -> bool:
        """Whether all of them are so small that a page should enlarge them, pixel by pixel."""
        return all(max(self._store.read(index).shape[1:]) <= TINY for index in indices)

    def uri(self, index: int, side: int) -> str:
        """One picture as a data URI, no side longer than ``side``."""
        return _encoded(self._thumbnail(index, side))

    def _thumbnail(self, index: int, side: int) -> Image.Image:
        pixels = self._store.read(index).permute(1, 2, 0).numpy()
        picture = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
        picture.thumbnail((side, side), Image.Resampling.LANCZOS)
        return picture


def _encoded(picture: Image.Image) -> str:
    """PNG where every pixel counts, JPEG for photos, which are a fifth of the size that way."""
    kind = "png" if max(picture.size) <= TINY else "jpeg"
    data = io.BytesIO()
    picture.save(data, kind, quality=82, optimize=True)  # PNG has no quality and ignores it
    return f"data:image/{kind};base64,{base64.b64encode(data.getvalue()).decode()}"


def file_uri(index: Index, id: int, side: int = 176) -> str:
    """An indexed picture as a data URI; empty where its file is missing or broken."""
    try:
        picture = read_picture(index.file_of(id))
    except LookalikeError:
        return ""
    picture.thumbnail((side, side), Image.Resampling.LANCZOS)
    return _encoded(picture)


def class_label(name: str) -> str:
    """A class name that can be read: a single character gets its code, as fonts may lack it.

    >>> class_label("A"), class_label("036.Northern_Flicker")
    ('A 0041', '036.Northern Flicker')
    """
    if len(name) != 1:
        return name.replace("_", " ")
    carrier = "\u25cc" if unicodedata.category(name).startswith("M") else ""
    return f"{carrier}{name} {ord(name):04X}"


def class_title(name: str) -> str:
    """The long form of a class name.

    >>> class_title("A"), class_title("036.Northern_Flicker")
    ('U+0041 LATIN CAPITAL LETTER A', '036.Northern Flicker')
    """
    if len(name) != 1:
        return name.replace("_", " ")
    return f"U+{ord(name):04X} {unicodedata.name(name, '')}".strip()


Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

MOST_METHODS = 6
MOST_QUERIES = 4_000
GALLERY_SIDE = 128
MAP_SIDE = 80
STRUCTURE = ("pi-ratio", "rho")
CLASS_COLOURS = 9
CLASS_SYMBOLS = ("circle", "diamond", "square", "triangle-up")


def embedding_views(contenders: Sequence[MethodResult], seed: int) -> dict[str, Any] | None:
    """One run of each method that has its embeddings; None where there is none.

    All methods show the same images, so those tested on others are left out.
    """
    notes: list[str] = []
    found: list[tuple[MethodResult, TestEmbeddings]] = []
    for one in contenders:
        if one.runs and (one.runs[0].folder / "test.safetensors").is_file():
            try:
                found.append((one, test_embeddings(one.runs[0])))
            except LookalikeError as error:
                notes.append(f"No pictures of {one.name}: {error}.")
    if not found:
        return None
    same = [pair for pair in found if _same_images(pair[1], found[0][1])]
    structure = {}
    for one, tested in same:
        values = evaluate(tested.embeddings, tested.labels, STRUCTURE)
        structure[one.name] = {name: v for name, v in values.items() if np.isfinite(v)}
    others = [one.name for one, _ in found if one.name not in structure]
    notes += [f"{name} was tested on other images." for name in others]
    untrained = [pair for pair in same if pair[0].baseline][:1]
    trained = [pair for pair in same if not pair[0].baseline]
    shown = trained[: MOST_METHODS - len(untrained)] + untrained
    if len(shown) < len(same):
        notes.append(f"Shown are {len(shown)} of {len(same)} methods.")
    first, tested = shown[0]
    pictures = Pictures.of_run(first.runs[0].config, tested.images)
    runs = [each for _, each in shown]
    galleries = [choose_strips(t.embeddings, t.labels, t.query, t.gallery) for t in runs]
    strips = [strip for found in galleries for strip in (*found.right, *found.worst)]
    positions = {strip.position for strip in strips}
    positions |= {near.position for strip in strips for near in strip.neighbours}
    tiny = pictures.are_tiny(tested.indices[:50].tolist())
    names = [one.name for one, _ in shown]
    return {
        "names": names,
        "galleries": galleries,
        "shots": {position: picture_of(tested, position, pictures) for position in positions},
        "map": _map(runs, pictures, seed) | {"names": names, "tiny": tiny},
        "tiny": tiny,
        "structure": structure,
        "notes": notes,
    }


def _same_images(one: TestEmbeddings, other: TestEmbeddings) -> bool:
    equal = one.images.fingerprint == other.images.fingerprint
    return equal and np.array_equal(one.indices, other.indices)


def picture_of(tested: TestEmbeddings, position: int, pictures: Pictures) -> dict[str, str]:
    """One picture of a gallery, for the template."""
    index = int(tested.indices[position])
    name = tested.images.class_names[tested.images.labels[index]]
    return {
        "uri": pictures.uri(index, GALLERY_SIDE),
        "label": class_label(name),
        "title": class_title(name),
        "file": tested.images.files[index],
    }


def _map(runs: Sequence[TestEmbeddings], pictures: Pictures, seed: int) -> dict[str, Any]:
    """What the map's script needs: points, classes, a picture of each."""
    tested = runs[0]
    points = choose_points(tested.labels, seed)
    classes, numbers = np.unique(tested.labels[points], return_inverse=True)
    class_names = [tested.images.class_names[number] for number in classes]
    layouts = [project_tsne(run.embeddings[points], seed).round(4) for run in runs]
    return {
        "classes": [class_label(name) for name in class_names],
        "titles": [class_title(name) for name in class_names],
        "numbers": numbers.tolist(),
        "figure": json_of(_map_chart(layouts[0], numbers).figure),
        "pictures": [pictures.uri(index, MAP_SIDE) for index in tested.indices[points].tolist()],
        "layouts": [{"x": flat[:, 0].tolist(), "y": flat[:, 1].tolist()} for flat in layouts],
    }


def _map_chart(flat: NDArray[np.floating[Any]], numbers: Ints) -> Chart:
    """The points of one layout; the script of the page changes it for another."""
    marker = {
        "color": [colour(f"k{number % CLASS_COLOURS}") for number in numbers],
        "symbol": [CLASS_SYMBOLS[n // CLASS_COLOURS % len(CLASS_SYMBOLS)] for n in numbers],
        "line": {"width": 1, "color": colour("raised")},
    }
    dots = go.Scatter(
        x=flat[:, 0].tolist(), y=flat[:, 1].tolist(), mode="markers", marker=marker,
        hoverinfo="none", cliponaxis=False,
    )  # fmt: skip
    bare = {"showgrid": False, "showticklabels": False, "range": [-1.06, 1.06]}
    bare |= {"automargin": False}
    margin = dict.fromkeys("lrtb", 0)
    return draw("Map", [dots], xaxis=bare, yaxis=bare, margin=margin, height=None)


@dataclass(frozen=True)
class Neighbour:
    """A test image near a query, at ``position`` of the test set."""

    position: int
    similarity: float
    right: bool


@dataclass(frozen=True)
class Strip:
    """A query and its neighbours, nearest first; ``first_right`` is the rank of its class."""

    position: int
    neighbours: tuple[Neighbour, ...]
    first_right: int


@dataclass(frozen=True)
class Gallery:
    """Right queries spread over the test set, and the worst ones.

    ``looked_at`` of ``possible`` queries were searched to choose them; ``wrong`` of those have
    another class at rank 1.
    """

    right: tuple[Strip, ...]
    worst: tuple[Strip, ...]
    wrong: int
    looked_at: int
    possible: int


@dataclass(frozen=True)
class Retrieved:
    """What a method finds for queries of a test set: the nearest first, the query left out.

    ``queries`` and ``near`` are positions in the test set; ``possible`` is how many queries have an
    answer, of which at most :data:`MOST_QUERIES` are looked at.
    """

    labels: Ints
    queries: Ints
    near: Ints
    similar: NDArray[np.float32]
    items: Ints
    possible: int

    @property
    def right_at_first(self) -> Mask:
        """Whether the nearest item has the class of the query."""
        found: Mask = self.labels[self.near[:, 0]] == self.labels[self.queries]
        return found

    def strip(self, at: int, first_right: int = 1) -> Strip:
        """A query with its neighbours."""
        query = int(self.queries[at])
        close = zip(self.near[at].tolist(), self.similar[at].tolist(), strict=True)
        same = self.labels == self.labels[query]
        # where the gallery is smaller than a strip, its last place has the query itself
        found = [Neighbour(item, value, bool(same[item])) for item, value in close if item != query]
        return Strip(query, tuple(found), first_right)


def retrieve(
    embeddings: Tensor,
    labels: Ints,
    query: Mask | None = None,
    gallery: Mask | None = None,
    neighbours: int = 8,
) -> Retrieved:
    """Search for the nearest items of queries that have an answer, evenly spread over all of them.

    A query has an answer if the gallery has another image of its class. ``query`` and ``gallery``
    mark the two parts of the test set where it has two; None: every image is both, and no image is
    its own neighbour.
    """
    items = np.arange(len(labels)) if gallery is None else np.flatnonzero(gallery)
    counts = np.bincount(labels[items], minlength=labels.max(initial=-1) + 1)
    answers = counts[labels] - np.isin(np.arange(len(labels)), items)
    possible = np.flatnonzero((answers > 0) if query is None else (answers > 0) & query)
    queries = spread(possible, MOST_QUERIES)
    if not len(queries):
        empty = np.empty((0, 1))
        return Retrieved(labels, queries, empty.astype(np.int64), empty.astype("f4"), items, 0)
    pool = embeddings[torch.from_numpy(items)]
    similar, found = nearest(embeddings[torch.from_numpy(queries)], pool, neighbours + 1)
    near = items[found.numpy()]
    order = np.argsort(near == queries[:, None], axis=1, kind="stable")[:, :neighbours]
    near, closest = (np.take_along_axis(one, order, 1) for one in (near, similar.numpy()))
    return Retrieved(labels, queries, near, closest, items, len(possible))


def choose_strips(
    embeddings: Tensor,
    labels: Ints,
    query: Mask | None = None,
    gallery: Mask | None = None,
    *,
    each: int = 6,
) -> Gallery:
    """Choose ``each`` right and ``each`` worst queries, from different classes, not at random.

    ``worst`` are those whose class comes last in the ranking; see :func:`retrieve` for the others.
    """
    found = retrieve(embeddings, labels, query, gallery)
    right = found.right_at_first
    wrong = np.flatnonzero(~right)
    first_right = np.ones(len(right), np.int64)
    if len(wrong):
        # the image itself is ignored: no image is its own answer
        asked = found.queries[wrong]
        options = ScoreOptions(ties="best", ignore=asked, gallery_ignore=found.items)
        pool, known = embeddings[torch.from_numpy(found.items)], labels[found.items]
        tested = embeddings[torch.from_numpy(asked)]
        ranked = score(tested, labels[asked], ["mrr"], pool, known, **options)
        # at least 2 although nothing is strictly nearer: an equally similar item came first
        first_right[wrong] = np.maximum((1 / ranked.per_query["mrr"]).round(), 2)
    good = _one_per_class(np.flatnonzero(right), labels[found.queries])
    latest = wrong[np.argsort(-first_right[wrong], kind="stable")]
    worst = _one_per_class(latest, labels[found.queries])[:each]
    return Gallery(
        right=tuple(map(found.strip, spread(good, each))),
        worst=tuple(found.strip(at, int(first_right[at])) for at in worst),
        wrong=len(wrong),
        looked_at=len(right),
        possible=found.possible,
    )


def spread(values: Ints, count: int) -> Ints:
    """At most ``count`` of ``values``, evenly spaced from the first to the last."""
    if len(values) <= count:
        return values
    return values[np.linspace(0, len(values) - 1, count).round().astype(np.int64)]


def _one_per_class(positions: Ints, labels: Ints) -> Ints:
    """The first of each class, in the order given."""
    _, first = np.unique(labels[positions], return_index=True)
    return positions[np.sort(first)]


def choose_points(labels: Ints, seed: int, classes: int = 36, per_class: int = 12) -> Ints:
    """Positions of a part of the test set that can be shown: some classes, some images of each.

    Classes with one image are left out if there are others.
    """
    rng = np.random.default_rng(seed)
    names, counts = np.unique(labels, return_counts=True)
    names = names[counts > 1] if (counts > 1).any() else names
    chosen = rng.permutation(names)[:classes]
    parts = [rng.permutation(np.flatnonzero(labels == name))[:per_class] for name in chosen]
    return np.sort(np.concatenate(parts)) if parts else np.empty(0, np.int64)
