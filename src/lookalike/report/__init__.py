"""Reports: tables of scores, and the page that shows runs and studies.

Names are imported when first asked for: the page needs plotly and all of training, a list does not.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lookalike.report.page import write_page
    from lookalike.report.tables import (
        ScoreTable,
        as_csv,
        as_latex,
        as_markdown,
        as_text,
        score_table,
    )

__all__ = [
    "ScoreTable",
    "as_csv",
    "as_latex",
    "as_markdown",
    "as_text",
    "score_table",
    "write_page",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "page" if name == "write_page" else "tables"
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
