"""The figures of a reproduction's page: which charts, drawings and pictures each kind has."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from lookalike.config import RunConfig
from lookalike.errors import LookalikeError
from lookalike.papers import charts, claimed
from lookalike.papers.catalogue import Figure
from lookalike.papers.charts import Chart
from lookalike.papers.heat import HeatMap, heat_maps
from lookalike.papers.outcome import Outcome, OutcomeRow
from lookalike.papers.proxies import Drawing, proxy_drawings
from lookalike.papers.retrieval import Beside, beside
from lookalike.papers.selection import quoted
from lookalike.papers.space import distance_charts
from lookalike.published import Published
from lookalike.report.charts import Method
from lookalike.report.embeddings import EmbeddingViews, embedding_views
from lookalike.report.formatting import NOTHING
from lookalike.report.tuning import Tuning, tunings
from lookalike.runs.run import test_embeddings

__all__ = ["Part", "part_of"]

NO_IMAGES = "its runs were not kept, or have no test embeddings."


Ranks = tuple[str, ...]
"""Total, mean and deviation."""


@dataclass(frozen=True)
class RankRow:
    """A method's ranks over all cells: total, mean and deviation, ours and the document's."""

    method: str
    ours: Ranks
    published: Ranks


@dataclass(frozen=True)
class Part:
    """One figure of the page; empty parts are left out."""

    id: str
    title: str
    intro: str = ""
    charts: list[Chart] = field(default_factory=list)
    heat: list[HeatMap] = field(default_factory=list)
    drawings: list[Drawing] = field(default_factory=list)
    beside: Beside | None = None
    views: EmbeddingViews | None = None
    tunings: list[Tuning] = field(default_factory=list)
    ranks: list[RankRow] = field(default_factory=list)
    missing: str = ""
    """Why there is nothing to see."""

    @property
    def legend(self) -> list[Method]:
        """The legend that all charts share; empty where each has its own."""
        legends = [chart.legend for chart in self.charts]
        return legends[0] if len(legends) > 1 and all(one == legends[0] for one in legends) else []

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to see, nor a reason to tell."""
        shown = (self.charts, self.heat, self.drawings, self.beside, self.views, self.tunings)
        return not any(shown) and not self.missing


def part_of(figure: Figure, outcome: Outcome, seed: int = 0) -> Part:
    """The part of the page that shows a figure.

    Args:
        figure: The figure of the catalogue.
        outcome: What came out of the reproduction.
        seed: Of the map and of mixed pairs.

    Returns:
        Its charts, drawings or pictures; empty where nothing can be drawn.
    """
    rows, metrics = outcome.rows, figure.metrics
    match figure.kind:
        case "lines":
            found = [c for m in metrics for c in charts.by_axis(rows, figure.x, figure.line, m)]
            by = f"By {figure.x}" if figure.line == "method" else f"By {figure.x} and {figure.line}"
            return Part("lines", by, charts=found)
        case "years":
            found = [chart for metric in metrics for chart in charts.by_year(rows, metric)]
            intro = (
                "Each method at the year of its paper: progress would go to the right, row by row."
            )
            return Part("years", "By year", intro, found)
        case "tournament":
            ranks = [charts.ranks(rows, quoted(outcome.entry), metric) for metric in metrics]
            intro = (
                "In every cell, that is at each combination of the axes, methods are ranked by "
                "their mean score."
            )
            places = _rank_rows(rows, quoted(outcome.entry), metrics[0])
            shown = [one for one in ranks if one]
            return Part("tournament", "Tournament", intro, shown, ranks=places)
        case "tuning":
            heat = [one for row in rows for one in heat_maps(row)]
            intro = "What the search tried and found on validation classes."
            return Part(
                "search",
                "Search",
                intro,
                heat=heat,
                tunings=tunings([row.contender for row in rows]),
            )
        case "reality":
            return _reality(rows, metrics)
        case "correlation":
            intro = (
                "Every point is one training. The interval of a correlation resamples rows, as "
                "trainings of one row are alike."
            )
            found = charts.correlations(rows, metrics)
            return Part("correlation", "Score against structure", intro, found)
        case "pairs":
            pairs = [pair for claim in outcome.entry.claims for pair in claim.better]
            found = [c for metric in metrics for c in charts.in_pairs(rows, pairs, metric)]
            return Part("pairs", "With and without", charts=found)
        case "projection":
            views = embedding_views([row.contender for row in rows], seed)
            missing = "" if views else NO_IMAGES
            intro = "The test images of the first run of each row: a map, and what queries find."
            return Part("projection", "Embedding space", intro, views=views, missing=missing)
        case "proxies":
            intro = (
                "Squares are proxies, dots are samples, colours are classes, of one "
                "two-dimensional batch under each loss with the settings of its row. A green edge "
                "pulls together, a dashed red one pushes apart; its width shows the gradient of "
                "the loss by the similarity of the two (its square root, relative to the strongest "
                "edge of the colour)."
            )
            return Part(
                "proxies", "Proxies and samples", intro, drawings=proxy_drawings(outcome.drawn)
            )
        case "distances":
            return _distances(rows, seed)
        case "retrieval":
            return _retrieval(rows)


