"""``lookalike audit``: whether a comparison that a paper describes is fair."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from lookalike.cli.console import AsJson, print_json, print_lines
from lookalike.errors import BadInput


def audit(
    paper: Annotated[
        Path | None, typer.Argument(metavar="PAPER.YAML", help="The description of the rows.")
    ] = None,
    keys: Annotated[
        bool, typer.Option("--keys", help="List the keys that a description may have.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List how the experiments of a paper differ beyond the method.

    Example: lookalike audit docs/audits/sampling-matters.yaml

    Example: lookalike audit --keys

    The exit code is 1 where the comparison is unfair.
    """
    from lookalike.compare.audit import audit as audit_rows
    from lookalike.compare.conditions import read_description

    if keys:
        show_keys(as_json)
        return
    if paper is None:
        raise BadInput("name the file that describes the paper; --keys lists what it may say")
    described = read_description(paper)
    result = audit_rows(described.experiments)
    if as_json:
        value = {"title": described.title, "verdict": result.verdict, "rows": result.rows}
        print_json(value | {"flaws": [asdict(flaw) for flaw in result.flaws]})
    else:
        print(described.title)
        for number, flaw in enumerate(result.flaws, 1):
            print(f"  [{number}] {flaw.sentence}")
        words = {
            "fair": "Fair: nothing but the method differs.",
            "unfair": "Unfair: a ranking of these rows would not be a ranking of methods.",
            "cannot be told": "Cannot be told: too much is not said.",
        }
        print(words[result.verdict])
    if result.verdict == "unfair":
        raise typer.Exit(1)


def show_keys(as_json: bool) -> None:
    """Print every key of an experiment, with its meaning and other words for it."""
    from lookalike.compare.audit import CONDITIONS

    if as_json:
        print_json(
            [
                {"key": key, "meaning": one.title, "not": one.other_words.split()}
                for key, one in CONDITIONS.items()
            ]
        )
        return
    lines = []
    for key, one in CONDITIONS.items():
        other = f"  (not: {', '.join(one.other_words.split())})" if one.other_words else ""
        lines.append((key, one.title + other))
    print_lines(lines)
    print(
        "An experiment also has a name and may have claims, omits, score and note; a file has "
        "title, source, same and experiments."
    )
