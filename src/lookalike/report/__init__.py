"""Reports: tables of scores, and the page that shows runs."""

from lookalike.report.page import write_page
from lookalike.report.run_data import ReportRun
from lookalike.report.tables import (
    ScoreTable,
    as_csv,
    as_markdown,
    as_text,
    print_scores,
    score_table,
)

__all__ = [
    "ReportRun",
    "ScoreTable",
    "as_csv",
    "as_markdown",
    "as_text",
    "print_scores",
    "score_table",
    "write_page",
]
