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
from lookalike.published import Published
from lookalike.report.catalogue import catalogue
from lookalike.report.tables import telling_marks
from lookalike.study.intervals import Interval

METRIC = "recall@1"
OLD_LOSSES = ("contrastive", "triplet")
"""What every paper compares with, so that its numbers can be followed over the years."""

THEIRS, OURS = "the paper's rows", "our rows"

Identity = tuple[str, str, int | None, str, str]
"""Method, network, size, protocol and source: what distinguishes two printed rows."""


@dataclass(frozen=True)
class PublishedScores:
    """What papers report for a method that we tested, lowest first."""

    name: str
    ours: Interval
    condition: str
    """Our network and size."""
    published: tuple[Published, ...]

    @property
    def low(self) -> float:
        """The lowest published number, in per cent."""
        return min(row.value for row in self.published if row.value is not None)

    @property
    def high(self) -> float:
        """The highest published number, in per cent."""
        return max(row.value for row in self.published if row.value is not None)


@dataclass(frozen=True)
class PaperRow:
    """A row of a paper's table, or one of ours in it."""

    label: str
    network: str
    size: int | None
    scores: Mapping[str, float]
    halves: Mapping[str, float]
    ours: bool
    marks: tuple[int, ...]


@dataclass(frozen=True)
class PaperTable:
    """One paper's table of one data set with our rows added, and how conditions differ."""

    paper: str
    title: str
    dataset: str
    metrics: tuple[str, ...]
    rows: tuple[PaperRow, ...]
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


def published_scores(dataset: str, contenders: Sequence[MethodResult]) -> list[PublishedScores]:
    """The published numbers of each of our methods that has some."""
    if dataset not in {row.dataset for row in published.load()}:
        return []
    printed = published.load(dataset=dataset, metric=METRIC)
    rows = [row for row in printed if row.value is not None and row.part == "test"]
    found = []
    for one in contenders:
        ours = one.interval(METRIC)
        if one.baseline or one.config is None or ours is None:
            continue
        keys = method_keys(one.config)
        theirs = [row for row in rows if row.method in keys]
        if theirs:
            theirs.sort(key=lambda row: row.value or 0)
            model = one.config.model
            condition = f"{model.network}, {model.dim or 'all'}-d"
            found.append(PublishedScores(one.name, ours, condition, tuple(theirs)))
    return found


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
    theirs = [_their_row(key, printed) for key in dict.fromkeys(map(_identity, printed))]
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
        replace(row, marks=telling_marks(group_of[row.label], found, found.rows))
        for row, _ in (*theirs, *ours)
    )
    return PaperTable(paper, published.papers()[paper].title, dataset, metrics, rows, found)


def _their_row(key: Identity, printed: Sequence[Published]) -> tuple[PaperRow, Experiment]:
    of_row = [row for row in printed if _identity(row) == key]
    scores = {row.metric: row.value / 100 for row in of_row if row.value is not None}
    first = of_row[0]
    label = _label(first, printed)
    row = PaperRow(label, first.network, first.size, scores, {}, False, ())
    return row, Experiment(label, _conditions(first))


def _our_row(
    one: MethodResult, model: ModelConfig, metrics: Sequence[str], dataset: str
) -> tuple[PaperRow, Experiment]:
    """Our scores, and our conditions as far as a paper can state them too."""
    found = {m: score for m in metrics if (score := one.interval(m)) is not None}
    scores = {m: score.mean for m, score in found.items()}
    halves = {m: half for m, score in found.items() if (half := score.half) is not None}
    label, size = f"{one.name} (ours)", model.dim or None
    known = {k: v for k, v in one.experiment.conditions.items() if k in CONDITIONS}
    experiment = replace(one.experiment, conditions=known | {"data": dataset})
    return PaperRow(label, model.network, size, scores, halves, True, ()), experiment


def _grouped(
    rows: Sequence[tuple[PaperRow, Experiment]], everyone: str
) -> list[tuple[Experiment, list[str]]]:
    """Rows of equal conditions as one, so that differences can be read."""
    groups: dict[str, tuple[Experiment, list[str]]] = {}
    for row, experiment in rows:
        told = {k: v for k, v in experiment.conditions.items() if k not in experiment.tuned}
        own = (sorted(experiment.tuned), experiment.folds, experiment.outdated)
        key = repr((sorted(told.items(), key=str), own))
        groups.setdefault(key, (experiment, []))[1].append(row.label)
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


@dataclass(frozen=True)
class Reported:
    """What one paper reports for an old loss."""

    method: str
    year: int
    score: float
    paper: str


@dataclass(frozen=True)
class Tested:
    """What we find for a method, at the year of its paper."""

    name: str
    year: int
    score: float
    half: float | None


@dataclass(frozen=True)
class Reality:
    """The two sides of the chart, scores between 0 and 1."""

    reported: list[Reported]
    tested: list[Tested]


def papers_and_reality(dataset: str, contenders: Sequence[MethodResult]) -> Reality | None:
    """None where papers report nothing about the data set, or we have no test of it."""
    reported = [
        Reported(
            row.method.removesuffix("-baseline"),
            row.year or published.papers()[row.paper].year,
            row.value / 100,
            _source(row),
        )
        for row in published.load(metric=METRIC)
        if row.dataset == dataset and row.value is not None and row.part == "test"
        if row.method.removesuffix("-baseline") in OLD_LOSSES
    ]
    years = _years()
    tested = []
    for one in contenders:
        score = one.interval(METRIC)
        year = years.get(one.config.loss.name) if one.config else None
        if score is not None and year is not None and not one.baseline:
            tested.append(Tested(one.name, year, score.mean, score.half))
    return Reality(reported, tested) if reported and tested else None


def _source(row: Published) -> str:
    if row.reported_by:
        return row.reported_by
    shown = ", ".join(filter(None, _details(row)[:2]))
    return published.papers()[row.paper].title + (f" ({shown})" if shown else "")


def _years() -> dict[str, int]:
    """When each loss was published, where its page says so."""
    found = {row.name: re.findall(r"\b(?:19|20)\d\d\b", row.paper) for row in catalogue("losses")}
    return {name: int(years[0]) for name, years in found.items() if years}
