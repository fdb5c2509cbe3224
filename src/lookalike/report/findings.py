"""One HTML file of rows of pictures: duplicates, or labels that may be wrong."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from lookalike.files import atomically
from lookalike.report.formatting import template, template_text

MOST = 200


@dataclass(frozen=True)
class Picture:
    """One picture of a row: a data URI (empty: the file is missing), two lines, and a mark."""

    uri: str
    first: str
    second: str
    file: str
    mark: str = ""


@dataclass(frozen=True)
class Finding:
    """A row of pictures with a line above it."""

    title: str
    pictures: tuple[Picture, ...]


def write_findings(path: Path, title: str, lead: Sequence[str], rows: Sequence[Finding]) -> Path:
    """Write the page: the first :data:`MOST` rows, and how many there are."""
    css = Markup(template_text("page.css") + template_text("findings.css"))
    text = template("findings.html.j2").render(
        title=title, lead=lead, rows=rows[:MOST], total=len(rows), css=css
    )
    with atomically(path) as draft:
        draft.write_text(text, encoding="utf-8")
    return path
