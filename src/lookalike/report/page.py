"""One HTML file about runs and studies that fetches nothing, and table files beside it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from lookalike.compare import comparison
from lookalike.compare.comparison import Comparison, OnDataset, Tournament, compare
from lookalike.compare.contenders import ResultSet
from lookalike.compare.uncertainty import Bounds, Difference, Scope
from lookalike.errors import BadInput
from lookalike.files import write_texts
from lookalike.report import method_charts, papers
from lookalike.report.charts import COLOURS, THEME, Chart, Style, as_svg, json_of, method_styles
from lookalike.report.descriptions import (
    environments,
    protocols,
    software,
    study_file,
    training_commands,
)
from lookalike.report.embeddings import embedding_views
from lookalike.report.formatting import data_link, p_value, signed, template, template_text
from lookalike.report.scores import reference, score_table, settings_tables, shown_best, unbeaten
from lookalike.report.tables import (
    Cell,
    Column,
    Row,
    Table,
    as_csv,
    as_html,
    as_latex,
    as_markdown,
)
from lookalike.report.tuning import tunings

SCRIPTS = ("base", "map")
WIDTH = 130
"""Characters of a table's line at a width of 1280 px; wider tables are cut between groups."""
SHAPES = (
    "M13 2a4 4 0 1 0 .01 0Z",
    "M9.5 2.5h7v7h-7Z",
    "M13 1l5 5-5 5-5-5Z",
    "M13 1.5l5 9H8Z",
    "M13 10.5l5-9H8Z",
    "M11.5 1.5h3v3h3v3h-3v3h-3v-3h-3v-3h3Z",
)
"""The symbols of charts, in their order."""


def swatch(style: Style) -> Markup:
    """The line and the symbol of a method."""
    ink = "bare" if style.colour is None else f"c{style.colour}"
    shape = SHAPES[((style.colour or 0) + style.line) % len(SHAPES)]
    return Markup(
        '<svg class="swatch {} line{}" viewBox="0 0 26 12" aria-hidden="true">'
        '<path class="stroke" d="M1 6H25"/><path class="fill" d="{}"/></svg>'
    ).format(ink, style.line % 3, shape)


class Shell:
    """One page while it is written: templates draw charts and tables through it.

    Args:
        methods: The styles of methods, which tables show beside their names.
        css: A style sheet besides that of all pages.
    """

    def __init__(self, methods: Sequence[Style] = (), css: str = "") -> None:
        self.methods = list(methods)
        self.swatches = {style.name: swatch(style) for style in methods}
        self.css = Markup(template_text("page.css") + css)
        self.figures: dict[str, Any] = {}
        self.maps: dict[str, Any] = {}

    def draw(self, chart: Chart, key: str = "") -> Markup:
        """The place of a chart, which the page's script fills; ``key`` is its id."""
        key = key or f"chart-{len(self.figures)}"
        self.figures[key] = json_of(chart.figure)
        note = Markup('<figcaption class="note">{}</figcaption>').format(chart.note)
        return Markup(
            '<figure class="drawn{}"><h3>{}</h3>'
            '<div id="{}" class="chart" role="img" aria-label="{}"></div>{}{}</figure>'
        ).format(
            " whole" if chart.wide else "",
            chart.title,
            key,
            chart.title,
            self.legend(chart.legend) if len(chart.legend) > 1 else "",
            note if chart.note else "",
        )

    def legend(self, styles: Iterable[Style]) -> Markup:
        """The styles of a chart, explained."""
        item = Markup("<li>{}{}</li>")
        items = Markup("").join(item.format(swatch(one), one.name) for one in styles)
        return Markup('<ul class="legend">{}</ul>').format(items)

    def table(self, table: Table, anchor: str = "note") -> Markup:
        """A table with swatches beside methods; its marks link to ``#{anchor}-{number}``."""
        return as_html(table.parts(WIDTH, page=True), self.swatches, anchor)

    def map(self, values: dict[str, Any], key: str) -> Markup:
        """Hand the values of a map to the page's script."""
        self.maps[key] = values
        return Markup("")

    def render(self, name: str, package: str = "lookalike.report", **values: Any) -> str:
        """The page of a template."""
        program = Markup("\n".join(template_text(f"script/{one}.js") for one in SCRIPTS))
        data = {
            "figures": self.figures,
            "maps": self.maps,
            "theme": THEME.to_plotly_json(),
            "dark": dict(COLOURS.values()),
        }
        rendered: str = template(name, package).render(
            shell=self,
            css=self.css,
            script=program,
            script_data=data,
            plotly=Markup(get_plotlyjs()),
            **values,
        )
        return rendered


