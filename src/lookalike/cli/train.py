"""``lookalike train``: one run, from a recipe and overrides."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from lookalike.cli.console import ConsoleWatcher

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
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
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

    If interrupted, the same command resumes; a finished run is not repeated.
    """
    if help_keys or schema:
        from lookalike.config.reference import help_text, json_schema

        print(json.dumps(json_schema(), indent=2) if schema else help_text())
        return
    from lookalike import training
    from lookalike.config import load, recipes
    from lookalike.training.distributed.devices import is_first_machine
    from lookalike.training.summary import summary, warnings

    given = arguments or []
    named = bool(given) and ("=" not in given[0] or given[0].endswith((".yaml", ".yml")))
    settings = given[1:] if named else given
    config = load(given[0] if named else recipes.default_recipe(settings), settings)
    if profile:
        show_profile(config, as_json)
        return
    with ConsoleWatcher() as watcher:
        run = training.train(config, watcher)
    if not (training.is_first() and is_first_machine(config.train)):
        return  # only one process prints
    if as_json:
        print(json.dumps(run.result, indent=2))
        for sentence in warnings(run.result):
            typer.echo(f"WARNING: {sentence}", err=True)
        return
    print(f"{run.folder}: {run.result['protocol']}, {run.seconds:.0f} s of training")
    print("\n".join(summary(run.result)))


def show_profile(config: "RunConfig", as_json: bool) -> None:
    """Time some steps and print the median of each stage."""
    from lookalike.training.profiling import profile

    with ConsoleWatcher() as watcher:
        seconds = profile(config, watcher)
    if as_json:
        print(json.dumps(seconds, indent=2))
        return
    for stage, taken in seconds.items():
        print(f"{stage:<10} {1e3 * taken:9.2f} ms {taken / seconds['step']:6.1%}")
