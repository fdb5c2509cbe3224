"""From an entry of the catalogue to its rows: recipes as run configurations, published numbers.

A row of a reproduction is a row of a study that carries what its document prints, and later what
the study found. Nothing here imports torch before it must, so that the catalogue is listed at once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from lookalike import published
from lookalike.config import RunConfig, parse, recipes
from lookalike.config.loading import merge, override, set_keys
from lookalike.config.recipes import Choice, Grid, as_list
from lookalike.errors import BadInput, did_you_mean
from lookalike.papers.catalogue import Entry, Selection
from lookalike.published import Hyperparameter, Published, hyperparameters
from lookalike.registry import LOSSES
from lookalike.study.config import shipped_methods
from lookalike.study.intervals import Interval, summarize
from lookalike.study.results import Trial
from lookalike.study.tuning import SearchSpace, TunerConfig, trials_asked

if TYPE_CHECKING:
    from lookalike.compare.contenders import MethodResult
    from lookalike.papers.scale import Laptop, Scale


FILE_ONLY = ("bn-inception",)
"""Networks whose weights are on no hub."""
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
    contender: "MethodResult | None" = field(default=None, compare=False)
    """What the study found, under the label of this row; None before it was tested."""

    @property
    def label(self) -> str:
        """The method with its axes."""
        return ", ".join((self.method, *self.axes.values()))

    @property
    def year(self) -> int | None:
        """The year of the paper of its loss, where the loss's page says so."""
        return published.year_in(LOSSES.find(self.config.loss.name).paper)

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

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The trials of its search."""
        return self.contender.row.trials if self.contender and self.contender.row else ()

    @property
    def tuned(self) -> dict[str, Any]:
        """What its search found."""
        return self.contender.row.tuned if self.contender and self.contender.row else {}

    @property
    def validation_metric(self) -> str:
        """What chose the epoch and the best trial, on validation classes."""
        return self.contender.row.metric if self.contender and self.contender.row else ""

    @property
    def runs(self) -> tuple[Path, ...]:
        """The folders of its runs, where they were kept."""
        return tuple(run.folder for run in self.contender.runs) if self.contender else ()

    @cached_property
    def trainings(self) -> list[Mapping[str, float]]:
        """The scores of each training, by metric; a fold's model is a training."""
        return [one.scores for one in self.contender.models] if self.contender else []

    @cached_property
    def ours(self) -> dict[str, Interval]:
        """The scores over trainings, by metric."""
        return scores_of(self.contender) if self.contender else {}

    @cached_property
    def concatenated(self) -> dict[str, Interval]:
        """Those of the folds' concatenated embeddings; empty where there is one fold."""
        return joined_scores_of(self.contender) if self.contender else {}

    @cached_property
    def validation(self) -> Interval | None:
        """The score on validation classes, by the metric that chose the epoch."""
        repeats = self.contender.row.repeats if self.contender and self.contender.row else ()
        found = [repeat.validation for repeat in repeats if repeat.validation]
        return summarize(found) if found else None

    def difference(self, metric: str) -> float | None:
        """Ours minus the published number, between -1 and 1.

        None where ours is of other images or another network than the paper's.
        """
        printed = self.published.get(metric)
        if printed is None or printed.value is None or metric not in self.ours:
            return None
        return self.ours[metric].mean - printed.value / 100 if self.as_in_the_paper else None


def scores_of(one: "MethodResult") -> dict[str, Interval]:
    """The scores of a method by metric."""
    names = dict.fromkeys(metric for model in one.models for metric in model.scores)
    return {name: found for name in names if (found := one.interval(name)) is not None}


def joined_scores_of(one: "MethodResult") -> dict[str, Interval]:
    """The scores of the folds' concatenated embeddings by metric; empty where there is one fold."""
    found = ((name, one.interval(name, "concatenated")) for name in scores_of(one))
    return {name: score for name, score in found if score is not None and one.concatenated}


def rows(entry: Entry, scale: "Scale" = "paper", overrides: Iterable[str] = ()) -> list[Row]:
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
    from lookalike.papers.scale import laptop_for
    from lookalike.training.runner import check

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
        if row.config is not recipe_config(row.recipe):
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
    from lookalike.losses.tuned import SHOWN

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
    return [_row(entry, *found) for found in _selected(entry)]


def check_data(entry: Entry, found: Sequence[Row]) -> None:
    """Refuse rows whose images or weights are not there, before anything is written.

    Args:
        entry: The table or figure.
        found: Its rows.

    Raises:
        BadInput: A data set has no root or another content, or a network has no weights.
    """
    from lookalike import data

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


