"""``lookalike train``: one run, from a recipe and overrides."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lookalike.cli.console import AsJson, print_json, print_next, print_result
from lookalike.errors import BadInput
from lookalike.progress import ConsoleWatcher

if TYPE_CHECKING:
    from lookalike.config import RunConfig


def train(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RECIPE] [KEY=VALUE]...",
            help="A YAML file or recipe:NAME, then keys to override.",
        ),
    ] = None,
    as_json: AsJson = False,
    all_classes: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Train on every class, test classes too, as long as validation chose in RUN.",
        ),
    ] = None,
    profile: Annotated[
        bool,
        typer.Option("--profile", help="Print the time of each stage of a step; no run is kept."),
    ] = False,
    help_keys: Annotated[
        bool, typer.Option("--help-keys", help="Show every key: type, default, meaning.")
    ] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of a recipe, for editors.")
    ] = False,
) -> None:
    """Train a network and test it once.

    Example: lookalike train recipes/glyphs.yaml loss.name=triplet optim.lr=1e-4 seed=3

    Example: lookalike train data.name=folder data.root=photos

    Example: lookalike train --all-classes runs/folder-multi-similarity-0123456789ab

    If interrupted, the same command resumes; a finished run is not repeated.
    """
    if help_keys or schema:
        from lookalike.config.reference import help_text, json_schema

        print_result(json_schema(), help_text(), as_json=schema)
        return
    from lookalike import training
    from lookalike.config import load_trusted, recipes
    from lookalike.config.schema import SPLIT_DATASETS
    from lookalike.training.distributed.launch import is_first_machine
    from lookalike.training.score import summary, warnings

    if all_classes is not None:
        train_on_all_classes(all_classes, arguments or [], as_json)
        return
    recipe, settings = None, arguments or []
    if settings and ("=" not in settings[0] or settings[0].endswith((".yaml", ".yml"))):
        recipe, *settings = settings
    config = load_trusted(recipe or recipes.default_recipe(settings), settings)
    if profile:
        show_profile(config, as_json)
        return
    with ConsoleWatcher() as watcher:
        run = training.train(config, watcher)
    if not (training.is_first() and is_first_machine(config.train)):
        return  # only one process prints
    if as_json:
        print_json(run.result)
        for sentence in warnings(run.result):
            typer.echo(f"WARNING: {sentence}", err=True)
        return
    print(f"{run.folder}: {run.result.get('protocol', '')}, {run.seconds:.0f} s of training")
    print("\n".join(summary(run.result)))
    latest = run.mark_latest()
    own = config.data.name not in SPLIT_DATASETS and config.data.root is not None
    pictures = str(config.data.root) if own else "photos/"
    print_next(
        f"evaluate {latest} --worst 5",
        f"compare {config.runs_dir}",
        f"index {latest} {pictures} -o my.index",
    )


def train_on_all_classes(folder: Path, arguments: list[str], as_json: bool) -> None:
    """Train on every class for as many epochs as a validated run chose."""
    from lookalike import training
    from lookalike.runs.run import Run
    from lookalike.training.runner import for_all_classes

    if arguments:
        raise BadInput("--all-classes takes every setting from its run; leave out the others")
    validated = Run(folder)
    config = for_all_classes(validated)
    with ConsoleWatcher() as watcher:
        run = training.train(config, watcher)
    if as_json:
        print_json(run.result)
        return
    print(f"{run.folder}: {run.result.get('protocol', '')}, {config.train.epochs} epochs")
    print(f"  no class is left to test it on; what is known are the scores of {validated.folder}")


def show_profile(config: "RunConfig", as_json: bool) -> None:
    """Time some steps and print the median of each stage."""
    from lookalike.training.profiling import profile

    with ConsoleWatcher() as watcher:
        seconds = profile(config, watcher)
    if as_json:
        print_json(seconds)
        return
    for stage, spent in seconds.items():
        print(f"{stage:<10} {1e3 * spent:9.2f} ms {spent / seconds['step']:6.1%}")
