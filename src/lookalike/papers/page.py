"""The page of a reproduction: the report of its study, with claims and published numbers."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from lookalike import published
from lookalike.config import RunConfig
from lookalike.errors import BadInput, LookalikeError
from lookalike.files import write_texts
from lookalike.papers import charts
from lookalike.papers.catalogue import Entry, Figure
from lookalike.papers.run import Outcome
from lookalike.papers.selection import Row, quoted
from lookalike.papers.tables import list_table, result_table
from lookalike.report import page as report
from lookalike.report.charts import Chart
from lookalike.report.embeddings import Pictures, picture_of, retrieve, spread
from lookalike.report.formatting import template
from lookalike.report.page import Shell
from lookalike.report.papers import reported_chart, side_by_side
from lookalike.report.tables import Table
from lookalike.runs.run import Run, TestEmbeddings, test_embeddings

LONG = 24
"""A table of more rows can be folded."""
FIRST_DEVIATIONS = 4
CSS = (Path(__file__).parent / "templates" / "reproduction.css").read_text(encoding="utf-8")
NO_IMAGES = "its runs were not kept, or have no test embeddings."


@dataclass(frozen=True)
class Part:
    """One figure of the page; empty parts are left out."""

    title: str
    intro: str = ""
    charts: list[Chart] = field(default_factory=list)
    table: Table | None = None
    beside: dict[str, Any] | None = None
    missing: str = ""
    """Why there is nothing to see."""


def write_page(path: Path, outcome: Outcome, seed: int = 0) -> list[Path]:
    """Write the page of a reproduction, and its table beside it.

    Args:
        path: The page; it ends in ``.html``.
        outcome: What came out.
        seed: Of the map and of mixed pairs.

    Returns:
        All files: the page, CSV, Markdown, LaTeX and figures; where nothing was trained, the page.

    Raises:
        BadInput: The path is not that of an HTML file.
    """
    report.check_path(path)
    entry = outcome.entry
    found = [part_of(figure, outcome, seed) for figure in entry.figures if outcome.rows]
    parts = [part for part in found if part.charts or part.table or part.beside or part.missing]
    table = result_table(outcome) if outcome.gathered else None

    def sections(shell: Shell) -> Markup:
        text = template("reproduction.html.j2", __package__).render(
            shell=shell,
            outcome=outcome,
            entry=entry,
            small=outcome.scale == "small",
            paper=published.papers()[entry.paper],
            verdict=_verdict(outcome),
            what=_what(outcome),
            table=table,
            long=table is not None and len(table.rows) > LONG,
            first_deviations=FIRST_DEVIATIONS,
            parts=parts,
        )
        return Markup(text)

    commands = [outcome.command] if outcome.command else []
    if outcome.gathered is None or table is None:
        shell = Shell(css=CSS)
        values = {"title": outcome.heading, "sections": sections(shell), "commands": commands}
        return write_texts(path, {".html": shell.render("sections.html.j2", __package__, **values)})
    return report.write_page(
        path,
        outcome.gathered,
        outcome.heading,
        "",
        commands=commands,
        allow_unfair=True,
        summary=sections,
        summary_title="Claims and published numbers",
        css=CSS,
        tables=[table],
        seed=seed,
    )


def write_list_page(path: Path, entry: Entry, command: str = "") -> list[Path]:
    """Write the page of a list of a document, which needs no training.

    Args:
        path: The page; it ends in ``.html``.
        entry: A list of the catalogue.
        command: The command that writes it.

    Returns:
        The page.

    Raises:
        BadInput: The path is not that of an HTML file, or the entry is no list.
    """
    report.check_path(path)
    shell = Shell(css=CSS)
    section = template("list.html.j2", __package__).render(
        shell=shell,
        entry=entry,
        paper=published.papers()[entry.paper],
        table=list_table(entry.lists) if entry.lists else None,
    )
    text = shell.render(
        "sections.html.j2",
        __package__,
        title=entry.heading,
        sections=Markup(section),
        commands=[command] if command else [],
    )
    return write_texts(path, {".html": text})


def _what(outcome: Outcome) -> str:
    """One sentence: how much was trained."""
    rows = outcome.rows
    trainings = sum(len(row.trainings) for row in rows)
    trials = sum(len(row.trials) for row in rows)
    text = (
        f"{len(rows)} row{'s' * (len(rows) != 1)}, {trainings} tested model{'s' * (trainings != 1)}"
    )
    text += f", {trials:,} trials of a search" if trials else ""
    data = sorted({row.config.data.name for row in rows})
    networks = sorted({row.config.model.network for row in rows})
    return f"{text}; data: {', '.join(data)}; network: {', '.join(networks)}."


def _verdict(outcome: Outcome) -> str:
    """One sentence: how many claims held, and for what."""
    claims = outcome.claims
    if not claims:
        return "The document makes no claim that this table or figure could decide."
    if len(claims) == 1:
        (one,) = claims
        return {"yes": f"Yes: the claim {one.here}.", "no": f"No: the claim {one.here}."}.get(
            one.verdict, "Not shown: the intervals do not decide the claim."
        )
    counts = Counter(one.here for one in claims if one.verdict != "not shown")
    left = len(claims) - counts.total()
    parts = [f"{count} {words}" for words, count in counts.items()]
    parts += [f"{left} could not be decided"] if left else []
    return f"Of {len(claims)} claims {', '.join(parts)}."


# The figures of the documents, besides those of every report.


TEXTS = {
    "years": (
        "By year",
        "Each method at the year of its paper: progress would go to the right, row by row.",
    ),
    "tournament": (
        "Tournament",
        "In every cell, that is at each combination of the axes, methods are ranked by their mean "
        "score.",
    ),
    "reality": (
        "Papers versus reality",
        "What papers report for two old losses; what this test finds for each method, at the year "
        "of its paper; what papers claim to gain. All have the same vertical axis.",
    ),
    "correlation": (
        "Score against structure",
        "Every point is one training; in a correlation each row counts once, as their mean.",
    ),
    "pairs": ("With and without", ""),
    "projection": ("Embedding space", ""),
    "distances": (
        "Distances",
        "Euclidean distances of unit embeddings of test images. Clean: all pairs. Mixed: an image "
        "and a random mix of two embeddings that contains its class, counted as positive by the "
        "share of the class, as negative by the rest.",
    ),
    "retrieval": ("Retrieval beside each other", ""),
}
"""Title and introduction by kind of a figure."""


def part_of(figure: Figure, outcome: Outcome, seed: int = 0) -> Part:
    """The part of the page that shows a figure of the catalogue.

    Search plots, maps and neighbours are those of the report itself.
    """
    rows, entry = outcome.rows, outcome.entry
    runs = [(row.label, run) for row in rows if row.contender for run in row.contender.runs[:1]]
    found: list[Chart] = []
    table, strips, missing = None, None, ""
    for metric in figure.metrics:
        match figure.kind:
            case "lines":
                found += charts.by_axis(rows, figure.x, figure.line, metric)
            case "years":
                found += charts.by_year(rows, metric)
            case "pairs":
                pairs = [(p.first, p.second) for claim in entry.claims for p in claim.pairs]
                found += charts.in_pairs(rows, pairs, metric)
            case "tournament":
                found += filter(None, [charts.ranks(rows, quoted(entry), metric)])
                table = table or charts.rank_table(rows, quoted(entry), metric)
    match figure.kind:
        case "correlation":
            found = charts.correlations(rows, figure.metrics)
        case "reality":
            found = _reality(figure, rows)
        case "projection":
            missing = "" if runs else NO_IMAGES
        case "distances":
            tested = [(name, test_embeddings(run)) for name, run in runs]
            found = [one for pair in tested for one in charts.distance_charts(*pair, seed)]
            missing = "" if found else NO_IMAGES
        case "retrieval":
            strips, missing = _beside(runs)
    title, intro = TEXTS.get(figure.kind, ("", ""))
    if figure.kind == "lines":
        title = f"By {figure.x}" + ("" if figure.line == "method" else f" and {figure.line}")
    return Part(title, intro, found, table, strips, missing)


def _reality(figure: Figure, rows: Sequence[Row]) -> list[Chart]:
    """What papers report, what is tested, and what papers claim to gain, on one vertical axis."""
    shown = []
    for dataset in sorted({(row.as_published or row.config).data.name for row in rows}):
        shown.append(reported_chart(dataset, quoted_only=True))
        shown += [charts.tested_by_year(rows, metric) for metric in figure.metrics]
        shown.append(charts.claims_by_year(dataset))
    found = [one for one in shown if one]
    return side_by_side(found) if found else []


def _beside(runs: Sequence[tuple[str, Run]]) -> tuple[dict[str, Any] | None, str]:
    """The strips of the first two methods, or why there are none."""
    if len(runs) < 2:
        return None, NO_IMAGES
    (name, run), (other, second) = runs[:2]
    both = (test_embeddings(run), test_embeddings(second))
    try:
        return beside((name, other), *both, run.config), ""
    except LookalikeError as error:
        return None, f"{error}."


NEIGHBOURS = 5
EACH = 3


def beside(
    names: tuple[str, str], first: TestEmbeddings, second: TestEmbeddings, config: RunConfig
) -> dict[str, Any]:
    """Compare what two methods find for the same queries.

    Args:
        names: Of the two methods.
        first: The test embeddings of the first.
        second: Those of the second, of the same images.
        config: That of the runs, whose image store is read.

    Returns:
        What the page shows: four groups of queries (right at rank 1 by both, by one of the two, by
        none), some strips of each, and the pictures of their images.

    Raises:
        BadInput: The methods were tested on different images.
    """
    if not np.array_equal(first.indices, second.indices):
        raise BadInput(f"'{names[0]}' and '{names[1]}' were tested on different images")
    found = [
        retrieve(one.embeddings, first.labels, first.query, first.gallery, NEIGHBOURS)
        for one in (first, second)
    ]
    a, b = (one.right_at_first for one in found)
    groups: list[dict[str, Any]] = []
    for title, members in {
        "Right at rank 1 by both": a & b,
        f"Right by {names[1]} only": ~a & b,
        f"Right by {names[0]} only": a & ~b,
        "Right by neither": ~a & ~b,
    }.items():
        chosen = spread(np.flatnonzero(members), EACH)
        strips = [[one.strip(at) for one in found] for at in chosen]
        groups.append({"title": title, "count": int(members.sum()), "strips": strips})
    shown = [strip for group in groups for pair in group["strips"] for strip in pair]
    places = {one.position for one in shown}
    places |= {near.position for one in shown for near in one.neighbours}
    pictures = Pictures.of_run(config, first.images)
    return {
        "names": names,
        "queries": len(a),
        "groups": groups,
        "shots": {place: picture_of(first, place, pictures) for place in sorted(places)},
        "tiny": pictures.are_tiny(first.indices[:50].tolist()),
    }
