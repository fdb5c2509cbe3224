"""Files that come with the package: recipes and audits of papers; in a clone our results too.

In a clone they are in its folders. Elsewhere the same relative path finds the installed copy, so
that a command of the documentation works in any folder.
"""

from pathlib import Path

__all__ = ["find_shipped", "shipped_folder"]

FOLDERS = {"recipes": "recipes", "docs/audits": "audits", "results": "results"}
"""From the path in a clone to the folder inside the installed package, which has no results."""


def shipped_folder(path: str) -> Path:
    """Where a folder of ``FOLDERS`` is: inside the installed package, or in the source tree."""
    inside = Path(__file__).parent / FOLDERS[path]
    return inside if inside.is_dir() else Path(__file__).parents[2] / path


def find_shipped(path: Path) -> Path:
    """The path itself, or what comes with the package under it where there is no such file.

    >>> find_shipped(Path("recipes/glyphs.yaml")).is_file()
    True
    >>> find_shipped(Path("nowhere.yaml"))
    PosixPath('nowhere.yaml')
    """
    if path.exists() or path.is_absolute():
        return path
    for start in FOLDERS:
        if path.is_relative_to(start):
            copy = shipped_folder(start) / path.relative_to(start)
            return copy if copy.exists() else path
    return path
