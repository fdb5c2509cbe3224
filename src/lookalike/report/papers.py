"""Published numbers and ours: by method, by year, or our rows in one paper's table.

The chart by year follows figure 2 of A Metric Learning Reality Check (Musgrave, Belongie and Lim,
ECCV 2020): what papers report over the years, and what a fair test finds.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lookalike import published
from lookalike.compare.audit import CONDITIONS, Audit, Experiment, audit, listed
from lookalike.compare.conditions import conditions_of
from lookalike.compare.contenders import MethodResult
from lookalike.config import ModelConfig, RunConfig, parse, recipes
from lookalike.errors import BadInput
from lookalike.published import OLD_LOSSES, Published
from lookalike.report.catalogue import catalogue
from lookalike.report.charts import Chart, Style, chart, points, year_axis
from lookalike.report.formatting import NOTHING, metric_label, percent, plus_minus
from lookalike.report.scores import telling_marks
from lookalike.report.tables import Cell, Column, Row, Table
from lookalike.study.intervals import Interval

METRIC = "recall@1"
THEIRS, OURS = "the paper's rows", "our rows"

Identity = tuple[str, str, int | None, str, str]
"""Method, network, size, protocol and source: what distinguishes two printed rows."""


@dataclass(frozen=True)
class PaperTable:
    """One paper's table of one data set with our rows added, and how conditions differ."""

    table: Table
    audit: Audit


def method_keys(config: RunConfig) -> tuple[str, ...]:
    """What published tables call a method: with its mode of mixing, or with ``dr-``.

    >>> method_keys(parse({"loss": {"name": "triplet", "direction": 0.3}}))
    ('dr-triplet',)
    """
    name = config.loss.name
    if config.mix:
        return (f"{name}-{config.mix.where}",)
    if config.loss.arguments.get("direction"):
        return (f"dr-{name}",)
    return (name, f"{name}-baseline")


def published_table(dataset: str, contenders: Sequence[MethodResult]) -> Table | None:
    """What papers report for each of our methods that has numbers, beside ours."""
    if dataset not in {row.dataset for row in published.load()}:
        return None
    printed = published.load(dataset=dataset, metric=METRIC)
    known = [(r.value, r) for r in printed if r.value is not None and r.part == "test"]
    rows = []
    for one in contenders:
        ours = one.interval(METRIC)
        if one.baseline or one.config is None or ours is None:
            continue
        keys = method_keys(one.config)
        theirs = sorted((pair for pair in known if pair[1].method in keys), key=lambda p: p[0])
        if theirs:
            low, high = theirs[0][0], theirs[-1][0]
            span = f"{low:.1f} to {high:.1f}" if high > low else f"{low:.1f}"
            model = one.config.model
            told = tuple(f"{value:.1f}: {_where(row)}" for value, row in theirs)
            count = Cell(f"{len(told)} number{'s' * (len(told) > 1)}", more=told)
            score = Cell(percent(ours.mean), plus_minus(ours))
            where = Cell(f"{model.network}, {model.dim or 'all'}-d")
            rows.append(Row((Cell(one.name), score, where, Cell(span), count)))
    columns = (
        Column("method"),
        Column("ours"),
        Column("our network", words=True),
        Column("published"),
        Column("where", words=True),
    )
    return Table("Method by method", columns, tuple(rows), kind="papers") if rows else None


def _where(row: Published) -> str:
    size = f"{row.size}-d" if row.size else ""
    return ", ".join(filter(None, (row.reported_by or row.paper, row.network, size)))


def check_paper(paper: str, datasets: Sequence[str]) -> None:
    """Refuse a paper that is unknown, or reports nothing about any of ``datasets``."""
    known = sorted({row.dataset for row in published.load(paper)})
    if not set(known) & set(datasets):
        ours = ", ".join(datasets)
        raise BadInput(f"'{paper}' reports nothing about {ours}; it has {', '.join(known)}")


