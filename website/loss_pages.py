"""A page for each loss: formula, picture, paper, arguments, published settings, our results."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from lookalike.losses import tuned
from lookalike.published import read_table
from lookalike.registry import LOSSES, Entry
from lookalike.study.config import shipped_methods
from lookalike.study.results import MethodRow, StudyResults
from lookalike.study.table import load_results
from website import curves
from website.loss_tables import formula_of
from website.markdown import formula, table
from website.reference import Page

ROOT = Path(__file__).parents[1]
FORMULAS: dict[str, str] = yaml.safe_load(
    (Path(__file__).parent / "formulas.yaml").read_text(encoding="utf-8")
)
FEWEST_REPEATS = 3
"""An interval over two repeats is so wide that it says nothing."""
LEGEND = (
    "d is a distance, s a similarity (cosine unless `distance` says otherwise), P and N the "
    "positives and negatives of an anchor, w a learned class vector, m a margin, [x]₊ the larger "
    "of x and 0."
)


def loss_pages(pictures: Path) -> Iterator[Page]:
    """The list of all losses and a page for each; their pictures are written to a folder."""
    entries = [e for e in LOSSES.entries() if e.build.__module__.startswith("lookalike.")]
    rows = [(f"[{e.name}]({_file(e.name)})", e.summary, _cited(e)) for e in entries]
    listed = [
        "# Losses",
        "",
        "Every loss by name, as `lookalike list losses` prints them. What they share, miners and "
        "reducers: [losses, miners, regularisers](../../losses.md); all classes: "
        "[`lookalike.losses`](../api/losses.md).",
        "",
        table(("loss", "what it does", "paper"), rows),
        "",
    ]
    about = "All losses of Lookalike, each with formula, picture, paper, defaults and results."
    yield Page("reference/losses/index.md", "Losses", about, "\n".join(listed))
    for entry in entries:
        if entry.name not in curves.WITHOUT_PICTURE:
            curves.draw(entry.name, pictures / _stem(entry.name))
        yield _page(entry)


def _stem(name: str) -> str:
    return name.replace("++", "-plus-plus")


def _file(name: str) -> str:
    return f"{_stem(name)}.md"


def _page(entry: Entry) -> Page:
    parts = [f"# {entry.name}", "", f"{entry.summary}", "", _formula(entry), ""]
    parts += [LEGEND, "", *_paper(entry), *_picture(entry)]
    path = f"lookalike.losses.{entry.build.__name__}"
    parts += ["## Class and arguments", "", f"::: {path}", "    options:", "      heading_level: 3"]
    parts += ["      members: false", "", *_published(entry), *_searched(entry)]
    parts += _ours(entry)
    about = f"The {entry.name} loss: {entry.summary} Formula, picture, defaults, settings, results."
    return Page(f"reference/losses/{_file(entry.name)}", entry.name, about, "\n".join(parts))


def _cited(entry: Entry) -> str:
    return f"[{entry.paper}]({entry.url})" if entry.url else entry.paper


def _formula(entry: Entry) -> str:
    """In LaTeX where it is written so, else as the docstring has it."""
    latex = FORMULAS.get(entry.name)
    return formula(latex) if latex else f"`{formula_of(entry)}`"


def _paper(entry: Entry) -> list[str]:
    lines = [f"**Paper:** {_cited(entry)}."]
    for cited in read_table("literature"):
        if cited["method"] == entry.name and cited["url"] not in ("", entry.url):
            lines.append(f"[{cited['title']}]({cited['url']}) ({cited['venue']} {cited['year']}).")
    return [*lines, ""]


def _picture(entry: Entry) -> list[str]:
    lines = ["## Loss and gradient against similarity", ""]
    if entry.name in curves.WITHOUT_PICTURE:
        return [*lines, f"Not drawn: {curves.WITHOUT_PICTURE[entry.name]}.", ""]
    place = f"../../figures/losses/{_stem(entry.name)}"
    return [
        *lines,
        '<div class="pair" markdown>',
        "",
        f"![The {entry.name} loss against cosine similarity]({place}.svg)",
        "",
        f"![The gradient of the {entry.name} loss against cosine similarity]({place}-gradient.svg)",
        "",
        "</div>",
        "",
        "Computed from the loss itself with its default settings, for one anchor, one positive and "
        "one negative (of a proxy loss: the two class vectors). Solid: the positive moves, and the "
        f"negative stays at cosine {curves.NEGATIVE}. Dashed: the negative moves, and the positive "
        f"stays at {curves.POSITIVE}. The gradient is the derivative by that cosine; below zero "
        "it pulls towards the anchor, above zero it pushes away.",
        "",
    ]


def _published(entry: Entry) -> list[str]:
    rows = []
    for one in tuned(entry.name):
        settings = {**{f"loss.{key}": value for key, value in one.values.items()}, **one.beside}
        cells = ", ".join(f"`{key}={value}`" for key, value in settings.items())
        rows.append((one.dataset, cells, one.source))
    if not rows:
        return ["## Published settings", "", "None in the papers that are stored here.", ""]
    head = ("data set", "settings", "source")
    note = "From `src/lookalike/published`, as `lookalike list losses NAME` prints them."
    return ["## Published settings", "", table(head, rows), "", note, ""]


def _searched(entry: Entry) -> list[str]:
    """The ranges that a study searches for this loss, from the shipped spaces."""
    space = shipped_methods().get(entry.name)
    if space is None or not space.get("search"):
        return []
    rows = [(f"`{key}`", _range(given)) for key, given in space["search"].items()]
    note = f"What a study with the method `{entry.name}` searches ({space['source']})."
    return ["## Searched by studies", "", table(("key", "range"), rows), "", note, ""]


def _range(given: Any) -> str:
    if isinstance(given, list):
        return f"{given[0]} to {given[1]}"
    if "choices" in given:
        return ", ".join(map(str, given["choices"]))
    scale = ", on a logarithmic scale" if given.get("log") else ""
    return f"{given['low']} to {given['high']}{scale}"


@cache
def _studies() -> tuple[StudyResults, ...]:
    """Every stored study of this repository."""
    folders = sorted(path.parent for path in (ROOT / "results").rglob("study.db"))
    return tuple(load_results(folder) for folder in folders)


def _ours(entry: Entry) -> list[str]:
    rows = [
        _result(study, row)
        for study in _studies()
        for row in study.rows
        if row.repeats and row.config.get("loss", {}).get("name") == entry.name
    ]
    if not rows:
        return ["## Our results", "", "No stored study of this repository has this loss.", ""]
    head = ("study", "data", "method", "MAP@R", "Recall@1", "repeats", "tuned settings")
    return [
        "## Our results",
        "",
        "Per cent on test classes: mean over repeats and, where there are three or more, half of "
        "its 95 % interval; models of the folds scored one by one. Read from `results/` when this "
        "page was built. Scores of two studies are not comparable, and which difference is shown "
        "says `lookalike compare` ([comparing](../../comparing.md)).",
        "",
        table(head, rows),
        "",
    ]


def _result(study: StudyResults, row: MethodRow) -> tuple[str, ...]:
    place = study.folder.relative_to(ROOT)
    tuned_to = ", ".join(f"`{key}={_number(value)}`" for key, value in row.tuned.items())
    note = " (of an earlier version)" if row.outdated else ""
    scores = [_score(row, metric) for metric in ("map@r", "recall@1")]
    label = row.label + note
    return (f"`{place}`", row.dataset, label, *scores, str(row.seeds), tuned_to or "none")


def _score(row: MethodRow, metric: str) -> str:
    if any(metric not in fold for repeat in row.repeats for fold in repeat.separate):
        return ""
    found = row.interval(metric, "separate")
    half = found.half if len(row.repeats) >= FEWEST_REPEATS else None
    return f"{100 * found.mean:.1f}" + ("" if half is None else f" ± {100 * half:.1f}")


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
