"""What the commands do, from Python: choose, train, load, embed, study, compare, report.

Each function takes what its command takes, shows progress on a terminal or in a notebook, and
returns an object that a notebook shows as a table.
"""

import io
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import yaml

from lookalike.choose import words
from lookalike.choose.candidates import settings_of
from lookalike.choose.chooser import Recommendation, clock_of
from lookalike.choose.chooser import choose as run_choice
from lookalike.compare.comparison import Comparison, chosen_metric
from lookalike.compare.comparison import compare as compare_rows
from lookalike.compare.contenders import gather
from lookalike.config import load_trusted, recipes
from lookalike.data.parallel import available_cores
from lookalike.errors import BadInput, did_you_mean
from lookalike.inference.embedder import Embedder
from lookalike.progress import ConsoleWatcher, Watcher
from lookalike.registry import NETWORKS, trust
from lookalike.report.descriptions import leading_sentence, title_of
from lookalike.report.page import write_page
from lookalike.report.scores import main_table
from lookalike.report.tables import Table, as_csv, as_html, as_markdown
from lookalike.runs.run import Run
from lookalike.search.index import Index
from lookalike.study.config import load_study
from lookalike.study.driver import Clock, run_study
from lookalike.study.local import LocalExecutor
from lookalike.study.results import StudyResults
from lookalike.training import train as train_run

if TYPE_CHECKING:
    import pandas

    from lookalike.search.items import Added

__all__ = [
    "Choice",
    "Compared",
    "Result",
    "choose",
    "compare",
    "embed",
    "load",
    "report",
    "study",
    "train",
]

Result: TypeAlias = Run | StudyResults | Path | str
"""A finished run or study, or its folder."""


def train(
    recipe: Path | str | None = None,
    settings: Mapping[str, Any] | None = None,
    *,
    progress: bool = True,
) -> Run:
    """Train a network and test it once, as ``lookalike train`` does.

    Args:
        recipe: A YAML file or ``recipe:NAME``; None: the defaults, or for a folder of one's own
            images the recipe that fine-tunes a small pretrained network.
        settings: Keys of the configuration, such as ``{"optim.lr": 1e-4}``.
        progress: Whether to show progress.

    Returns:
        The finished run; a call that was interrupted resumes, and one that was made before returns
        at once.

    Raises:
        BadInput: A recipe, key or value is invalid, or the data are.

    >>> run = train(settings={"data.name": "folder", "data.root": "photos"})  # doctest: +SKIP
    >>> run.scores["recall@1"]  # doctest: +SKIP
    0.71
    """
    given = _overrides(settings)
    if recipe is None and not given:
        raise BadInput("say what to train: a recipe, or settings such as {'data.name': 'glyphs'}")
    config = load_trusted(recipe or recipes.default_recipe(given), given)
    with _watching(progress) as watcher:
        return train_run(config, watcher)


def load(source: Run | Path | str, **options: Any) -> Embedder:
    """A model that turns images into unit vectors.

    Args:
        source: A run or its folder, the folder of an exported model or of an index, or the name of
            a network.
        **options: Of a network: ``weights``, ``transform`` and ``pooling``, as those of
            :meth:`lookalike.inference.embedder.Embedder.from_network`.

    Returns:
        The embedder; ``embed`` takes paths, PIL images, arrays, tensors, or a loader of them.

    Raises:
        BadInput: There is no such run, model, index or network.

    >>> load("small-cnn", weights="none").embed(["query.jpg"])  # doctest: +SKIP
    """
    if isinstance(source, Run):
        return Embedder.from_run(source.folder)
    folder = Path(source)
    if not folder.exists() and str(source) in NETWORKS:
        return Embedder.from_network(str(source), **options)
    if options:
        raise BadInput(f"'{source}' is no network; only of those {', '.join(options)} can be set")
    if (folder / "index.json").is_file():
        return Index.open(folder).embedder
    return Embedder.open(folder)