def paper_table(paper: str, dataset: str, contenders: Sequence[MethodResult]) -> PaperTable | None:
    """Our rows in the table that ``paper`` prints of ``dataset``; None if it prints none."""
    if dataset not in {row.dataset for row in published.load(paper)}:
        return None
    printed = [row for row in published.load(paper, dataset) if "@" in row.metric]
    printed = [row for row in printed if row.part == "test" and row.value is not None]
    metrics = tuple(dict.fromkeys(row.metric for row in printed))
    theirs = [_their_row(key, printed, metrics) for key in dict.fromkeys(map(_identity, printed))]
    ours = [
        _our_row(one, one.config.model, metrics, dataset)
        for one in contenders
        if not one.baseline and one.config is not None
    ]
    groups = [*_grouped(theirs, THEIRS), *(mine := _grouped(ours, OURS))]
    found = audit([experiment for experiment, _ in groups])
    for everyone, side in ((THEIRS, groups[: len(groups) - len(mine)]), (OURS, mine)):
        found = _shortened(found, [experiment.name for experiment, _ in side], everyone)
    group_of = {label: experiment.name for experiment, labels in groups for label in labels}
    rows = tuple(
        replace(row, marks=telling_marks(group_of[row.name], found, found.rows))
        for row, _ in (*theirs, *ours)
    )
    columns = [Column("method"), Column("network", words=True), Column("size")]
    columns += [Column("", metric_label(metric), metric) for metric in metrics]
    title = f"{published.papers()[paper].title}: {dataset}"
    return PaperTable(Table(title, tuple(columns), rows, kind="papers"), found)


def _their_row(
    key: Identity, printed: Sequence[Published], metrics: Sequence[str]
) -> tuple[Row, Experiment]:
    of_row = [row for row in printed if _identity(row) == key]
    scores = {row.metric: row.value for row in of_row if row.value is not None}
    first = of_row[0]
    label = _label(first, printed)
    cells = [Cell(f"{scores[m]:.1f}") if m in scores else Cell() for m in metrics]
    row = _table_row(label, first.network, first.size, cells)
    return row, Experiment(label, _conditions(first))


def _our_row(
    one: MethodResult, model: ModelConfig, metrics: Sequence[str], dataset: str
) -> tuple[Row, Experiment]:
    """Our scores, and our conditions as far as a paper can state them too."""
    found = [one.interval(metric) for metric in metrics]
    cells = [Cell(percent(s.mean if s else None), plus_minus(s)) for s in found]
    known = {k: v for k, v in one.experiment.conditions.items() if k in CONDITIONS}
    experiment = replace(one.experiment, conditions=known | {"data": dataset})
    row = _table_row(f"{one.name} (ours)", model.network, model.dim or None, cells)
    return replace(row, kind="ours"), experiment


def _table_row(label: str, network: str, size: int | None, scores: Sequence[Cell]) -> Row:
    return Row((Cell(label), Cell(network or NOTHING), Cell(str(size or NOTHING)), *scores))


def _grouped(
    rows: Sequence[tuple[Row, Experiment]], everyone: str
) -> list[tuple[Experiment, list[str]]]:
    """Rows of equal conditions as one, so that differences can be read."""
    groups: dict[str, tuple[Experiment, list[str]]] = {}
    for row, experiment in rows:
        told = {k: v for k, v in experiment.conditions.items() if k not in experiment.tuned}
        own = (sorted(experiment.tuned), experiment.folds, experiment.outdated)
        key = repr((sorted(told.items(), key=str), own))
        groups.setdefault(key, (experiment, []))[1].append(row.name)
    found = []
    for experiment, labels in groups.values():
        more = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
        name = everyone if len(groups) == 1 else labels[0] + more
        found.append((replace(experiment, name=name), labels))
    return found


def _shortened(found: Audit, names: Sequence[str], everyone: str) -> Audit:
    """Sentences that list one whole side name it instead."""
    if len(names) < 2:
        return found
    texts = [flaw.sentence.replace(listed(names), everyone) for flaw in found.flaws]
    pairs = zip(found.flaws, texts, strict=True)
    return replace(found, flaws=tuple(replace(flaw, sentence=text) for flaw, text in pairs))


def _identity(row: Published) -> Identity:
    return (row.method, row.network, row.size, row.protocol, row.reported_by)


def _label(row: Published, printed: Sequence[Published]) -> str:
    """The paper's own name; with network, size or source where that is not unique."""
    alike = [other for other in printed if other.label == row.label]
    if len(set(map(_identity, alike))) == 1:
        return row.label
    columns = zip(_details(row), *map(_details, alike), strict=True)
    differing = [own for own, *others in columns if own and len(set(others)) > 1]
    return f"{row.label} ({', '.join(differing)})"


