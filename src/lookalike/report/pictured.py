"""The parts of the page that need embeddings and pictures: neighbours, the map, structure."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lookalike import data
from lookalike.compare.contenders import Contender
from lookalike.errors import LookalikeError
from lookalike.evaluation import evaluate
from lookalike.report.gallery import Strip, choose_strips
from lookalike.report.map import choose_points, flatten
from lookalike.report.pictures import Pictures, class_label, class_title
from lookalike.report.run_data import ReportRun
from lookalike.runs.run import TestEmbeddings

__all__ = ["Pictured", "picture"]

MOST_METHODS = 6
GALLERY_SIDE = 128
MAP_SIDE = 80
STRUCTURE = ("pi-ratio", "rho")


@dataclass(frozen=True)
class Pictured:
    """What runs with embeddings show; ``names`` are the methods, in the order of the lists."""

    names: list[str]
    galleries: list[dict[str, Any]]
    map: dict[str, Any]
    tiny: bool
    structure: dict[str, dict[str, float]]
    notes: list[str]


def picture(contenders: Sequence[Contender], seed: int) -> Pictured | None:
    """One run of each method that kept its embeddings; None where there is none.

    On one map all methods show the same images, so those tested on others are left out.
    """
    notes: list[str] = []
    runs: list[ReportRun] = []
    for one in contenders:
        if one.runs and (one.runs[0].folder / "test.safetensors").is_file():
            try:
                run = ReportRun(one.name, one.runs[0])
                _ = run.tested
                runs.append(run)
            except LookalikeError as error:
                notes.append(f"No pictures of {one.name}: {error}.")
    same = [run for run in runs if _same_images(run.tested, runs[0].tested)]
    notes += [f"{run.name} was tested on other images." for run in runs if run not in same]
    if not same:
        return None
    structure = {run.name: _structure(run.tested) for run in same}
    trained = [run for run in same if not run.untrained]
    bare = [run for run in same if run.untrained][:1]
    shown = trained[: MOST_METHODS - len(bare)] + bare
    if len(shown) < len(same):
        notes.append(f"Shown are {len(shown)} of {len(same)} methods.")
    pictures = _pictures(shown[0])
    return Pictured(
        names=[run.name for run in shown],
        galleries=[_gallery(run.tested, pictures) for run in shown],
        map=_map(shown, pictures, seed),
        tiny=pictures.are_tiny(shown[0].tested.indices[:50].tolist()),
        structure=structure,
        notes=notes,
    )


def _same_images(one: TestEmbeddings, other: TestEmbeddings) -> bool:
    equal = one.images.fingerprint == other.images.fingerprint
    return equal and np.array_equal(one.indices, other.indices)


def _structure(tested: TestEmbeddings) -> dict[str, float]:
    found = evaluate(tested.embeddings, tested.labels, STRUCTURE)
    return {name: float(value) for name, value in found.items() if np.isfinite(value)}


def _pictures(run: ReportRun) -> Pictures:
    """The pictures that the run itself read, so that nothing is decoded again."""
    short_side = data.preset(run.config.data.transform).short_side
    return Pictures(data.open_store(run.tested.images, short_side))


def _gallery(tested: TestEmbeddings, pictures: Pictures) -> dict[str, Any]:
    """One method's strips, ready for the template."""
    found = choose_strips(tested.embeddings, tested.labels, tested.query, tested.gallery)

    def shot(position: int) -> dict[str, Any]:
        index = int(tested.indices[position])
        name = tested.images.class_names[tested.images.labels[index]]
        return {
            "uri": pictures.uri(index, GALLERY_SIDE),
            "label": class_label(name),
            "title": class_title(name),
            "file": tested.images.files[index],
        }

    def strip(chosen: Strip) -> dict[str, Any]:
        return {
            "query": shot(chosen.position),
            "first_right": chosen.first_right,
            "neighbours": [
                shot(near.position) | {"similarity": near.similarity, "right": near.right}
                for near in chosen.neighbours
            ],
        }

    return {
        "right": [strip(chosen) for chosen in found.right],
        "worst": [strip(chosen) for chosen in found.worst],
        "wrong": found.wrong,
        "looked_at": found.looked_at,
        "possible": found.possible,
    }


def _map(runs: Sequence[ReportRun], pictures: Pictures, seed: int) -> dict[str, Any]:
    """Everything that the map's script needs: points, classes, one sheet of pictures."""
    tested = runs[0].tested
    points = choose_points(tested.labels, seed)
    classes, numbers = np.unique(tested.labels[points], return_inverse=True)
    names = [tested.images.class_names[number] for number in classes]
    layouts = [flatten(run.tested.embeddings[points], seed).round(4) for run in runs]
    return {
        "names": [run.name for run in runs],
        "classes": [class_label(name) for name in names],
        "titles": [class_title(name) for name in names],
        "numbers": numbers.tolist(),
        "sheet": asdict(pictures.sheet(tested.indices[points].tolist(), MAP_SIDE)),
        "layouts": [{"x": flat[:, 0].tolist(), "y": flat[:, 1].tolist()} for flat in layouts],
    }
