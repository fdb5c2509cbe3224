"""Training curves: loss and validation score by epoch, one line a method."""

from collections.abc import Sequence
from dataclasses import dataclass

from lookalike.report.run_data import ReportRun

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


def validation_metric(runs: Sequence[ReportRun]) -> str:
    """The metric that chose the epoch of the first trained run."""
    trained = [run for run in runs if not run.untrained]
    return (trained or runs)[0].config.train.metric


def curves(runs: Sequence[ReportRun]) -> list[Curve]:
    """The curves of the runs that were trained, all by the same validation metric."""
    key = f"validation {validation_metric(runs)}"
    return [_curve(run, key) for run in runs if not run.untrained]


def _curve(run: ReportRun, key: str) -> Curve:
    validated = [entry for entry in run.epochs if key in entry]
    return Curve(
        name=run.name,
        epochs=[int(entry["epoch"]) for entry in run.epochs],
        loss=[float(entry["loss"]) for entry in run.epochs],
        validated=[int(entry["epoch"]) for entry in validated],
        scores=[float(entry[key]) for entry in validated],
        chosen_epoch=run.result.get("chosen_epoch"),
    )
