"""The page of a reproduction: the report of its study, with claims and published numbers."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from markupsafe import Markup

from lookalike import published
from lookalike.errors import LookalikeError
from lookalike.files import write_texts
from lookalike.papers import charts
from lookalike.papers.catalogue import Entry, Figure
from lookalike.papers.outcome import Outcome
from lookalike.papers.proxies import proxy_charts
from lookalike.papers.retrieval import beside
from lookalike.papers.selection import Row, quoted
from lookalike.papers.tables import list_table, result_table
from lookalike.report import page as report
from lookalike.report.charts import Chart
from lookalike.report.formatting import template
from lookalike.report.papers import reported_chart, side_by_side
from lookalike.report.shell import Shell
from lookalike.report.tables import Table
from lookalike.runs.run import Run, test_embeddings

__all__ = ["Part", "part_of", "write_list_page", "write_page"]

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
        anyway=True,
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
    if outcome.entry.drawn:
        return "Nothing is trained: the figure shows the losses themselves."
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


def part_of(figure: Figure, outcome: Outcome, seed: int = 0) -> Part:
    """The part of the page that shows a figure of the catalogue.

    Search plots, maps and neighbours are those of the report itself.
    """
    return PARTS[figure.kind](figure, outcome, seed)


def _lines(figure: Figure, outcome: Outcome, _: int) -> Part:
    by = f"By {figure.x}" + ("" if figure.line == "method" else f" and {figure.line}")
    found = (charts.by_axis(outcome.rows, figure.x, figure.line, m) for m in figure.metrics)
    return Part(by, charts=[one for several in found for one in several])


def _years(figure: Figure, outcome: Outcome, _: int) -> Part:
    intro = "Each method at the year of its paper: progress would go to the right, row by row."
    found = (charts.by_year(outcome.rows, metric) for metric in figure.metrics)
    return Part("By year", intro, [one for several in found for one in several])


def _tournament(figure: Figure, outcome: Outcome, _: int) -> Part:
    intro = (
        "In every cell, that is at each combination of the axes, methods are ranked by their mean "
        "score."
    )
    known = quoted(outcome.entry)
    found = [charts.ranks(outcome.rows, known, metric) for metric in figure.metrics]
    table = charts.rank_table(outcome.rows, known, figure.metrics[0])
    return Part("Tournament", intro, [one for one in found if one], table)


def _reality(figure: Figure, outcome: Outcome, _: int) -> Part:
    intro = (
        "What papers report for two old losses; what this test finds for each method, at the year "
        "of its paper; what papers claim to gain. All have the same vertical axis."
    )
    rows = outcome.rows
    tested = [one for m in figure.metrics if (one := charts.tested_by_year(rows, m))]
    found: list[Chart] = []
    for dataset in sorted({(row.as_published or row.config).data.name for row in rows}):
        reported = reported_chart(dataset, quoted_only=True)
        told = (reported, *tested, charts.claims_by_year(dataset))
        found += [one for one in told if one and one not in found]
    return Part("Papers versus reality", intro, side_by_side(found) if found else [])


def _correlation(figure: Figure, outcome: Outcome, _: int) -> Part:
    intro = "Every point is one training; in a correlation each row counts once, as their mean."
    found = charts.correlations(outcome.rows, figure.metrics)
    return Part("Score against structure", intro, found)


def _pairs(figure: Figure, outcome: Outcome, _: int) -> Part:
    pairs = [(p.first, p.second) for claim in outcome.entry.claims for p in claim.pairs]
    found = (charts.in_pairs(outcome.rows, pairs, metric) for metric in figure.metrics)
    return Part("With and without", charts=[one for several in found for one in several])


def _proxies(_: Figure, outcome: Outcome, __: int) -> Part:
    intro = (
        "Squares are proxies, dots are samples, colours are classes, of one two-dimensional batch "
        "under each loss with the settings of its row. A green edge pulls together, a dashed red "
        "one pushes apart; its width shows the gradient of the loss by the similarity of the two "
        "(its square root, relative to the strongest edge of the colour)."
    )
    return Part("Proxies and samples", intro, proxy_charts(outcome.rows))


def _projection(_: Figure, outcome: Outcome, __: int) -> Part:
    if any(row.runs for row in outcome.rows):
        return Part("Embedding space")
    return Part("Embedding space", missing=NO_IMAGES)


def _distances(_: Figure, outcome: Outcome, seed: int) -> Part:
    intro = (
        "Euclidean distances of unit embeddings of test images. Clean: all pairs. Mixed: an image "
        "and a random mix of two embeddings that contains its class, counted as positive by the "
        "share of the class, as negative by the rest."
    )
    runs = [(row.label, run) for row in outcome.rows for run in _first_run(row)]
    found = [
        one
        for name, run in runs
        for one in charts.distance_charts(name, test_embeddings(run), seed)
    ]
    return Part("Distances", intro, found, missing="" if found else NO_IMAGES)


def _retrieval(_: Figure, outcome: Outcome, __: int) -> Part:
    title = "Retrieval beside each other"
    tested = [(row.label, run) for row in outcome.rows for run in _first_run(row)]
    if len(tested) < 2:
        return Part(title, missing=NO_IMAGES)
    (name, run), (other, second) = tested[:2]
    both = (test_embeddings(run), test_embeddings(second))
    try:
        return Part(title, beside=beside((name, other), *both, run.config))
    except LookalikeError as error:
        return Part(title, missing=f"{error}.")


def _first_run(row: Row) -> Sequence[Run]:
    return row.contender.runs[:1] if row.contender else ()


PARTS: Mapping[str, Callable[[Figure, Outcome, int], Part]] = {
    "lines": _lines,
    "years": _years,
    "tournament": _tournament,
    "tuning": lambda *_: Part("Search"),  # the report itself shows the trials of every search
    "reality": _reality,
    "correlation": _correlation,
    "pairs": _pairs,
    "projection": _projection,
    "proxies": _proxies,
    "distances": _distances,
    "retrieval": _retrieval,
}
"""By kind of a figure."""