DOWNLOADS = {"CSV": "text/csv", "Markdown": "text/markdown", "LaTeX": "application/x-tex"}
SUFFIXES = (".csv", ".md", ".tex")
PAIRS: dict[Scope, tuple[str, str]] = {
    "generalizes": ("better", "worse"),
    "this test set": ("higher", "lower"),
    "these training runs": ("higher", "lower"),
    "open": ("open", "open"),
}
MANY = 16
"""Of more methods the table of pairs is set smaller."""

Section = Callable[[Shell], Markup]


def write_page(
    path: Path,
    gathered: ResultSet,
    title: str,
    lead: str,
    *,
    commands: Sequence[str] = (),
    metric: str | None = None,
    allow_unfair: bool = False,
    paper: str | None = None,
    summary: Markup | Section | None = None,
    summary_title: str = "Why",
    css: str = "",
    tables: Sequence[Table] = (),
    seed: int = 0,
) -> list[Path]:
    """Write a page about runs and studies, and its tables beside it.

    Args:
        path: The page; it ends in ``.html``.
        gathered: The runs and studies.
        title: Its title.
        lead: The sentence under the title.
        commands: The commands that give the same numbers.
        metric: What ranks; the study's own unless given, else map@r.
        allow_unfair: Rank rows that differ beyond the method, and say so.
        paper: A paper in whose table our rows are shown too.
        summary: Sections before the scores, with the id ``recommendation``.
        summary_title: What the link to them is called.
        css: Their style sheet.
        tables: What is written beside the page; empty: the scores.
        seed: Of the map.

    Returns:
        All files, the page first.

    Raises:
        BadInput: The path, metric or paper is invalid.
    """
    check_path(path)
    if paper:
        papers.check_paper(paper, gathered.datasets)
    metric = metric or comparison.chosen_metric(gathered)
    found = compare(gathered, metric, allow_unfair=allow_unfair)
    joined = None
    if any(one.concatenated for one in gathered.contenders):
        joined = compare(gathered, metric, "concatenated", allow_unfair=allow_unfair)
    styles = method_styles(gathered.contenders)
    shell = Shell(list(styles.values()), css)
    blocks = [_block(part, found, joined, gathered, styles, paper, seed) for part in found.datasets]
    written = list(tables) or [t for block in blocks for t in (block["table"], *block["settings"])]
    values = list(tables) or [block["table"] for block in blocks]
    texts = {".csv": as_csv(values), ".md": as_markdown(written), ".tex": as_latex(written)}
    ranks = None
    if found.tournament and not found.tournament.cells:
        ranks = method_charts.ranks_chart(found.tournament)
        texts[".svg"] = as_svg(ranks)
    for number, block in enumerate(blocks, 1):
        if block["differences"]:
            suffix = f".differences-{number}.svg" if len(blocks) > 1 else ".differences.svg"
            texts[suffix] = as_svg(block["differences"])
    page = shell.render(
        "page.html.j2",
        title=title,
        lead=lead,
        summary=summary(shell) if callable(summary) else summary,
        summary_title=summary_title,
        metric=found.metric,
        blocks=blocks,
        tournament=found.tournament,
        ranks=ranks,
        ranks_of_cells=_ranks_of_cells(found.tournament) if found.tournament else None,
        downloads=downloads(texts, "scores"),
        skipped=gathered.skipped,
        commands=[*training_commands(gathered), *commands],
        files={
            f"{one.name}.yaml": data_link("application/yaml", study_file(one))
            for one in gathered.studies
        },
        software=software(),
        environments=environments(gathered),
    )
    return write_texts(path, {".html": page} | texts)


def check_path(path: Path) -> None:
    """Refuse a page that would not be HTML."""
    if path.suffix != ".html":
        raise BadInput(f"'{path}' must end in .html")


def downloads(texts: Mapping[str, str], name: str) -> list[tuple[str, str, str]]:
    """The tables that a page brings with it: label, file, address."""
    return [
        (label, f"{name}{suffix}", data_link(kind, texts[suffix]))
        for (label, kind), suffix in zip(DOWNLOADS.items(), SUFFIXES, strict=True)
    ]


