"""The page of a reproduction: what was reproduced, what differs, whether the claims held."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from lookalike import published
from lookalike.errors import BadInput
from lookalike.files import write_texts
from lookalike.papers.catalogue import Entry
from lookalike.papers.figures import Part, part_of
from lookalike.papers.lists import list_table
from lookalike.papers.outcome import Outcome
from lookalike.papers.tables import ResultTable, as_csv, as_latex, as_markdown, result_table
from lookalike.report.charts import styles
from lookalike.report.embeddings import EmbeddingViews
from lookalike.report.formatting import data_link, template, template_text
from lookalike.report.page import CLASS_COLOURS, DOWNLOADS
from lookalike.report.tuning import Tuning

__all__ = ["write_list_page", "write_page"]

SCRIPTS = ("base", "tuning", "gallery", "map")
"""Of a report; its charts are replaced by this page's own."""
PAGE = 120
"""Characters of a table's line at a width of 1280 px, with the space between columns."""
LONG = 24
"""A table of more rows can be folded."""
FIRST_DEVIATIONS = 4


@dataclass(frozen=True)
class Block:
    """What the parts of a report need that this page shows too; they count data sets from 0."""

    tunings: list[Tuning]
    views: EmbeddingViews | None

    def for_script(self) -> dict[str, Any]:
        """What their scripts need."""
        return {
            "tunings": [asdict(one) for one in self.tunings],
            "map": self.views.map | {"names": self.views.names} if self.views else None,
            "tiny": self.views.tiny if self.views else False,
        }


def write_page(path: Path, outcome: Outcome, seed: int = 0) -> list[Path]:
    """Write the page of a reproduction, and its table beside it.

    Args:
        path: The page; it ends in ``.html``.
        outcome: What came out.
        seed: Of the map and of mixed pairs.

    Returns:
        All files: the page, CSV, Markdown and LaTeX.

    Raises:
        BadInput: The path is not that of an HTML file.
    """
    _check(path)
    table = result_table(outcome)
    texts = {".csv": as_csv(outcome), ".md": as_markdown(table), ".tex": as_latex(table)}
    if outcome.drawn:
        texts = {}
    figures = outcome.entry.figures if outcome.rows or outcome.drawn else ()
    parts = [part_of(figure, outcome, seed) for figure in figures]
    parts = [part for part in parts if not part.is_empty]
    parts = [replace(part, id=f"{part.id}-{at}") for at, part in enumerate(parts)]
    page = _page(outcome, table, parts, texts)
    return write_texts(path, {".html": page} | texts)


def write_list_page(path: Path, entry: Entry, command: str = "") -> list[Path]:
    """Write the page of a list of a document, which needs no training.

    Args:
        path: The page; it ends in ``.html``.
        entry: A list of the catalogue.
        command: The command that writes it.

    Returns:
        The page.

    Raises:
        BadInput: The path is not that of an HTML file, or the entry is no list.
    """
    _check(path)
    table = list_table(entry.lists)
    text = template("list.html.j2", __package__).render(
        entry=entry,
        title=entry.heading,
        paper=published.papers()[entry.paper],
        table=table,
        commands=[command] if command else [],
        **_shell(("base",), {"methods": [], "blocks": [], "charts": []}, plotly=False),
    )
    return write_texts(path, {".html": text})


def _check(path: Path) -> None:
    if path.suffix != ".html":
        raise BadInput(f"'{path}' must end in .html")


def _page(
    outcome: Outcome, table: ResultTable, parts: Sequence[Part], texts: dict[str, str]
) -> str:
    methods = styles(row.label for row in outcome.rows)
    block = Block(
        [one for part in parts for one in part.tunings],
        next((part.views for part in parts if part.views), None),
    )
    script_data = {
        "methods": [asdict(method) for method in methods],
        "metric": "",
        "classColours": CLASS_COLOURS,
        "blocks": [block.for_script()],
        "charts": [asdict(chart) for part in parts for chart in part.charts],
        "heat": [asdict(one) for part in parts for one in part.heat],
    }
    downloads = [
        (name, f"table{suffix}", data_link(kind, texts[suffix]))
        for (name, kind), suffix in zip(DOWNLOADS.items(), (".csv", ".md", ".tex"), strict=True)
        if suffix in texts
    ]
    rendered: str = template("reproduction.html.j2", __package__).render(
        outcome=outcome,
        entry=outcome.entry,
        title=outcome.heading,
        small=outcome.scale == "small",
        paper=published.papers()[outcome.entry.paper],
        verdict=_verdict(outcome),
        what=_what(outcome),
        table=table,
        tables=table.parts(PAGE),
        long=len(table.rows) > LONG,
        first_deviations=FIRST_DEVIATIONS,
        parts=parts,
        blocks=[block],
        by_name={method.name: method for method in methods},
        downloads=downloads,
        commands=[outcome.command] if outcome.command else [],
        **_shell(SCRIPTS, script_data),
    )
    return rendered


def _shell(scripts: Sequence[str], script_data: dict[str, Any], plotly: bool = True) -> Any:
    """What the base of all pages needs."""
    own = Path(__file__).parent / "templates"
    script = [template_text(f"script/{name}.js") for name in scripts]
    script += [(own / "figures.js").read_text(encoding="utf-8"), template_text("script/theme.js")]
    css = template_text("page.css") + (own / "reproduction.css").read_text(encoding="utf-8")
    return {
        "script_data": _without_nan(script_data),
        "plotly": Markup(get_plotlyjs() if plotly else ""),
        "css": Markup(css),
        "script": Markup("\n".join(script)),
    }


def _without_nan(value: Any) -> Any:
    """JSON has no NaN."""
    if isinstance(value, dict):
        return {key: _without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _what(outcome: Outcome) -> str:
    """One sentence: how much was trained."""
    rows = outcome.rows
    if outcome.drawn:
        return "Nothing is trained: the figure shows the losses themselves."
    trainings = sum(len(row.trainings) for row in rows)
    trials = sum(len(row.result.trials) for row in rows)
    text = (
        f"{len(rows)} row{'s' * (len(rows) != 1)}, {trainings} tested model{'s' * (trainings != 1)}"
    )
    text += f", {trials:,} trials of a search" if trials else ""
    data = sorted({row.planned.config.data.name for row in rows})
    networks = sorted({row.planned.config.model.network for row in rows})
    return f"{text}; data: {', '.join(data)}; network: {', '.join(networks)}."


def _verdict(outcome: Outcome) -> str:
    """One sentence: how many claims held, and for what."""
    claims = outcome.claims
    if not claims:
        return "The document makes no claim that this table or figure could decide."
    if len(claims) == 1:
        (one,) = claims
        return {"yes": f"Yes: the claim {one.here}.", "no": f"No: the claim {one.here}."}.get(
            one.verdict, "Not shown: the intervals do not decide the claim."
        )
    counts = Counter(one.here for one in claims if one.verdict != "not shown")
    left = len(claims) - counts.total()
    parts = [f"{count} {words}" for words, count in counts.items()]
    parts += [f"{left} could not be decided"] if left else []
    return f"Of {len(claims)} claims {', '.join(parts)}."
