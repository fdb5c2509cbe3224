"""The gallery: examples in the percent format, run cell by cell and written as pages.

``python -m website.gallery`` runs ``examples/*.py`` and writes ``docs/gallery/*.md`` with what each
cell printed and drew. A test runs them again and compares.
"""

import contextlib
import io
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
PAGES = ROOT / "docs" / "gallery"
MARKER = re.compile(r"^# %%( \[markdown\])?\n", re.MULTILINE)


@dataclass(frozen=True)
class Cell:
    """One cell of an example: text, or code."""

    is_text: bool
    source: str


def cells(text: str) -> list[Cell]:
    """The cells of a file in the percent format.

    >>> [cell.source for cell in cells("# %% [markdown]\\n# # Title\\n\\n# %%\\nprint(1)\\n")]
    ['# Title', 'print(1)']
    """
    _, *parts = MARKER.split(text)
    found = []
    for marked, source in zip(parts[::2], parts[1::2], strict=True):
        lines = source.strip("\n")
        if marked:
            lines = re.sub("^# ?", "", lines, flags=re.MULTILINE)
        found.append(Cell(bool(marked), lines))
    return found


def run(example: Path, pictures: Path) -> str:
    """Run an example in an empty folder, and write its page.

    Args:
        example: The file.
        pictures: Where the figures that are open after a cell are saved.

    Returns:
        The page, in Markdown.
    """
    parts = [f"<!-- made by `make gallery` from examples/{example.name} -->"]
    names = {"__name__": "__main__", "__file__": str(example)}
    path = list(sys.path)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for number, cell in enumerate(cells(example.read_text(encoding="utf-8"))):
            if cell.is_text:
                parts.append(cell.source)
                continue
            parts.append(f"```python\n{cell.source}\n```")
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(cell.source, f"{example.name}, cell {number}", "exec"), names)
            if printed.getvalue():
                parts.append(f"```text\n{printed.getvalue().rstrip()}\n```")
            for figure in map(plt.figure, plt.get_fignums()):
                name = f"{example.stem}-{number}.png"
                figure.savefig(pictures / name, bbox_inches="tight", metadata={"Software": ""})
                plt.close(figure)
                parts.append(f"![What the cell above draws]({name})")
    sys.path[:] = path  # an example may import a module that it has written
    return "\n\n".join(parts) + "\n"


def without_output(page: str) -> str:
    """A page without what its cells printed: numbers differ from processor to processor."""
    return re.sub(r"^```text\n.*?^```\n", "```text\n```\n", page, flags=re.MULTILINE | re.DOTALL)


def title_of(page: str) -> tuple[str, str]:
    """The heading of a page, and the first sentence below it."""
    found = re.search(r"^# ([^\n]+)\n\n(.+?\.)(?:\s|$)", page, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError("an example begins with a heading and a sentence")
    return found[1], " ".join(found[2].split())


def main() -> None:
    """Run the examples that are named, or all, and write their pages."""
    wanted = sys.argv[1:] or [path.stem for path in sorted(EXAMPLES.glob("*.py"))]
    PAGES.mkdir(exist_ok=True)
    for name in wanted:
        page = run(EXAMPLES / f"{name}.py", PAGES)
        (PAGES / f"{name}.md").write_text(page, encoding="utf-8")
        print(f"docs/gallery/{name}.md")


if __name__ == "__main__":
    main()
