"""Training curves: the loss and the validation score by epoch."""

from collections.abc import Sequence
from dataclasses import dataclass

from lookalike.compare.contenders import Contender

__all__ = ["Curve", "curves", "validation_metric"]


@dataclass(frozen=True)
class Curve:
    """One method by epoch. Not every epoch need be validated, so the two lists of epochs differ."""

    name: str
    epochs: list[int]
    loss: list[float]
    validated: list[int]
    scores: list[float]
    chosen_epoch: int | None


def validation_metric(contenders: Sequence[Contender]) -> str:
    """The metric that chose the epoch of the first trained run."""
    trained = [one for one in contenders if not one.baseline and one.config is not None]
    return trained[0].config.train.metric if trained and trained[0].config else "map@r"


def curves(contenders: Sequence[Contender]) -> list[Curve]:
    """The curves of the runs that were trained (a method's first), by one validation metric."""
    key = f"validation {validation_metric(contenders)}"
    found = [_curve(one, key) for one in contenders if one.runs and not one.baseline]
    return [curve for curve in found if curve.epochs]


def _curve(one: Contender, key: str) -> Curve:
    run = one.runs[0]
    log = run.epochs()
    trained = [entry for entry in log if "loss" in entry]  # all but the state before training
    validated = [entry for entry in log if key in entry]
    return Curve(
        name=one.name,
        epochs=[int(entry["epoch"]) for entry in trained],
        loss=[float(entry["loss"]) for entry in trained],
        validated=[int(entry["epoch"]) for entry in validated],
        scores=[float(entry[key]) for entry in validated],
        chosen_epoch=run.result.get("chosen_epoch"),
    )
