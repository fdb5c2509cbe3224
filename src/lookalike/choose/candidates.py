"""The study behind a choice: the candidate methods, in the order in which they are tried."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from lookalike.config.loading import merge, override, plain_yaml
from lookalike.errors import BadInput, did_you_mean
from lookalike.study.config import StudyConfig, parse_study

SECTIONS = ("data", "model", "sampler", "optim", "train", "seed")
"""The keys that a user may set."""


@cache
def shipped() -> dict[str, Any]:
    """The content of ``candidates.yaml``: base, rates, methods, and the other keys of the study."""
    return plain_yaml(Path(__file__).with_name("candidates.yaml"))


def names() -> tuple[str, ...]:
    """The candidate methods, in the order in which they are tried."""
    return tuple(method["name"] for method in shipped()["methods"])


def settings_of(arguments: Sequence[str]) -> dict[str, Any]:
    """The settings that all candidates share, with the user's on top.

    Args:
        arguments: As on the command line: a folder or CSV, which becomes ``data.name`` and
            ``data.root``, unless ``data.name`` is given; then ``key=value``: ``model.dim=64``.

    Returns:
        Nested settings of a run.

    Raises:
        BadInput: There are no data, or a setting is one that the command decides.
    """
    first, *others = arguments
    if "=" not in first or Path(first).exists():
        name = "csv" if Path(first).suffix.lower() == ".csv" else "folder"
        arguments = [f"data.name={name}", f"data.root={first}", *others]
    elif not any(setting.startswith("data.name=") for setting in arguments):
        raise BadInput("give a folder of pictures, or data.name=... for a data set")
    values: dict[str, Any] = shipped()["base"]
    for setting in arguments:
        section = setting.partition("=")[0].partition(".")[0]
        if section not in SECTIONS:
            raise BadInput(
                f"'{setting}' cannot be set: 'choose' takes keys of {', '.join(SECTIONS)}; "
                f"{did_you_mean(section, SECTIONS)}"
            )
        values = override(values, setting)
    if values["model"]["frozen"] is not True:
        raise BadInput("'choose' compares heads on frozen features, so model.frozen stays true")
    return values


def study_of(
    settings: Mapping[str, Any], folds: int, name: str, label: str, shrink: float | None = None
) -> StudyConfig:
    """The study of all candidates.

    Args:
        settings: What :func:`settings_of` returned.
        folds: Parts that the training classes are cut into.
        name: The name of the study.
        label: The name of the data set in tables.
        shrink: The shrinkage of the LDA from which heads start; None: as the settings say.

    Returns:
        The study, checked.
    """
    base = {key: value for key, value in settings.items() if key not in ("data", "seed")}
    common: dict[str, Any] = {"search": {"optim.lr": {"choices": shipped()["rates"]}}}
    if shrink is not None:
        common["set"] = {"model.head_init": "lda", "model.head_shrink": shrink}
    own = {
        "name": name,
        "seed": settings.get("seed", 0),
        "data": {**settings["data"], "label": label},
        "base": base,
        "methods": [merge(method, common) for method in shipped()["methods"]],
    }
    study = merge(shipped()["study"], {"protocol": {"folds": folds}})
    return parse_study(study | own, "choose")
