"""The tables of losses, miners, reducers and samplers, from their docstrings and declarations.

python -m website.loss_tables      # make loss-tables, after one of them is added or changed
"""

import inspect
import re
from collections.abc import Sequence
from pathlib import Path

import lookalike.miners
import lookalike.reducers
import lookalike.samplers  # noqa: F401 (a room registers its parts when it is imported)
from lookalike.losses import Loss, Tuned, tuned
from lookalike.registry import LOSSES, MINERS, REDUCERS, SAMPLERS, Entry, Registry
from lookalike.report import catalogue

DOCS = Path(__file__).parents[1] / "docs"
CODE = re.compile(r"``(.+?)``", re.DOTALL)


def formula_of(entry: Entry) -> str:
    """The formula in the docstring of a loss: the first code that has a sum or a bracket."""
    spans = [" ".join(span.split()) for span in CODE.findall(inspect.getdoc(entry.build) or "")]
    formulas = [span for span in spans if " " in span and re.search(r"[(\[]|sum", span)]
    text = re.sub(r"\|([A-Z]\+?)\|", r"#\1", next(iter(formulas), ""))
    return re.sub(r"\|(\w+)\|", r"norm(\1)", text)  # a table has no other bars


def loss_tables() -> dict[str, str]:
    """The tables below the markers of the page: formulas, papers with defaults, tuned settings."""
    shared = set(inspect.signature(Loss).parameters) | {
        name
        for name, one in inspect.signature(LOSSES.find("proxy-anchor").build).parameters.items()
        if one.kind is one.KEYWORD_ONLY
    }
    formulas: list[tuple[str, ...]] = []
    papers: list[tuple[str, ...]] = []
    for entry in LOSSES.entries():
        if not entry.build.__module__.startswith("lookalike."):
            continue
        mixes = "yes" if getattr(entry.build, "additive", False) else ""
        about = entry.summary.replace("|", "/")
        code = f"`{formula_of(entry)}`" if formula_of(entry) else ""
        formulas.append((entry.name, f"`{entry.build.__name__}`", about, code, mixes))
        paper = f"[{entry.paper}]({entry.url})" if entry.url else entry.paper
        papers.append((entry.name, paper, _arguments("losses", entry, shared)))
    tuned_rows = [
        (name, one.dataset, _settings(one), one.source)
        for name in LOSSES.names()
        for one in tuned(name)
    ]
    return {
        "formulas": _rows(("name", "class", "what it does", "formula", "mixes"), formulas),
        "papers": _rows(("loss", "paper", "arguments and defaults"), papers),
        "tuned": _rows(("loss", "data set", "settings", "source"), tuned_rows),
    }


def table_of(registry: Registry) -> str:
    """Name, class, what the docstring says, and arguments of all parts of a kind."""
    shared = {"distance", "label_comparison", "labels", "batch_size", "seed"}
    rows = [
        (
            e.name,
            f"`{e.build.__name__}`",
            e.summary.replace("``", "`"),
            _arguments(registry.kind, e, shared),
        )
        for e in registry.entries()
        if e.build.__module__.startswith("lookalike.")
    ]
    return _rows(("name", "class", "what it does", "arguments and defaults"), rows)


def tables_of(page: str) -> dict[str, str]:
    """The tables of a page of docs/ by their markers."""
    if page == "training":
        return {"samplers": table_of(SAMPLERS)}
    return loss_tables() | {"miners": table_of(MINERS), "reducers": table_of(REDUCERS)}


def with_tables(page: str, tables: dict[str, str]) -> str:
    """The page with each table below its marker written anew."""
    for name, rows in tables.items():
        marker = f"<!-- {name}: make loss-tables -->\n"
        before, found, after = page.partition(marker)
        assert found, f"there is no marker {marker}"
        page = before + marker + rows + re.sub(r"\A(?:\|.*\n)*", "", after)
    return page


def _arguments(kind: str, entry: Entry, shared: set[str]) -> str:
    defaults = catalogue.page(kind, entry.name).defaults
    return ", ".join(
        f"`{name}`" if value == "required" else f"`{name}={value}`"
        for name, value in defaults.items()
        if name not in shared | {"label_comparison"}
    )


def _settings(one: Tuned) -> str:
    return ", ".join(f"`{key}={value}`" for key, value in {**one.values, **one.beside}.items())


def _rows(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def main() -> None:
    """Write the pages."""
    for name in ("losses", "training"):
        page = DOCS / f"{name}.md"
        text = with_tables(page.read_text(encoding="utf-8"), tables_of(name))
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
