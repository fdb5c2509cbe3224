"""Reports: tables of scores, and the page that shows runs and studies."""

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
