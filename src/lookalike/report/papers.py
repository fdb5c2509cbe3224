"""Published numbers and ours: by method, by year, or our rows in one paper's table.

The chart by year follows figure 2 of A Metric Learning Reality Check (Musgrave, Belongie and Lim,
ECCV 2020): what papers report over the years, and what a fair test finds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lookalike import published
from lookalike.compare.audit import CONDITIONS, Audit, Experiment, audit
from lookalike.compare.conditions import conditions_of
from lookalike.compare.contenders import MethodResult
from lookalike.config import RunConfig, parse, recipes
from lookalike.errors import BadInput
from lookalike.published import OLD_LOSSES, Published, year_in
from lookalike.report.catalogue import catalogue
from lookalike.report.charts import Chart, Point, Style, chart, year_axis
from lookalike.report.formatting import NOTHING, metric_label, percent, plus_minus
from lookalike.report.method_charts import percents
from lookalike.report.scores import telling_marks
from lookalike.report.tables import Cell, Column, Row, Table

METRIC = "recall@1"
THEIRS, OURS = "the paper's rows", "our rows"


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
    rows: list[Row] = []
    sides: dict[str, list[Experiment]] = {THEIRS: [], OURS: []}
    for of_row in _by_method(printed).values():
        first, values = of_row[0], {row.metric: row.value for row in of_row}
        experiment = Experiment(_label(first, printed), _conditions(first))
        scores = [Cell(NOTHING if m not in values else f"{values[m]:.1f}") for m in metrics]
        rows.append(_row(experiment.name, first.network, first.size, scores))
        sides[THEIRS].append(experiment)
    for one in contenders:
        if one.baseline or one.config is None:
            continue
        # our conditions as far as a paper can state them too
        known = {k: v for k, v in one.experiment.conditions.items() if k in CONDITIONS}
        known |= {"data": dataset}
        experiment = replace(one.experiment, name=f"{one.name} (ours)", conditions=known)
        found = [one.interval(metric) for metric in metrics]
        scores = [Cell(percent(s.mean if s else None), plus_minus(s)) for s in found]
        model = one.config.model
        row = _row(experiment.name, model.network, model.dim, scores)
        rows.append(replace(row, kind="ours"))
        sides[OURS].append(experiment)
    groups = [group for side, own in sides.items() for group in _grouped(own, side)]
    audited = audit([experiment for experiment, _ in groups])
    group_of = {name: experiment.name for experiment, names in groups for name in names}
    marked = tuple(
        replace(row, marks=telling_marks(group_of[row.name], audited, audited.rows)) for row in rows
    )
    columns = [Column("method"), Column("network", words=True), Column("size")]
    columns += [Column("", metric_label(metric), metric) for metric in metrics]
    title = f"{published.papers()[paper].title}: {dataset}"
    return PaperTable(Table(title, tuple(columns), marked, kind="papers"), audited)


def _row(name: str, network: str, size: int | None, scores: Sequence[Cell]) -> Row:
    return Row((Cell(name), Cell(network or NOTHING), Cell(str(size or NOTHING)), *scores))


def _grouped(
    experiments: Sequence[Experiment], everyone: str
) -> list[tuple[Experiment, list[str]]]:
    """Experiments of equal conditions as one, so that differences can be read."""
    groups: dict[str, list[Experiment]] = {}
    for one in experiments:
        fixed = {key: value for key, value in one.conditions.items() if key not in one.tuned}
        key = (sorted(fixed.items(), key=str), sorted(one.tuned), one.folds, one.outdated)
        groups.setdefault(repr(key), []).append(one)
    found = []
    for same in groups.values():
        names = [one.name for one in same]
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        name = everyone if len(groups) == 1 else names[0] + more
        found.append((replace(same[0], name=name), names))
    return found


def _by_method(printed: Sequence[Published]) -> dict[tuple[str, ...], list[Published]]:
    """The numbers of each row that a paper prints: of a method, in one of several settings."""
    found: dict[tuple[str, ...], list[Published]] = {}
    for row in printed:
        found.setdefault((row.method, *_details(row)), []).append(row)
    return found


def _label(row: Published, printed: Sequence[Published]) -> str:
    """The paper's own name; with network, size, source and protocol where that is not unique."""
    details = {_details(other) for other in printed if other.label == row.label}
    if len(details) == 1:
        return row.label
    own = [mine for mine, *all_ in zip(_details(row), *details, strict=True) if len(set(all_)) > 1]
    return f"{row.label} ({', '.join(filter(None, own))})"


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
    dataset: str, contenders: Sequence[MethodResult], styles_of: Mapping[str, Style]
) -> list[Chart]:
    """What papers report for two old losses over the years, and what a fair test finds."""
    tested = []
    years = {row.name: year_in(row.paper) for row in catalogue("losses")}
    for one in contenders:
        score = one.interval(METRIC)
        year = years.get(one.config.loss.name) if one.config else None
        if score is not None and year is not None and not one.baseline:
            tested.append(Point(one.name, year, *percents(score)))
    reported = reported_chart(dataset, quoted_only=False)
    if not reported or not tested:
        return []
    found = chart(
        "dots",
        "What a fair test finds",
        tested,
        x="year of the paper",
        xaxis=year_axis(tested),
        styles_of=styles_of,
        hover="%{x}: %{y:.1f}",
    )
    return side_by_side([reported, found])


def reported_chart(dataset: str, *, quoted_only: bool) -> Chart | None:
    """What papers report for the contrastive and the triplet loss, by their year.

    ``quoted_only``: only what the Reality Check quotes of other papers, without their own tables.
    """
    points = [
        Point(loss, row.year or published.papers()[row.paper].year, row.value, text=_source(row))
        for loss in OLD_LOSSES
        for row in published.load(metric=METRIC)
        if row.value is not None and (row.dataset, row.part) == (dataset, "test")
        and row.method.removesuffix("-baseline") == loss
        and (not quoted_only or (row.method == loss and row.reported_by and row.year))
    ]  # fmt: skip
    if not points:
        return None
    return chart(
        "dots",
        f"What papers report for two old losses on {dataset}",
        points,
        x="year of the paper",
        xaxis=year_axis(points),
        note="Networks, sizes and tuning differ, not the loss.",
        hover="%{x}: %{y:.1f}",
    )


def side_by_side(shown: Sequence[Chart]) -> list[Chart]:
    """Charts of scores whose vertical axes show the same span, so that they can be compared."""
    edges: list[float] = []
    for trace in (trace for one in shown for trace in one.figure.data):
        spread = [trace.error_y.array or [0] * len(trace.y), trace.error_y.arrayminus]
        for y, up, down in zip(trace.y, spread[0], spread[1] or spread[0], strict=True):
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
