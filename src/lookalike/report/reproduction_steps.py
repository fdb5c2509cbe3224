"""How to get the numbers of a page again: commands, the files they need, version and commit."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

import yaml

from lookalike.compare.contenders import ResultSet
from lookalike.runs.run import commit
from lookalike.study.config import StudyConfig
from lookalike.study.results import StudyResults

MOST_RUNS = 5
"""Runs whose command is shown; more are counted."""
BUILT_IN = ("glyphs",)
"""Data sets that need no ``data.root``."""


@dataclass(frozen=True)
class Again:
    """What repeats a page.

    Attributes:
        commands: To run one after the other.
        files: The studies that the commands name: the text of each, by file name.
        software: Version and commit of the package that wrote the page.
    """

    commands: tuple[str, ...]
    files: dict[str, str]
    software: str


def again(gathered: ResultSet, commands: Sequence[str]) -> Again:
    """What repeats the trainings of a page, and then the ``commands`` that wrote it."""
    runs = [run for one in gathered.contenders if one.row is None for run in one.runs]
    # names, not paths: a page is shown to others
    trained = [f"lookalike train runs/{run.folder.name}/config.yaml" for run in runs[:MOST_RUNS]]
    if len(runs) > MOST_RUNS:
        trained.append(f"# and so on for {len(runs) - MOST_RUNS} more runs")
    studies = [f"lookalike study run {one.name}.yaml{_roots(one)}" for one in gathered.studies]
    state = commit()
    return Again(
        (*studies, *trained, *commands),
        {f"{one.name}.yaml": _study_file(one) for one in gathered.studies},
        f"lookalike {version('lookalike')}" + (f", commit {state[:12]}" if state else ""),
    )


def _study_file(study: StudyResults) -> str:
    """The study as the file that ``study run`` takes, without where its data are."""
    values = {key: value for key, value in study.study.items() if key in StudyConfig.model_fields}
    return yaml.safe_dump(values, sort_keys=False)


def _roots(study: StudyResults) -> str:
    """The setting that says where the data are, which no results keep."""
    blocks = study.study.get("data") or []
    needed = [one["name"] for one in blocks if one.get("name") not in BUILT_IN]
    return f" data.root=DATA  # the folder of {needed[0]}" if len(needed) == 1 else ""
