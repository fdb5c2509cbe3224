"""The recipe of a recommendation: a file that ``lookalike train`` takes."""

from pathlib import Path
from typing import Any

import yaml

from lookalike.choose.decision import Candidate
from lookalike.config import RunConfig, parse
from lookalike.config.loading import merge
from lookalike.study.results import MethodRow


def run_of(candidate: Candidate, base: RunConfig) -> RunConfig:
    """The run that trains a candidate on the first fold of its study, and tests it.

    Args:
        candidate: What is recommended.
        base: The configuration that all candidates share, with the data as the user gave them.

    Returns:
        Its configuration; of a baseline, with its projection as the head and no epochs.
    """
    if isinstance(candidate.row, MethodRow):
        # Results are shown to others and name no folders: those come from the base.
        data = base.data.model_dump(mode="json")
        places = {"data": data, "model": {"weights": base.model.weights}}
        return parse(merge(candidate.row.config, places), "the recipe")
    row = candidate.row
    heads: dict[str, dict[str, Any]] = {
        "raw-features": {"dim": 0, "head_init": "random"},
        "pca": {"dim": row.dim, "head_init": "pca"},
        "lda": {"dim": row.dim, "head_init": "lda", "head_shrink": row.parameters.get("shrink", 1)},
    }
    return untrained_run(base, heads[row.baseline])


def untrained_run(base: RunConfig, head: dict[str, Any]) -> RunConfig:
    """A run of no epochs.

    Args:
        base: The configuration that all candidates share.
        head: Keys of ``model``: the size of the embedding, and how its head starts.

    Returns:
        Its configuration.
    """
    changes = {"model": head, "train": {"epochs": 0, "batches_per_epoch": None}}
    return parse(merge(base.model_dump(mode="json"), changes), "the recipe")


def recipe_text(config: RunConfig, about: tuple[str, ...]) -> str:
    """A configuration as a recipe, without what is the default.

    Args:
        config: The configuration.
        about: Lines of comment at its beginning.

    Returns:
        The YAML.
    """
    values = config.model_dump(mode="json", exclude_defaults=True)
    values.get("train", {}).pop("device", None)  # the best that there is
    if config.data.root is not None:
        values["data"]["root"] = str(Path(config.data.root).expanduser().resolve())
    comment = "".join(f"# {line}\n" for line in about)
    return comment + yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
