"""What cannot be in an index: files elsewhere, other formats, and what is no text."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lookalike.data.image_files import OTHER_FORMATS, reason_of_format

__all__ = ["Skipped", "file_inside", "is_text", "refusal_of_file", "refusal_of_text"]


@dataclass(frozen=True)
class Skipped:
    """A picture that was left out.

    Args:
        path: Its name in the source.
        reason: Why, in a few words.
    """

    path: str
    reason: str


def file_inside(root: Path, path: str) -> Path | None:
    """The real file behind ``path``; None where that is not a file under ``root``."""
    try:
        real = (root / path).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None
    return real if real.is_relative_to(root) and real.is_file() else None


def is_text(value: str) -> bool:
    r"""Whether every index can store a string: no NUL, and nothing that UTF-8 cannot encode.

    >>> is_text("caf\u00e9"), is_text("caf\udce9"), is_text("a\0b")
    (True, False, False)
    """
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in value


def refusal_of_text(path: str, label: str | None, metadata: Mapping[str, str]) -> str:
    """Why an index could not store what is known of a picture; empty where it could.

    Args:
        path: Its path.
        label: Its label.
        metadata: Its metadata.

    Returns:
        The reason, in a few words.
    """
    if not is_text(path):
        return "its name is not UTF-8"
    others = (label or "", *metadata, *metadata.values())
    return "" if all(map(is_text, others)) else "its label or metadata is not text"


def shown(path: str) -> str:
    """A path that can be printed."""
    return path.encode(errors="replace").decode()


def refusal_of_file(root: Path, path: str) -> str:
    """Why a file cannot be used; empty where it can."""
    if Path(path).suffix.lower() in OTHER_FORMATS:
        return reason_of_format(Path(path).suffix)
    if file_inside(root, path) is not None:
        return ""
    there = (root / path).exists()
    return f"it is not a file under '{root}'" if there else "there is no such file"