def embed(
    model: Embedder | Run | Path | str,
    source: Path | str,
    output: Path | str,
    *,
    dtype: Literal["float32", "float16"] = "float32",
    shard: str = "1/1",
    progress: bool = True,
    **options: Any,
) -> "Added":
    """Embed very many pictures into an index, as ``lookalike embed`` does.

    Args:
        model: What :func:`load` returned, or takes.
        source: A folder of pictures, a CSV, Parquet with image bytes, WebDataset shards, or a store
            of training.
        output: The folder of the index, or ``postgresql://...#name``.
        dtype: The type of the stored vectors.
        shard: ``i/n``: the shards of the i-th of n machines.
        progress: Whether to show progress.
        **options: ``device``, ``precision``, ``batch``, ``per_shard`` and ``threads``, as those of
            :class:`lookalike.inference.job.Options`.

    Returns:
        How many pictures were new, changed and unchanged, and which were skipped; a call that was
        interrupted resumes, and what is there is not computed again.

    Raises:
        BadInput: There is no such model or source, or the index is of another model or type.

    >>> added = embed("runs/latest", "photos", "vectors", dtype="float16")  # doctest: +SKIP
    >>> added.new, len(added.skipped)  # doctest: +SKIP
    (1765, 2)
    """
    from lookalike.inference.job import Options, Share
    from lookalike.inference.source import open_source, require_readable
    from lookalike.search.ingest import embed_into, open_or_create

    unknown = set(options) - {one.name for one in fields(Options)}
    if unknown:
        names = [one.name for one in fields(Options)]
        raise BadInput(f"there is no option '{min(unknown)}'; {did_you_mean(min(unknown), names)}")
    embedder = model if isinstance(model, Embedder) else load(model)
    pictures = open_source(Path(source))
    require_readable(pictures)
    with _watching(progress) as watcher:
        how, share = Options(**options), Share.parse(shard)
        index = open_or_create(str(output), embedder, embedder.dim, dtype)
        return embed_into(index, pictures, how, share=share, watcher=watcher)


def study(
    recipe: Path | str,
    settings: Mapping[str, Any] | None = None,
    *,
    workers: int | None = None,
    results: Path | str | None = None,
    minutes: float | None = None,
    progress: bool = True,
) -> StudyResults:
    """Tune and test many methods under one protocol, as ``lookalike study run`` does.

    Args:
        recipe: A YAML file, or ``recipe:studies/NAME``.
        settings: Keys of the study, such as ``{"tuner.trials": 5}``.
        workers: Training runs at the same time; None: one for each core.
        results: The folder of the results; None: ``results/NAME``.
        minutes: The time for it: rows are tuned while there is time to test them.
        progress: Whether to show progress.

    Returns:
        The results; a call that was interrupted resumes.

    Raises:
        BadInput: The study is invalid.
    """
    clock = None if minutes is None else Clock(60 * minutes)
    config = load_study(str(recipe), _overrides(settings))
    trust(config)
    folder = None if results is None else Path(results)
    with _watching(progress) as watcher:
        executor = partial(LocalExecutor, workers or available_cores(), watcher)
        return run_study(config, executor, folder=folder, watcher=watcher, clock=clock)


@dataclass(frozen=True)
class Choice:
    """Which method is recommended for some images, and why.

    Attributes:
        outcome: Everything behind it: what is in the images, scores, intervals, differences.
        page: The HTML page about it.
        recipe: The recipe, which :func:`train` takes.
    """

    outcome: Recommendation
    page: Path
    recipe: Path

    def __str__(self) -> str:
        return "\n  ".join([words.headline(self.outcome), *words.reasons(self.outcome)])

    def _repr_html_(self) -> str:
        headline, *reasons = str(self).splitlines()
        lines = "".join(f"<li>{escape(reason.strip())}</li>" for reason in reasons)
        return f"<p><b>{escape(headline)}</b></p><ul>{lines}</ul>"


