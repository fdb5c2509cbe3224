"""One HTML file about runs and studies that fetches nothing, and table files beside it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from lookalike.compare import comparison
from lookalike.compare.comparison import Comparison, OnDataset, compare
from lookalike.compare.contenders import ResultSet
from lookalike.compare.uncertainty import Difference
from lookalike.errors import BadInput
from lookalike.files import write_texts
from lookalike.report import charts, papers
from lookalike.report.again import again
from lookalike.report.critical_difference import critical_difference_diagram
from lookalike.report.descriptions import protocols
from lookalike.report.differences import DifferenceRow, difference_figure, difference_rows
from lookalike.report.embeddings import EmbeddingViews, embedding_views
from lookalike.report.formatting import (
    data_link,
    metric_label,
    p_value,
    signed,
    template,
    template_text,
)
from lookalike.report.power import power_figure
from lookalike.report.tables import ScoreTable, as_csv, as_latex, as_markdown, score_table
from lookalike.report.tuning import Tuning, tunings

CLASS_COLOURS = 9
DOWNLOADS = {"CSV": "text/csv", "Markdown": "text/markdown", "LaTeX": "application/x-tex"}
SCRIPTS = ("base", "curves", "charts", "reality", "tuning", "gallery", "map", "theme")


@dataclass(frozen=True)
class Block:
    """What the page shows for one data set; empty parts are left out."""

    part: OnDataset
    metric: str
    table: ScoreTable
    joined: ScoreTable | None
    protocol: list[str]
    published: list[papers.PublishedScores]
    paper: papers.PaperTable | None
    reality: papers.Reality | None
    curves: list[charts.Curve]
    validation: str
    tunings: list[Tuning]
    recall: list[charts.RecallCurve]
    scatters: list[charts.Scatter]
    views: EmbeddingViews | None

    @property
    def pairs(self) -> dict[tuple[str, str], dict[str, str]]:
        """Row minus column, both ways, for the table of pairs."""
        kinds = {
            "other classes": ("better", "worse"),
            "these classes": ("higher", "lower"),
            "these trainings": ("higher", "lower"),
            "open": ("open", "open"),
        }
        found = {}
        for one in self.part.differences:
            better, worse = kinds[one.scope]
            title = f"{one.better} minus {one.worse}: {', '.join(_intervals(one))}"
            shown = {"shown": signed(one.mean), "title": title, "kind": better}
            found[one.better, one.worse] = shown
            found[one.worse, one.better] = shown | {"shown": signed(-one.mean), "kind": worse}
        return found

    @property
    def rows_to_best(self) -> list[DifferenceRow]:
        """Every other method minus the best."""
        return difference_rows(self.part)

    @property
    def figures(self) -> dict[str, Markup]:
        """The figures of differences to the best and of power, wide and narrow."""
        if not self.part.to_best:
            return {}
        made = {
            "broad": difference_figure(self.part, self.metric),
            "narrow": difference_figure(self.part, self.metric, narrow=True),
            "power-broad": power_figure(self.part, self.metric),
            "power-narrow": power_figure(self.part, self.metric, narrow=True),
        }
        return {name: Markup(svg) for name, svg in made.items() if svg}

    @property
    def sources(self) -> dict[str, list[str]]:
        """Which methods come from which run or study."""
        found: dict[str, list[str]] = {}
        for row in self.table.rows:
            found.setdefault(row.run, []).append(row.name)
        return found

    def for_script(self) -> dict[str, Any]:
        """What the charts need."""
        lists = ("curves", "tunings", "recall", "scatters")
        return {name: [asdict(one) for one in getattr(self, name)] for name in lists} | {
            "reality": asdict(self.reality) if self.reality else None,
            "map": self.views.map | {"names": self.views.names} if self.views else None,
            "tiny": self.views.tiny if self.views else False,
        }


def write_page(
    path: Path,
    gathered: ResultSet,
    title: str,
    lead: str,
    *,
    commands: Sequence[str] = (),
    metric: str | None = None,
    anyway: bool = False,
    paper: str | None = None,
    summary: Markup | None = None,
    css: str = "",
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
        anyway: Rank rows that differ beyond the method, and say so.
        paper: A paper in whose table our rows are shown too.
        summary: A section before the scores.
        css: Its style sheet.
        seed: Of the map.

    Returns:
        All files, the page first.

    Raises:
        BadInput: The path, metric or paper is invalid.
    """
    if path.suffix != ".html":
        raise BadInput(f"'{path}' must end in .html")
    if paper:
        papers.check_paper(paper, gathered.datasets)
    metric = metric or comparison.chosen_metric(gathered)
    found = compare(gathered, metric, allow_unfair=anyway)
    joined = None
    if any(one.concatenated for one in gathered.contenders):
        joined = compare(gathered, metric, "concatenated", allow_unfair=anyway)
    blocks = [_block(part, found, joined, gathered, paper, seed) for part in found.datasets]
    tables = [block.table for block in blocks]
    texts = {".csv": as_csv(tables), ".md": as_markdown(tables), ".tex": as_latex(tables)}
    if found.tournament and not found.tournament.cells:
        texts[".svg"] = critical_difference_diagram(found.tournament, alone=True)
    for number, part in enumerate(found.datasets, 1):
        if part.to_best:
            suffix = f".differences-{number}.svg" if len(blocks) > 1 else ".differences.svg"
            texts[suffix] = difference_figure(part, found.metric, alone=True)
    texts = {
        ".html": _page(title, lead, commands, found, blocks, gathered, texts, summary, css)
    } | texts
    return write_texts(path, texts)


