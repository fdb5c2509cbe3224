"""``lookalike audit``: whether a comparison that a paper describes is fair."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from lookalike.cli.console import AsJson


def audit(
    paper: Annotated[
        Path, typer.Argument(metavar="PAPER.YAML", help="The description of the rows.")
    ],
    as_json: AsJson = False,
) -> None:
    """List how the experiments of a paper differ beyond the method.

    Example: lookalike audit docs/audits/sampling-matters.yaml

    The exit code is 1 where the comparison is unfair.
    """
    from lookalike.compare.audit import audit as audit_rows
    from lookalike.compare.conditions import read_description

    described = read_description(paper)
    found = audit_rows(described.experiments)
    if as_json:
        value = {"title": described.title, "verdict": found.verdict, "rows": found.rows}
        print(json.dumps(value | {"flaws": [asdict(flaw) for flaw in found.flaws]}, indent=2))
    else:
        print(described.title)
        for number, flaw in enumerate(found.flaws, 1):
            print(f"  [{number}] {flaw.sentence}")
        words = {
            "fair": "Fair: nothing but the method differs.",
            "unfair": "Unfair: a ranking of these rows would not be a ranking of methods.",
            "cannot be told": "Cannot be told: too much is not said.",
        }
        print(words[found.verdict])
    if found.verdict == "unfair":
        raise typer.Exit(1)
