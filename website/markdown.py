"""Pages of Markdown as the site wants them: front matter, formulas as MathML, links that hold."""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from latex2mathml.converter import convert

DISPLAY = re.compile(r"^\$\$\n?(.+?)\n?\$\$$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"\$`(.+?)`\$")
LINK = re.compile(r"\]\((?:\.\./)*(README|CONTRIBUTING|CHANGELOG)\.md(#[\w-]+)?\)")
SOURCE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+src/[^)]+\)")
"""Links to source files, which are no part of the site."""
COMMENT = re.compile(r"^<!--.*?-->\n+", re.MULTILINE | re.DOTALL)


def with_front_matter(title: str, description: str, body: str) -> str:
    """A page with the title and the description that browsers and search engines show."""
    return f"---\ntitle: {json.dumps(title)}\ndescription: {json.dumps(description)}\n---\n\n{body}"


def formula(latex: str) -> str:
    """A formula on a line of its own, as MathML: no script, no font, no network."""
    return f'<div class="formula">{convert(latex.strip(), display="block")}</div>'


def with_formulas(body: str) -> str:
    r"""The page with ``$$...$$`` and ``$`...`$``, as GitHub writes formulas, turned to MathML."""
    body = DISPLAY.sub(lambda found: formula(found[1]), body)
    return INLINE.sub(lambda found: convert(found[1]), body)


def staged(body: str, place: Path) -> str:
    """A page of ``docs/`` as the site shows it.

    Args:
        body: The Markdown of the page.
        place: Where it lies below ``docs/``; links to the README and its neighbours depend on it.

    Returns:
        The page without comments for tests, with formulas and with links inside the site.
    """
    up = "../" * (len(place.parts) - 1)
    body = LINK.sub(lambda m: f"]({up}{m[1].lower()}.md{m[2] or ''})", COMMENT.sub("", body))
    body = SOURCE.sub(r"\1", body)
    return with_formulas(body.replace("](docs/", "]("))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; bars inside cells are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    escaped = ([cell.replace("|", "\\|") for cell in row] for row in lines)
    return "\n".join(f"| {' | '.join(row)} |" for row in escaped)