def choose(
    source: Path | str | None = None,
    settings: Mapping[str, Any] | None = None,
    *,
    minutes: float = 15,
    metric: str = "recall@1",
    output: Path | str | None = None,
    workers: int | None = None,
    progress: bool = True,
) -> Choice:
    """Look at images and recommend a method within a budget of time, as ``lookalike choose`` does.

    Args:
        source: A folder with one sub-folder per class, or a CSV; None: ``data.name`` is a setting.
        settings: Keys of the configuration.
        minutes: The budget.
        metric: What is claimed; MAP@R on validation classes chooses in any case.
        output: The folder of results; None: ``results/choose-NAME-HASH``.
        workers: Training runs at the same time; None: one for each core.
        progress: Whether to show progress.

    Returns:
        The recommendation, with its page and recipe.

    Raises:
        BadInput: The data or settings are invalid, or the budget is too small.
    """
    clock = clock_of(minutes)
    given = [*([] if source is None else [str(source)]), *_overrides(settings)]
    if not given:
        raise BadInput("give a folder of images, or settings with data.name")
    with _watching(progress) as watcher:
        outcome = run_choice(
            settings_of(given),
            clock,
            partial(LocalExecutor, workers or available_cores(), watcher),
            metric=metric,
            folder=None if output is None else Path(output),
            watcher=watcher,
        )
    page, recipe = words.write_outcome(outcome, f"la.choose({str(source)!r}, minutes={minutes:g})")
    return Choice(outcome, page, recipe)


@dataclass(frozen=True)
class Compared:
    """Methods compared: a table for each data set, and what may be claimed.

    Attributes:
        comparison: Everything behind the tables: intervals, audit, differences, tournament.
    """

    comparison: Comparison

    @property
    def tables(self) -> list[Table]:
        """The table of each data set, ordered by score where that is fair."""
        found = self.comparison
        return [main_table(part, found.metric, found.which) for part in found.datasets]

    @property
    def claims(self) -> list[str]:
        """What holds for other training runs and other test classes, a sentence each."""
        return [sentence for part in self.comparison.datasets for sentence in part.claims]

    def to_pandas(self) -> "pandas.DataFrame":
        """All scores with their intervals, a row for each method; needs the extra ``pandas``."""
        try:
            import pandas
        except ImportError as error:
            raise BadInput("to_pandas() needs pandas: pip install 'lookalike[pandas]'") from error

        return pandas.read_csv(io.StringIO(as_csv(self.tables)))

    def __str__(self) -> str:
        return "\n".join([as_markdown(self.tables), *self.claims])

    def _repr_html_(self) -> str:
        claims = "".join(f"<li>{escape(sentence)}</li>" for sentence in self.claims)
        return as_html(self.tables) + (f"<ul>{claims}</ul>" if claims else "")


def compare(*results: Result, metric: str | None = None, allow_unfair: bool = False) -> Compared:
    """Compare runs and studies, as ``lookalike compare`` does.

    Args:
        *results: Finished runs or studies, or folders of them.
        metric: The metric that ranks; None: the study's own, else ``map@r``.
        allow_unfair: Rank rows that differ beyond the method.

    Returns:
        Tables and claims.

    Raises:
        BadInput: A folder holds no results, or the metric is unknown.
    """
    gathered = gather(_folders(results))
    return Compared(
        compare_rows(gathered, metric or chosen_metric(gathered), allow_unfair=allow_unfair)
    )


def report(
    *results: Result,
    output: Path | str = "report.html",
    title: str | None = None,
    metric: str | None = None,
    allow_unfair: bool = False,
) -> Path:
    """Write one HTML page about runs and studies, as ``lookalike report`` does.

    Args:
        *results: Finished runs or studies, or folders of them.
        output: The page; tables are written beside it.
        title: The title of the page.
        metric: The metric that ranks; None: the study's own, else ``map@r``.
        allow_unfair: Rank rows that differ beyond the method.

    Returns:
        The page.
    """
    gathered = gather(_folders(results))
    page, *_ = write_page(
        Path(output),
        gathered,
        title or title_of(gathered),
        leading_sentence(gathered),
        metric=metric,
        allow_unfair=allow_unfair,
    )
    return page


def _overrides(settings: Mapping[str, Any] | None) -> list[str]:
    """Settings as the command line takes them: ``key=value``, the value in YAML."""
    return [
        f"{key}={yaml.safe_dump(_plain(value), default_flow_style=True, width=10**6)}".removesuffix(
            "\n...\n"
        ).rstrip("\n")
        for key, value in (settings or {}).items()
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def _folders(results: tuple[Result, ...]) -> list[Path]:
    if not results:
        raise BadInput("give at least one run or study, or its folder")
    return [
        one.folder if isinstance(one, Run | StudyResults) else Path(one).expanduser()
        for one in results
    ]


def _watching(progress: bool) -> AbstractContextManager[Watcher]:
    return ConsoleWatcher() if progress else nullcontext(Watcher())
