"""How a method looks everywhere on the page: its colour, its line and its marker."""

from collections.abc import Iterable
from dataclasses import dataclass

from lookalike.compare.contenders import Contender

__all__ = ["Method", "style"]

COLOURS = 6


@dataclass(frozen=True)
class Method:
    """Colour (None: grey, for baselines), and the kind of line where colours repeat."""

    name: str
    colour: int | None
    line: int


def style(contenders: Iterable[Contender]) -> list[Method]:
    """One look for each name, the same on every data set; baselines come last."""
    everyone = sorted(contenders, key=lambda one: one.baseline)
    trained = list(dict.fromkeys(one.name for one in everyone if not one.baseline))
    found = [Method(name, at % COLOURS, at // COLOURS) for at, name in enumerate(trained)]
    bare = dict.fromkeys(one.name for one in everyone if one.baseline)
    return found + [Method(name, None, at) for at, name in enumerate(bare) if name not in trained]