def _reality(rows: Sequence[OutcomeRow], metrics: Sequence[str]) -> Part:
    intro = (
        "Left, what papers report for two old losses; right, what this test finds for each method, "
        "at the year of its paper; below, what papers claim to gain. All have the same vertical "
        "axis."
    )
    tested = [chart for metric in metrics if (chart := charts.tested_by_year(rows, metric))]
    found: list[Chart] = []
    for dataset in sorted({_paper_config(row).data.name for row in rows}):
        told = (claimed.reported_by_year(dataset), *tested, claimed.claims_by_year(dataset))
        found += [chart for chart in told if chart and chart not in found]
    return Part("reality", "Papers versus reality", intro, charts.side_by_side(found))


def _rank_rows(
    rows: Sequence[OutcomeRow], printed: Sequence[Published], metric: str
) -> list[RankRow]:
    """The tournament as a table, best first."""
    known = {(row.method, row.metric): row.value for row in printed}
    found = []
    for one in charts.ranking(rows, metric):
        theirs = [known.get((one.name, f"rank-{what}")) for what in ("total", "mean", "std")]
        found.append(RankRow(one.name, _ranks(one.total, one.rank, one.deviation), _ranks(*theirs)))
    return found


def _ranks(total: float | None, mean: float | None, deviation: float | None) -> Ranks:
    first = NOTHING if total is None else f"{total:g}"
    rest = (NOTHING if value is None else f"{value:.2f}" for value in (mean, deviation))
    return (first, *rest)


def _paper_config(row: OutcomeRow) -> RunConfig:
    """The configuration of the paper, also at small scale."""
    return row.planned.as_published or row.planned.config


def _distances(rows: Sequence[OutcomeRow], seed: int) -> Part:
    intro = (
        "Euclidean distances of unit embeddings of test images. Clean: all pairs. Mixed: an image "
        "and a random mix of two embeddings that contains its class, counted as positive by the "
        "share of the class, as negative by the rest."
    )
    found = []
    for row in rows:
        for run in row.contender.runs[:1]:
            found += distance_charts(row.label, test_embeddings(run), seed)
    return Part("distances", "Distances", intro, found, missing="" if found else NO_IMAGES)


def _retrieval(rows: Sequence[OutcomeRow]) -> Part:
    title = "Retrieval beside each other"
    tested = [(row.label, run) for row in rows for run in row.contender.runs[:1]]
    if len(tested) < 2:
        return Part("retrieval", title, missing=NO_IMAGES)
    (name, run), (other, second) = tested[:2]
    both = (test_embeddings(run), test_embeddings(second))
    try:
        found = beside((name, other), *both, run.config)
    except LookalikeError as error:
        return Part("retrieval", title, missing=f"{error}.")
    return Part("retrieval", title, beside=found)