def _block(
    part: OnDataset,
    found: Comparison,
    joined: Comparison | None,
    gathered: ResultSet,
    paper: str | None,
    seed: int,
) -> Block:
    rows = part.contenders
    named = comparison.ranking_metrics(gathered)
    metrics = [metric for metric in named if all(metric in one.metrics for one in rows)]
    metrics.sort(key=lambda metric: metric != found.metric)  # what ranks is seen on a phone too
    other = None
    if joined is not None and any(one.concatenated for one in rows):
        same = next(one for one in joined.datasets if one.label == part.label)
        other = score_table(same, metrics, "concatenated")
    views = embedding_views(rows, seed)
    structure = views.structure if views else {}
    return Block(
        part=part,
        metric=found.metric,
        table=score_table(part, metrics),
        joined=other,
        protocol=protocols(rows),
        published=papers.published_scores(part.dataset, rows),
        paper=papers.paper_table(paper, part.dataset, rows) if paper else None,
        reality=papers.papers_and_reality(part.dataset, rows),
        curves=charts.curves(rows),
        validation=metric_label(charts.validation_metric(rows)),
        tunings=tunings(rows),
        recall=charts.recall_curves(rows),
        scatters=charts.scatters(rows, found.metric, structure),
        views=views,
    )


def _page(
    title: str,
    lead: str,
    commands: Sequence[str],
    found: Comparison,
    blocks: Sequence[Block],
    gathered: ResultSet,
    texts: dict[str, str],
    summary: Markup | None,
    css: str,
) -> str:
    methods = [asdict(method) for method in charts.method_styles(gathered.contenders)]
    diagram = None
    if found.tournament and not found.tournament.cells:
        diagram = critical_difference_diagram(found.tournament)
    repeated = again(gathered, commands)
    page: str = template("page.html.j2").render(
        title=title,
        lead=lead,
        summary=summary,
        metric=found.metric,
        blocks=blocks,
        tournament=found.tournament,
        diagram=Markup(diagram) if diagram else None,
        methods=methods,
        by_name={method["name"]: method for method in methods},
        downloads=[
            (name, f"scores{suffix}", data_link(kind, texts[suffix]))
            for (name, kind), suffix in zip(DOWNLOADS.items(), (".csv", ".md", ".tex"), strict=True)
        ],
        skipped=gathered.skipped,
        commands=repeated.commands,
        files={name: data_link("application/yaml", text) for name, text in repeated.files.items()},
        software=repeated.software,
        environments=_environments(gathered),
        script_data={
            "methods": methods,
            "metric": metric_label(found.metric),
            "classColours": CLASS_COLOURS,
            "blocks": [block.for_script() for block in blocks],
        },
        plotly=Markup(get_plotlyjs()),
        css=Markup(template_text("page.css") + css),
        script=Markup("\n".join(template_text(f"script/{name}.js") for name in SCRIPTS)),
    )
    return page


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


def _environments(gathered: ResultSet) -> list[str]:
    """Versions and commit of the runs, each combination once."""
    lines = []
    for one in gathered.contenders:
        for run in one.runs:
            found = run.environment
            parts = [f"Python {found['python']}"] if "python" in found else []
            versions = found.get("versions")
            if isinstance(versions, dict):
                parts += [f"{name} {version}" for name, version in versions.items()]
            if found.get("commit"):
                parts.append(f"commit {str(found['commit'])[:12]}")
            lines.append(", ".join(parts))
    return [line for line in dict.fromkeys(lines) if line]
