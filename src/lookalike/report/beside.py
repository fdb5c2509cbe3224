"""Published numbers beside ours: method by method, or our rows inside one paper's table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lookalike import recipes
from lookalike.config import RunConfig, parse
from lookalike.errors import BadInput
from lookalike.report import published
from lookalike.report.published import Published
from lookalike.study.audit import Audit, Experiment, audit
from lookalike.study.conditions import conditions_of
from lookalike.study.contenders import Contender
from lookalike.study.intervals import Interval
from lookalike.study.results import Which

__all__ = ["Beside", "PaperRow", "PaperTable", "method_keys", "paper_table", "published_beside"]


@dataclass(frozen=True)
class Beside:
    """What papers print for a method that we tested, lowest first."""

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


def published_beside(
    dataset: str, contenders: Sequence[Contender], metric: str, which: Which
) -> list[Beside]:
    """For each of our methods that papers have numbers of: those numbers."""
    if dataset not in {row.dataset for row in published.load()}:
        return []
    rows = [
        row
        for row in published.load(dataset=dataset, metric=metric)
        if row.value is not None and row.part == "test"
    ]
    found = []
    for one in contenders:
        ours = one.interval(metric, which)
        if one.baseline or one.config is None or ours is None:
            continue
        keys = method_keys(one.config)
        theirs = [row for row in rows if row.method in keys]
        if theirs:
            theirs.sort(key=lambda row: row.value or 0)
            model = one.config.model
            condition = f"{model.network}, {model.dim or 'all'}-d"
            found.append(Beside(one.name, ours, condition, tuple(theirs)))
    return found


def paper_table(
    paper: str, dataset: str, contenders: Sequence[Contender], which: Which
) -> PaperTable:
    """Our rows in the table that ``paper`` prints of ``dataset``, and the differences."""
    known = sorted({row.dataset for row in published.load(paper)})
    if dataset not in known:
        raise BadInput(f"'{paper}' says nothing about '{dataset}'; it has {', '.join(known)}")
    printed = [row for row in published.load(paper, dataset) if "@" in row.metric]
    printed = [row for row in printed if row.part == "test" and row.value is not None]
    metrics = tuple(dict.fromkeys(row.metric for row in printed))
    rows: list[PaperRow] = []
    experiments: list[Experiment] = []
    for key in dict.fromkeys(map(_identity, printed)):
        of_row = [row for row in printed if _identity(row) == key]
        scores = {row.metric: row.value / 100 for row in of_row if row.value is not None}
        label = _label(of_row[0], printed)
        rows.append(PaperRow(label, of_row[0].network, of_row[0].size, scores, {}, False, ()))
        experiments.append(Experiment(label, _conditions(of_row[0])))
    for one in contenders:
        if one.baseline or one.config is None:
            continue
        label = f"{one.name} (ours)"
        found = {m: s for m in metrics if (s := one.interval(m, which)) is not None}
        halves = {m: (s.high - s.low) / 2 for m, s in found.items()}
        model = one.config.model
        rows.append(
            PaperRow(
                label,
                model.network,
                model.dim or None,
                {m: s.mean for m, s in found.items()},
                {m: half for m, half in halves.items() if half == half},
                True,
                (),
            )
        )
        known_conditions = dict(one.experiment.conditions) | {"data": dataset}
        known_conditions = {k: v for k, v in known_conditions.items() if "." not in k}
        experiments.append(Experiment(label, known_conditions, tuned=one.experiment.tuned))
    found_flaws = audit(experiments)
    marked = tuple(_marked(row, found_flaws) for row in rows)
    title = published.papers()[paper].title
    return PaperTable(paper, title, dataset, metrics, marked, found_flaws)


def _identity(row: Published) -> tuple[str, str, int | None, str, str]:
    return (row.method, row.network, row.size, row.protocol, row.reported_by)


def _label(row: Published, printed: Sequence[Published]) -> str:
    """The paper's own name; with network, size or source where that alone is not enough."""
    alike = {_identity(other) for other in printed if other.label == row.label}
    if len(alike) == 1:
        return row.label
    parts = [row.network, f"{row.size}-d" if row.size else "", row.reported_by, row.protocol]
    differing = [
        part
        for at, part in enumerate(parts)
        if part and len({_details(other)[at] for other in printed if other.label == row.label}) > 1
    ]
    return f"{row.label} ({', '.join(differing)})"


def _details(row: Published) -> tuple[str, ...]:
    return (row.network, f"{row.size}-d" if row.size else "", row.reported_by, row.protocol)


def _conditions(row: Published) -> dict[str, object]:
    """What is known of a published number: its recipe's settings, else what stands beside it.

    What chose the epoch, and how often a paper trained, no recipe can know.
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


def _marked(row: PaperRow, found: Audit) -> PaperRow:
    marks = tuple(
        mark
        for mark in found.marks(row.label)
        if not set(found.rows) <= set(found.flaws[mark - 1].rows)
    )
    return PaperRow(row.label, row.network, row.size, row.scores, row.halves, row.ours, marks)
