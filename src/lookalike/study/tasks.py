"""Pieces of work that can be sent to any process: plain values in, plain values out."""

from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Outcome", "Task"]

Kind = Literal["validate", "repeat", "baselines"]


@dataclass(frozen=True)
class Task:
    """One piece of work.

    ``validate``: train one fold without the test set. ``repeat``: train every fold and test.
    ``baselines``: what needs no training.
    """

    key: str
    kind: Kind
    config: dict[str, Any]
    """A ``RunConfig``, resolved."""
    checkpoints: bool = False
    title: str = ""
    """What a person reads while it runs."""


@dataclass(frozen=True)
class Outcome:
    """What came of a task: its record, or that the process that had it died."""

    task: Task
    record: dict[str, Any] | None
