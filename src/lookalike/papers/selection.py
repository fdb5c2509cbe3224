"""From an entry of the catalogue to its rows: recipes as run configurations, published numbers."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from lookalike import data, published
from lookalike.config import RunConfig, parse
from lookalike.config.loading import override, set_keys
from lookalike.errors import BadInput, did_you_mean
from lookalike.losses.tuned import SHOWN
from lookalike.papers.catalogue import Entry
from lookalike.papers.cells import FILE_ONLY, Cell, cells, folds_of, recipe_config
from lookalike.papers.scale import Laptop, Scale, laptop_for, small
from lookalike.published import Hyperparameter, Published, hyperparameters
from lookalike.registry import LOSSES
from lookalike.study.tuning import SearchSpace
from lookalike.training.runner import check

__all__ = ["Row", "check_data", "heading", "printed_rows", "quoted", "rows"]

WEIGHTS = "weights."
"""``weights.NETWORK=PATH`` gives one network of several its weights."""


@dataclass(frozen=True)
class Row:
    """One row of a table: a method at some values of the axes."""

    method: str
    axes: dict[str, str]
    recipe: str
    config: RunConfig
    published: dict[str, Published] = field(default_factory=dict)
    """What the document prints for it on test classes, by metric."""
    published_validation: dict[str, Published] = field(default_factory=dict)
    """What the document prints for it on validation classes, by metric."""
    search: SearchSpace = field(default_factory=dict)
    printed: tuple[Hyperparameter, ...] = ()
    """What the document's own search found."""
    as_published: RunConfig | None = None
    """The recipe's configuration, where this one is another."""

    @property
    def label(self) -> str:
        """The method with its axes."""
        return ", ".join((self.method, *self.axes.values()))

    @property
    def year(self) -> int | None:
        """The year of the paper of its loss, where the loss's page says so."""
        years = re.findall(r"\b(?:19|20)\d\d\b", LOSSES.find(self.config.loss.name).paper)
        return int(years[0]) if years else None

    @property
    def dataset(self) -> str:
        """The data set of papers whose numbers may stand beside its scores; empty: none."""
        return self.config.data.name if self.as_in_the_paper else ""

    @property
    def as_in_the_paper(self) -> bool:
        """Whether images and network are the paper's, so that scores can be subtracted."""
        theirs = self.as_published or self.config
        return (theirs.data.name, theirs.model.network) == (
            self.config.data.name,
            self.config.model.network,
        )

    @property
    def folds(self) -> int:
        """How many models one repeat trains."""
        return folds_of(self.config)


def rows(entry: Entry, scale: Scale = "paper", overrides: Iterable[str] = ()) -> list[Row]:
    """What an entry trains.

    Args:
        entry: The table or figure.
        scale: ``paper``, or ``small`` for what a laptop has.
        overrides: ``key=value`` settings of every run, and ``weights.NETWORK=PATH``.

    Returns:
        The rows, in the order of the document; none for a list.

    Raises:
        BadInput: A setting is invalid, or makes two rows the same.
    """
    given = list(overrides)
    of_recipes = printed_rows(entry)
    if not of_recipes:
        return []
    found = of_recipes
    if scale == "small":
        laptop = laptop_for(entry, given)
        found = [_small(row, entry, laptop) for row in of_recipes]
        found = _collapsed(found, entry.axes, laptop)
        given = [setting for setting in given if not setting.startswith("data.name=")]
    if given:
        before = _distinct(found)
        found = [_overridden(row, given, found) for row in found]
        if _distinct(found) < before:
            varied = ", ".join(("method", *entry.axes))
            raise BadInput(
                f"'{entry.name}' compares {varied}, and these settings make rows the same"
            )
    for row in found:
        if row.config is recipe_config(row.recipe):
            _check_recipe(row.recipe)
            continue
        try:
            check(row.config)
        except BadInput as error:
            raise BadInput(f"'{entry.name}', {row.label}: {error}") from None
    return found


def heading(entry: Entry, found: Sequence[Row]) -> str:
    """What is shown, and of which images, network and size.

    Args:
        entry: The table or figure.
        found: Its rows.

    Returns:
        The document's own heading; where images or network are others, one that names those.
    """
    if all(row.as_in_the_paper for row in found):
        return entry.heading
    configs = [row.config for row in found]
    images = dict.fromkeys(SHOWN.get(one.data.name, one.data.name) for one in configs)
    sizes = {one.model.dim for one in configs}
    parts = [*images, *dict.fromkeys(one.model.network for one in configs)]
    parts += [f"{size} dimensions" for size in sizes if len(sizes) == 1]
    text = f"{', '.join(parts)}: {entry.title}"
    return text[0].upper() + text[1:]


def printed_rows(entry: Entry) -> list[Row]:
    """The rows as the document has them: its recipes and its numbers.

    Args:
        entry: The table or figure.

    Returns:
        The rows, in the order of the document; none for a list.
    """
    return [_row(cell) for cell in cells(entry)]