def _details(row: Published) -> tuple[str, ...]:
    return (row.network, f"{row.size}-d" if row.size else "", row.reported_by, row.protocol)


def _conditions(row: Published) -> dict[str, object]:
    """What is known about a published number: its recipe's settings, else its own columns.

    A recipe cannot tell what chose the epoch, and how often a paper trained.
    """
    found: dict[str, object] = {}
    if row.recipe and row.recipe in recipes.names():
        settings = conditions_of(parse(recipes.read(f"recipe:{row.recipe}")))
        found = {key: value for key, value in settings.items() if "." not in key}
        found |= {"selection": None, "trials": None, "seeds": None, "protocol": None}
    found["data"] = row.dataset
    found["network"] = row.network or found.get("network")
    found["dim"] = row.size or found.get("dim")
    return {key: value for key, value in found.items() if value is not None}


def reality_charts(
    dataset: str, contenders: Sequence[MethodResult], by_name: Mapping[str, Style]
) -> list[Chart]:
    """What papers report for two old losses over the years, and what a fair test finds."""
    tested: list[tuple[Style, int, Interval]] = []
    years = loss_years()
    for one in contenders:
        score = one.interval(METRIC)
        year = years.get(one.config.loss.name) if one.config else None
        if score is not None and year is not None and not one.baseline:
            tested.append((by_name[one.name], year, score))
    reported = reported_chart(dataset, quoted_only=False)
    if not reported or not tested:
        return []
    told = "%{x}: %{y:.1f}"
    traces = [
        points([year], [100 * s.mean], style, half=[s.half and 100 * s.half], hover=told)
        for style, year, s in tested
    ]
    title = "What a fair test finds"
    legend = [style for style, _, _ in tested]
    across = year_axis(year for _, year, _ in tested)
    x = "year of the paper"
    return side_by_side([reported, chart(title, traces, x=x, xaxis=across, legend=legend)])


def reported_chart(dataset: str, *, quoted_only: bool) -> Chart | None:
    """What papers report for the contrastive and the triplet loss, by their year.

    ``quoted_only``: only what the Reality Check quotes of other papers, without their own tables.
    """
    traces, legend = [], []
    years: list[int] = []
    for at, loss in enumerate(OLD_LOSSES):
        rows = [
            (row.year or published.papers()[row.paper].year, row.value, _source(row))
            for row in published.load(metric=METRIC)
            if row.value is not None and (row.dataset, row.part) == (dataset, "test")
            and row.method.removesuffix("-baseline") == loss
            and (not quoted_only or (row.method == loss and row.reported_by and row.year))
        ]  # fmt: skip
        if rows:
            x, y, texts = zip(*rows, strict=True)
            style = Style(loss, at)
            traces.append(points(x, y, style, texts=texts, hover="%{x}: %{y:.1f}"))
            legend.append(style)
            years += x
    if not traces:
        return None
    title = f"What papers report for two old losses on {dataset}"
    note = "Networks, sizes and tuning differ, not the loss."
    across = year_axis(years)
    return chart(title, traces, x="year of the paper", xaxis=across, legend=legend, note=note)


def side_by_side(shown: Sequence[Chart]) -> list[Chart]:
    """Charts of scores whose vertical axes show the same span, so that they can be compared."""
    edges = []
    for trace in (trace for one in shown for trace in one.figure.data):
        above = trace.error_y.array if trace.error_y.array is not None else [0] * len(trace.y)
        below = trace.error_y.arrayminus if trace.error_y.array is not None else above
        for y, up, down in zip(trace.y, above, below, strict=True):
            edges += [] if y is None else [y + up, y - down]
    room = 0.05 * (max(edges) - min(edges)) + 0.5
    span = [max(0, min(edges) - room), min(100, max(edges) + room)]
    for one in shown:
        one.figure.update_yaxes(range=span)
    return list(shown)


def _source(row: Published) -> str:
    if row.reported_by:
        return row.reported_by
    shown = ", ".join(filter(None, _details(row)[:2]))
    return published.papers()[row.paper].title + (f" ({shown})" if shown else "")


def loss_years() -> dict[str, int]:
    """When each loss was published, where its page says so."""
    found = {row.name: re.findall(r"\b(?:19|20)\d\d\b", row.paper) for row in catalogue("losses")}
    return {name: int(years[0]) for name, years in found.items() if years}
