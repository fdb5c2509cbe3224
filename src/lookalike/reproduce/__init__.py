"""Tables and figures of papers by one command: a selection of recipes, run as a study.

``entries()`` lists what can be reproduced, ``rows(entry("metrix/cub"))`` what it trains, and
``make_plan`` how many trainings that are.
"""

from lookalike.reproduce.catalogue import Entry, entries, entry, find_entries
from lookalike.reproduce.plan import Plan, make_plan
from lookalike.reproduce.selection import Row, rows

__all__ = ["Entry", "Plan", "Row", "entries", "entry", "find_entries", "make_plan", "rows"]
