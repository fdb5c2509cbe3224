"""Reports: tables of scores, and the page that shows runs and studies.

Names are imported when first asked for: the page needs plotly and all of training, a list does not.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lookalike.report.page import write_page
    from lookalike.report.scores import score_table
    from lookalike.report.tables import Table, as_csv, as_html, as_latex, as_markdown, as_text

__all__ = [
    "Table",
    "as_csv",
    "as_html",
    "as_latex",
    "as_markdown",
    "as_text",
    "score_table",
    "write_page",
]
HOMES = {"write_page": "page", "score_table": "scores"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = HOMES.get(name, "tables")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
