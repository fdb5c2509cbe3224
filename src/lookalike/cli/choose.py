"""``lookalike choose``: which method for your pictures, within a budget of time."""

import shlex
import time
from pathlib import Path
from typing import Annotated

import typer

from lookalike.cli.console import AsJson, print_json
from lookalike.cli.execution import Execution, Workers


def choose(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="PHOTOS [KEY=VALUE]...",
            help="A folder with one sub-folder per class, or a CSV; then keys to override.",
        ),
    ],
    minutes: Annotated[float, typer.Option(help="The budget of time.")] = 15,
    metric: Annotated[
        str, typer.Option(help="What is claimed; MAP@R chooses in any case.")
    ] = "recall@1",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The folder; default: results/choose-NAME-HASH."),
    ] = None,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Look at your pictures and recommend a method: trained, or not worth training.

    Example: lookalike choose photos/

    Example: lookalike choose data.name=cub data.root=data --minutes 30

    Heads on frozen features are compared on classes that they have not seen. The same command
    resumes, and with more minutes tries more.
    """
    begun = time.monotonic()
    from lookalike.choose import words
    from lookalike.choose.candidates import settings_of
    from lookalike.choose.chooser import choose as run
    from lookalike.choose.chooser import clock_of

    clock = clock_of(minutes, begun)
    settings = settings_of(arguments)
    options = ["--minutes", f"{minutes:g}", *(["--metric", metric] if metric != "recall@1" else [])]
    command = shlex.join(["lookalike", "choose", *arguments, *options])
    with Execution(workers=workers).running("choice") as how:
        outcome = run(settings, clock, metric=metric, folder=output, **how)
        page, recipe = words.write_outcome(outcome, command)
    if as_json:
        files = {"page": str(page), "recipe": str(recipe)}
        print_json(words.as_dict(outcome) | {"files": files})
        return
    print(f"{outcome.label}: {outcome.look.survey.summary}")
    for sentence in outcome.look.survey.problems:
        print(f"  {sentence}")
    print(f"\n{words.headline(outcome)}")
    for sentence in words.reasons(outcome):
        print(f"  {sentence}")
    print()
    for sentence in words.limits(outcome):
        print(sentence)
    print(f"\n{clock.used / 60:.1f} of {minutes:g} minutes. The page: {page}")
    for line in words.next_commands(outcome):
        print(line)