def _block(
    part: OnDataset,
    found: Comparison,
    joined: Comparison | None,
    gathered: ResultSet,
    styles: Mapping[str, Style],
    paper: str | None,
    seed: int,
) -> dict[str, Any]:
    """What the page shows for one data set; empty parts are left out."""
    rows = part.contenders
    named = comparison.ranking_metrics(gathered)
    metrics = [metric for metric in named if all(metric in one.metrics for one in rows)]
    metrics.sort(key=lambda metric: metric != found.metric)  # what ranks is seen on a phone too
    other = None
    if joined is not None and any(one.concatenated for one in rows):
        same = next(one for one in joined.datasets if one.label == part.label)
        other = score_table(same, metrics, "concatenated")
    views = embedding_views(rows, seed)
    structure = views["structure"] if views else {}
    table = score_table(part, metrics)
    sources: dict[str, list[str]] = {}
    for row in table.rows:
        sources.setdefault(table.cell(row.name, "run").values[""], []).append(row.name)
    compared = bool(part.to_best)
    return {
        "part": part,
        "styles": [styles[one.name] for one in rows],
        "table": table,
        "sources": sources,
        "joined": other,
        "settings": settings_tables(part),
        "best": shown_best(part),
        "reference": reference(part),
        "unbeaten": unbeaten(part, metrics[0]),
        "protocol": protocols(rows),
        "published": papers.published_table(part.dataset, rows),
        "paper": papers.paper_table(paper, part.dataset, rows) if paper else None,
        "reality": papers.reality_charts(part.dataset, rows, styles),
        "training": method_charts.training_charts(rows, styles),
        "tunings": tunings(rows),
        "recall": method_charts.recall_chart(rows, styles),
        "scatters": method_charts.property_charts(rows, found.metric, structure, styles),
        "views": views,
        "differences": method_charts.difference_chart(part, found.metric) if compared else None,
        "power": method_charts.power_chart(part, found.metric) if compared else None,
        "to_best": _to_best(part) if compared else None,
        "pairs": _pairs(part),
    }


def _to_best(part: OnDataset) -> Table:
    """The differences to the best as numbers."""
    columns = [Column(f"minus {part.trained[0].name}"), Column("points")]
    columns += [Column("95 %, trainings")] if part.trainings > 1 else []
    over = "trainings x classes" if part.trainings > 1 else "classes"
    columns += [Column(f"95 %, {over}"), Column("higher in")] if part.classes else []
    columns += [Column("verdict", words=True)]
    rows = []
    for one in method_charts.difference_rows(part):
        texts = [one.name, signed(one.mean)]
        texts += [_limits(one.trainings)] if part.trainings > 1 else []
        share = "" if one.share is None else f"{100 * one.share:.1f} %"
        texts += [_limits(one.classes), share] if part.classes else []
        rows.append([*texts, one.verdict])
    return Table.of_texts("Differences to the best", columns, rows, kind="pairs")


def _limits(bounds: Bounds | None) -> str:
    return f"{signed(bounds.low)} to {signed(bounds.high)}" if bounds else ""


def _pairs(part: OnDataset) -> Table:
    """Row minus column, both ways."""
    cells: dict[tuple[str, str], Cell] = {}
    for one in part.differences:
        better, worse = PAIRS[one.scope]
        title = f"{one.better} minus {one.worse}: {', '.join(_intervals(one))}"
        cells[one.better, one.worse] = Cell(signed(one.mean), kind=better, title=title)
        cells[one.worse, one.better] = Cell(signed(-one.mean), kind=worse, title=title)
    names = [one.name for one in part.contenders]
    columns = (Column("row minus column, points"), *(Column(str(n + 1)) for n in range(len(names))))
    rows = [
        Row((Cell(f"{number} {name}"), *(cells.get((name, other), Cell("")) for other in names)))
        for number, name in enumerate(names, 1)
    ]
    kind = "pairs many" if len(names) > MANY else "pairs"
    return Table("Every pair", columns, tuple(rows), kind=kind)


def _ranks_of_cells(tournament: Tournament) -> Table:
    """The ranks of every method in every cell."""
    names = [Column(name) for name in ("method", "total", "average", "deviation")]
    columns = [*names, *(Column("", cell) for cell in tournament.cells)]
    rows = []
    for one in tournament.standings:
        deviation = "" if one.deviation is None else f"{one.deviation:.2f}"
        cells = [f"{rank:g}" for rank in one.ranks[: len(tournament.cells)]]
        rows.append([one.name, f"{one.total:g}", f"{one.rank:.2f}", deviation, *cells])
    return Table.of_texts("Average ranks", columns, rows, kind="pairs")


def _intervals(one: Difference) -> list[str]:
    """Both intervals and the corrected p of a pair, in words."""
    words = []
    for over, bounds, p in (
        ("trainings", one.over_trainings, one.p_trainings),
        (
            "trainings and classes" if one.trainings > 1 else "classes",
            one.over_classes,
            one.adjusted,
        ),
    ):
        if bounds is not None and p is not None:
            limits = f"{signed(bounds.low)} to {signed(bounds.high)}"
            words.append(f"{limits} over {over} (corrected {p_value(p)})")
    return words