def check_data(entry: Entry, found: Sequence[Row]) -> None:
    """Refuse rows whose images or weights are not there, before anything is written.

    Args:
        entry: The table or figure.
        found: Its rows.

    Raises:
        BadInput: A data set has no root or another content, or a network has no weights.
    """
    if entry.drawn:
        return
    for name, root in dict.fromkeys((r.config.data.name, r.config.data.root) for r in found):
        if root is None and name != "glyphs":
            raise BadInput(
                f"'{entry.name}' needs the data set '{name}': give data.root=FOLDER, "
                "or --scale small"
            )
        data.load(name, root)
    networks = {row.config.model.network for row in found}
    for network in FILE_ONLY:
        if any(r.config.model.network == network and _on_hub(r.config) for r in found):
            key = "model.weights" if len(networks) == 1 else f"{WEIGHTS}{network}"
            raise BadInput(
                f"'{entry.name}' needs weights of {network}, which are on no hub: give "
                f"{key}=PATH, or --scale small"
            )


def quoted(entry: Entry) -> list[Published]:
    """Published numbers of an entry that belong to no recipe: ranks, and what papers report.

    Args:
        entry: The table or figure.

    Returns:
        The numbers of the sources that the entry quotes.
    """
    return [row for row in published.load(entry.paper) if row.source in entry.quotes]


def _distinct(found: Iterable[Row]) -> int:
    return len({row.config.model_dump_json() for row in found})


def _on_hub(config: RunConfig) -> bool:
    return config.model.weights == "imagenet"


def _row(cell: Cell) -> Row:
    printed, search = _published().get(cell.recipe, ()), cell.search
    return Row(
        method=cell.method,
        axes=cell.axes,
        recipe=cell.recipe,
        config=cell.config,
        published={row.metric: row for row in printed if row.part == "test"},
        published_validation={row.metric: row for row in printed if row.part == "validation"},
        search=search,
        printed=_found_by_search(cell) if search else (),
    )


@cache
def _check_recipe(name: str) -> None:
    check(recipe_config(name))


@cache
def _published() -> dict[str, tuple[Published, ...]]:
    """Published numbers by recipe."""
    found: dict[str, tuple[Published, ...]] = {}
    for row in published.load():
        found[row.recipe] = (*found.get(row.recipe, ()), row)
    return found


def _found_by_search(cell: Cell) -> tuple[Hyperparameter, ...]:
    """The printed hyper-parameters of a cell that a search found."""
    config = recipe_config(cell.recipe)
    names = {pattern.format_map(cell.choice) for pattern in cell.grid.spec.printed[-1:]}
    return tuple(
        row
        for row in hyperparameters()
        if row.paper == cell.entry.paper
        and row.method in names
        and row.dataset in ("", config.data.name)
        and row.batch in (None, config.sampler.arguments["batch_size"])
    )


def _small(row: Row, entry: Entry, laptop: Laptop) -> Row:
    """The row at small scale, its axes named by the data set and network that are used."""
    config = small(row.config, entry, laptop)
    used = {"dataset": config.data.name, "network": config.model.network}
    axes = {axis: used.get(axis, value) for axis, value in row.axes.items()}
    return replace(row, config=config, axes=axes, as_published=row.config)


def _overridden(row: Row, given: Sequence[str], found: Sequence[Row]) -> Row:
    """The row with the user's settings on top."""
    values = row.config.model_dump(mode="json")
    networks = sorted({one.config.model.network for one in found})
    for setting in given:
        key, _, value = setting.partition("=")
        if key.startswith(WEIGHTS):
            network = key.removeprefix(WEIGHTS)
            if network not in networks:
                close = did_you_mean(network, networks)
                raise BadInput(f"'{setting}': no row has the network '{network}'; {close}")
            if network == row.config.model.network:
                values = set_keys(values, {"model.weights": value})
            continue
        if key == "model.weights" and len(networks) > 1 and value not in ("none", "imagenet"):
            several = ", ".join(networks)
            raise BadInput(f"'{setting}' is of one network of {several}: weights.NETWORK=PATH")
        if key == "data.root" and row.config.data.name == "glyphs":
            continue  # beside photographs
        if key == "train.epochs" and not row.config.train.epochs:
            continue  # the untrained network stays so
        values = override(values, setting)
    config = parse(values, "the command line")
    if config == row.config:
        return row
    return replace(row, config=config, as_published=row.as_published or row.config)


def _collapsed(found: Sequence[Row], axes: Sequence[str], laptop: Laptop) -> list[Row]:
    """Rows without the axes that a laptop cannot vary.

    The first of several rows at equal values remains. Where data sets are compared, only those
    that are there remain. An axis with one value left is dropped.
    """
    kept: dict[tuple[str, ...], Row] = {}
    for row in found:
        own = row.as_published.data.name if row.as_published else ""
        there = row.config.data.name in (own, "glyphs") or not laptop.photographs
        if "dataset" not in axes or there:
            kept.setdefault((row.method, *row.axes.values()), row)
    remaining = list(kept.values())
    single = {axis for axis in axes if len({row.axes[axis] for row in remaining}) == 1}
    return [
        replace(row, axes={axis: value for axis, value in row.axes.items() if axis not in single})
        for row in remaining
    ]
