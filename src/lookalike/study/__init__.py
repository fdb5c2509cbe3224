"""Studies: many methods, tuned and tested under one honest protocol."""

from lookalike.study.intervals import Interval, interval
from lookalike.study.results import (
    BaselineRow,
    MethodRow,
    Repeat,
    StudyResults,
    Trial,
    load_results,
)

__all__ = [
    "BaselineRow",
    "Interval",
    "MethodRow",
    "Repeat",
    "StudyResults",
    "Trial",
    "interval",
    "load_results",
]
