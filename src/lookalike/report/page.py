"""One HTML file that shows runs: scores, curves, neighbours and a map, with nothing to fetch."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from lookalike import data
from lookalike.errors import BadInput
from lookalike.files import atomically
from lookalike.report.curves import curves, validation_metric
from lookalike.report.gallery import Strip, choose_strips
from lookalike.report.map import choose_points, flatten
from lookalike.report.pictures import Pictures, class_label, class_title
from lookalike.report.run_data import ReportRun
from lookalike.report.tables import (
    as_csv,
    as_markdown,
    metric_label,
    percent,
    score_table,
    signed,
)
from lookalike.training.finished import TestEmbeddings

__all__ = ["write_page"]

GALLERY_SIDE = 128
MAP_SIDE = 80
COLOURS = 6
CLASS_COLOURS = 9


@dataclass(frozen=True)
class Method:
    """How one run looks everywhere on the page: its colour (None: grey), line and marker."""

    name: str
    colour: int | None
    line: int


def write_page(
    folder: Path,
    runs: Sequence[ReportRun],
    title: str,
    lead: str,
    *,
    commands: Sequence[str] = (),
    seed: int = 0,
) -> Path:
    """Write ``folder/index.html`` about finished ``runs`` on one data set; return its path.

    ``lead`` is the sentence under the title, ``commands`` are what a reader would type to get the
    same numbers, ``seed`` draws the classes and the layout of the map.
    """
    table = score_table(runs)
    runs = sorted(runs, key=lambda run: run.untrained)
    _check_same_test(runs)
    pictures = _pictures(runs[0])
    methods = _methods(runs)
    page = _template().render(
        title=title,
        lead=lead,
        protocol=_protocol(runs),
        table=table,
        csv=_download("text/csv", as_csv(table)),
        markdown=_download("text/markdown", as_markdown(table)),
        methods=[asdict(method) for method in methods],
        by_name={method.name: asdict(method) for method in methods},
        galleries=[_gallery(run.tested, pictures) for run in runs],
        tiny=pictures.are_tiny(runs[0].tested.indices[:50].tolist()),
        validation=metric_label(validation_metric(runs)),
        curves=[asdict(curve) for curve in curves(runs)],
        map=_map(runs, pictures, seed),
        class_colours=CLASS_COLOURS,
        commands=commands,
        environments=_environments(runs),
        plotly=Markup(get_plotlyjs()),
        css=Markup(_text("page.css")),
        script=Markup(_text("page.js")),
    )
    path = folder / "index.html"
    with atomically(path) as draft:
        draft.write_text(page, encoding="utf-8")
    return path


def _check_same_test(runs: Sequence[ReportRun]) -> None:
    """One page compares like with like only."""
    first = runs[0]
    for run in runs[1:]:
        if run.result["data_fingerprint"] != first.result["data_fingerprint"]:
            raise BadInput(
                f"'{first.name}' and '{run.name}' were tested on different data "
                f"({first.config.data.name} and {run.config.data.name}, or other files)"
            )
        if not np.array_equal(run.tested.indices, first.tested.indices):
            raise BadInput(f"'{first.name}' and '{run.name}' were tested on different images")


def _pictures(run: ReportRun) -> Pictures:
    """The pictures that the run itself read, so that nothing is decoded again."""
    short_side = data.preset(run.config.data.transform).short_side
    return Pictures(data.open_store(run.tested.images, short_side))


def _methods(runs: Sequence[ReportRun]) -> list[Method]:
    trained = [run.name for run in runs if not run.untrained]
    return [
        Method(run.name, None, 0)
        if run.untrained
        else Method(run.name, trained.index(run.name) % COLOURS, trained.index(run.name) // COLOURS)
        for run in runs
    ]


def _protocol(runs: Sequence[ReportRun]) -> list[str]:
    """How the numbers were had, in plain words; one sentence unless runs differ in it."""
    learned = [run for run in runs if not run.untrained] or list(runs)
    return list(dict.fromkeys(map(_protocol_of, learned)))


def _protocol_of(run: ReportRun) -> str:
    result, images = run.result, run.tested.images
    tested = f"{result['test_classes']:,} unseen classes ({result['test_images']:,} images)"
    if run.untrained:
        return f"Not trained at all; tested once on {tested}."
    trained = f"Trained on {result['train_classes']:,} classes"
    if "chosen_epoch" not in result:
        return f"{trained}, no epoch chosen; tested once, after the last epoch, on {tested}."
    held_out = len(np.unique(images.labels[~images.test])) - result["train_classes"]
    return (
        f"{trained}, epoch chosen by {metric_label(run.config.train.metric)} on {held_out:,} "
        f"validation classes, tested once on {tested}."
    )


def _gallery(tested: TestEmbeddings, pictures: Pictures) -> dict[str, Any]:
    """One method's strips, ready for the template."""
    found = choose_strips(tested.embeddings, tested.labels, tested.query, tested.gallery)

    def picture(position: int) -> dict[str, Any]:
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
            "query": picture(chosen.position),
            "first_right": chosen.first_right,
            "neighbours": [
                picture(near.position) | {"similarity": near.similarity, "right": near.right}
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
        "classes": [class_label(name) for name in names],
        "titles": [class_title(name) for name in names],
        "numbers": numbers.tolist(),
        "sheet": asdict(pictures.sheet(tested.indices[points].tolist(), MAP_SIDE)),
        "layouts": [{"x": flat[:, 0].tolist(), "y": flat[:, 1].tolist()} for flat in layouts],
    }


def _environments(runs: Sequence[ReportRun]) -> list[str]:
    """Versions and commit of the runs, each combination once."""
    lines = []
    for run in runs:
        found = run.environment
        parts = [f"Python {found['python']}"] if "python" in found else []
        parts += [f"{name} {version}" for name, version in found.get("versions", {}).items()]
        if found.get("commit"):
            parts.append(f"commit {found['commit'][:12]}")
        lines.append(", ".join(parts))
    return [line for line in dict.fromkeys(lines) if line]


def _download(kind: str, text: str) -> str:
    return f"data:{kind};charset=utf-8,{quote(text)}"


def _template() -> Any:
    environment = Environment(
        loader=PackageLoader("lookalike.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, "signed": signed, "metric_label": metric_label}
    return environment.get_template("page.html.j2")


def _text(name: str) -> str:
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")
