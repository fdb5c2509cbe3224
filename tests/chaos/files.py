"""What happens to files on disks: one is removed, cut, or one of its bits is flipped."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

__all__ = ["KINDS", "PLAIN_FILES", "damage", "files_in", "names_of"]

KINDS = ("remove", "cut", "flip", "flip", "flip")
WHOLE = ("model",)
"""Folders whose files are one thing, which a sentence may name: an embedder."""
PLAIN_FILES = ("result.json", "timing.json", "classes.csv", "metrics.jsonl")
"""Texts of a run, for people as well: one digit in them may become another."""
INSTEAD = {"result.json": ("is not finished",)}
"""What a sentence may have instead: a run without a result."""


def files_in(folder: Path, *leave_out: str) -> list[Path]:
    """The files below a folder that have content, in order; without those of some names."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
    return [
        path
        for path in found
        if path.stat().st_size and not any(name in str(path) for name in leave_out)
    ]


def damage(random: Random, path: Path, kinds: Sequence[str] = KINDS) -> str:
    """Damage one file; what was done."""
    content = bytearray(path.read_bytes())
    kind = random.choice(kinds)
    if kind == "remove":
        path.unlink()
        return f"removed {path.name}"
    if kind == "cut":
        length = random.randrange(len(content))
        path.write_bytes(content[:length])
        return f"cut {path.name} to {length} bytes"
    bit = random.randrange(8 * len(content))
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)
    return f"flipped bit {bit} of {path.name}"


def names_of(path: Path) -> tuple[str, ...]:
    """What a sentence about a damaged file must have one of: its name, or what it is a part of."""
    whole = tuple(str(one) for one in path.parents if one.name in WHOLE)
    return path.name, *whole, *INSTEAD.get(path.name, ())
