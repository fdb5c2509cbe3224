"""Tables and figures of papers by one command: a selection of recipes, run as a study.

``entries()`` lists what can be reproduced, ``rows(entry("metrix/cub"))`` what it trains, and
``make_plan`` how many trainings that are.
"""

import importlib
from typing import TYPE_CHECKING, Any

from lookalike.papers.catalogue import Entry, entries, entry, find_entries

if TYPE_CHECKING:  # they need torch, and the catalogue is to be listed at once
    from lookalike.papers.plan import Plan, make_plan
    from lookalike.papers.selection import Row, rows

__all__ = ["Entry", "Plan", "Row", "entries", "entry", "find_entries", "make_plan", "rows"]

_HOMES = {"Plan": "plan", "Row": "selection", "make_plan": "plan", "rows": "selection"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
