"""Lists of the documents that need no training, as tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lookalike import published
from lookalike.errors import BadInput, did_you_mean
from lookalike.published import claimed_gains, hyperparameters, literature, unfair_comparisons

__all__ = ["ListTable", "list_names", "list_table"]

DATASETS = ("cub", "cars", "sop")
SHORT = 30
"""A text of more characters may be broken into lines."""


@dataclass(frozen=True)
class ListTable:
    """A table of text; an empty cell is something that the document does not say."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def prose(self) -> tuple[bool, ...]:
        """Which columns have sentences or titles."""
        return tuple(max(map(len, texts)) > SHORT for texts in zip(*self.rows, strict=True))

    @property
    def mappings(self) -> list[dict[str, str]]:
        """Each row by column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def list_table(name: str) -> ListTable:
    """The table of a list.

    Args:
        name: One of :func:`list_names`.

    Returns:
        The table.

    Raises:
        BadInput: There is no such list.

    >>> len(list_table("transforms").rows)
    18
    """
    if name not in LISTS:
        raise BadInput(f"there is no list '{name}'; {did_you_mean(name, LISTS)}")
    return LISTS[name]()


def list_names() -> list[str]:
    """The names of all lists.

    Returns:
        Names, sorted.
    """
    return sorted(LISTS)


def _transforms() -> ListTable:
    rows = [(p.title, p.venue, str(p.year)) for p in literature() if p.simple_crop]
    return ListTable(("paper", "venue", "year"), tuple(rows))


def _optimizers() -> ListTable:
    order = ("SGD", "RMSprop", "Adam", "AdamW")
    rows = [
        (name, p.title, p.venue, str(p.year))
        for name in order
        for p in literature()
        if p.optimizer == name
    ]
    return ListTable(("optimizer", "paper", "venue", "year"), tuple(rows))


def _unfair(category: str) -> ListTable:
    rows = [(o.title, o.detail, o.url) for o in unfair_comparisons() if o.category == category]
    return ListTable(("paper", "what the page says", "code"), tuple(rows))


def _reported(method: str) -> ListTable:
    printed = [row for row in published.load("reality-check") if row.method == method]
    values = {(row.reported_by, row.dataset): row.value for row in printed}
    years = {row.reported_by: str(row.year) for row in printed}
    rows = [
        (title, year, *(_text(values.get((title, dataset))) for dataset in DATASETS))
        for title, year in years.items()
    ]
    return ListTable(("paper", "year", *DATASETS), tuple(rows))


def _gains() -> ListTable:
    rows = [
        (
            g.title,
            str(g.year),
            g.dataset,
            g.method,
            _text(g.own),
            g.over,
            _text(g.baseline),
            _text(g.gain),
        )
        for g in claimed_gains()
    ]
    columns = ("paper", "year", "data", "method", "own", "over", "reported for it", "gain")
    return ListTable(columns, tuple(rows))


def _reality_check() -> ListTable:
    settings = ("cub", "cars", "sop", "cub-256")
    found: dict[tuple[str, str], dict[str, str]] = {}
    for row in hyperparameters():
        if row.paper == "reality-check":
            place = "cub-256" if row.batch == 256 else row.dataset
            found.setdefault((row.label, row.parameter), {})[place] = row.value
    rows = [(*key, *(values.get(s, "") for s in settings)) for key, values in found.items()]
    return ListTable(("method", "parameter", *settings), tuple(rows))


def _thesis(parameters: Sequence[str], wanted: bool) -> ListTable:
    rows = [
        (r.label, r.dataset, r.parameter, r.value)
        for r in hyperparameters()
        if r.paper == "thesis" and (r.parameter in parameters) == wanted and r.low is None
    ]
    return ListTable(("loss or network", "data", "parameter", "value"), tuple(rows))


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


OF_PAPERS = ("network", "embedding size")
LISTS: dict[str, Callable[[], ListTable]] = {
    "transforms": _transforms,
    "optimizers": _optimizers,
    "claimed-gains": _gains,
    "reported-contrastive": lambda: _reported("contrastive"),
    "reported-triplet": lambda: _reported("triplet"),
    "unfair-architecture": lambda: _unfair("architecture"),
    "unfair-dimensionality": lambda: _unfair("dimensionality"),
    "unfair-crop-method": lambda: _unfair("crop-method"),
    "unfair-crop-size": lambda: _unfair("crop-size"),
    "unfair-omitted-details": lambda: _unfair("omitted-details"),
    "reality-check-hyperparameters": _reality_check,
    "thesis-networks": lambda: _thesis(OF_PAPERS, True),
    "thesis-hyperparameters": lambda: _thesis(OF_PAPERS, False),
}