def _row(entry: Entry, selection: Selection, grid: Grid, choice: Choice) -> Row:
    """One recipe of a grid, with the entry's settings on top."""
    recipe = grid.name(choice)
    space = shipped_methods()[entry.space.format(**choice)] if entry.space else {}
    searched = space.get("search", entry.search)
    search: SearchSpace = TypeAdapter(SearchSpace).validate_python(searched)
    printed = _published().get(recipe, ())
    return Row(
        method=selection.method.format(**choice),
        axes={axis: choice[axis] for axis in entry.axes},
        recipe=recipe,
        config=_config(entry, recipe, space),
        published={row.metric: row for row in printed if row.part == "test"},
        published_validation={row.metric: row for row in printed if row.part == "validation"},
        search=search,
        printed=_found_by_search(entry, grid, choice) if search else (),
    )


def _config(entry: Entry, recipe: str, space: Mapping[str, Any]) -> RunConfig:
    changes = entry.set
    if entry.metrics:
        changes = merge(changes, {"protocol": {"metrics": list(entry.metrics)}})
    changes = merge(changes, {part: space[part] for part in ("loss", "miner") if part in space})
    config = recipe_config(recipe)
    if not changes:
        return config
    return parse(merge(config.model_dump(mode="json"), changes), f"recipe:{recipe}")


@cache
def _published() -> dict[str, tuple[Published, ...]]:
    """Published numbers by recipe."""
    found: dict[str, tuple[Published, ...]] = {}
    for row in published.load():
        found[row.recipe] = (*found.get(row.recipe, ()), row)
    return found


def _found_by_search(entry: Entry, grid: Grid, choice: Choice) -> tuple[Hyperparameter, ...]:
    """The printed hyper-parameters of a recipe that a search found."""
    config = recipe_config(grid.name(choice))
    names = {pattern.format_map(choice) for pattern in grid.spec.printed[-1:]}
    return tuple(
        row
        for row in hyperparameters()
        if row.paper == entry.paper
        and row.method in names
        and row.dataset in ("", config.data.name)
        and row.batch in (None, config.sampler.arguments["batch_size"])
    )


def _small(row: Row, entry: Entry, laptop: "Laptop") -> Row:
    """The row at small scale, its axes named by the data set and network that are used."""
    from lookalike.papers.scale import small

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


def _collapsed(found: Sequence[Row], axes: Sequence[str], laptop: "Laptop") -> list[Row]:
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


def _selected(entry: Entry) -> Iterator[tuple[Selection, Grid, Choice]]:
    """The recipes that an entry selects, in the order of the document; none for a list."""
    for selection in entry.select:
        grid = _grids()[selection.grid]
        for choice in grid.choices():
            if all(choice[axis] in as_list(values) for axis, values in selection.only.items()):
                yield selection, grid, choice


@cache
def recipe_config(name: str) -> RunConfig:
    """The configuration of a recipe.

    Args:
        name: The name of the recipe.

    Returns:
        The configuration, always the same object.
    """
    return parse(recipes.recipe(name).values(), f"recipe:{name}")


def folds_of(config: RunConfig) -> int:
    """How many models one repeat trains.

    Args:
        config: A run.

    Returns:
        The number of folds.
    """
    protocol = config.protocol
    return protocol.folds if protocol.name == "cross-validation" else 1


def trainings_of(config: RunConfig, search: SearchSpace, tuner: TunerConfig, repeats: int) -> int:
    """How many models a row trains: trials and repeats, on every fold.

    Args:
        config: Its run.
        search: What is searched for.
        tuner: How.
        repeats: Trainings with new seeds.

    Returns:
        The number of trainings.
    """
    if not config.train.epochs:
        return 0
    return (trials_asked(tuner, search) + repeats) * folds_of(config)


def needs(entry: Entry) -> dict[str, Any]:
    """What an entry needs, as JSON values.

    Args:
        entry: The table or figure.

    Returns:
        Data sets, networks and trainings at the paper's scale, and what images small scale needs.
    """
    tuner = TunerConfig(name=entry.tuner.name, trials=entry.tuner.trials, prune=False)
    found = [(row.config, row.search) for row in printed_rows(entry)]
    networks = sorted({config.model.network for config, _ in found})
    return {
        "data": sorted({config.data.name for config, _ in found}),
        "networks": networks,
        "weights": {n: "file" if n in FILE_ONLY else "imagenet" for n in networks},
        "photographs": entry.photographs,
        "trainings": sum(
            trainings_of(config, search, tuner, entry.repeats) for config, search in found
        ),
        "small": None if not found else ("photographs" if entry.photographs else "glyphs"),
    }


@cache
def _grids() -> dict[str, Grid]:
    sources = (one.source for one in recipes.all_recipes().values())
    return {source[0].spec.name: source[0] for source in sources if isinstance(source, tuple)}
