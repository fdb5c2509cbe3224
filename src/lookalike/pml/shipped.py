"""The parts of Lookalike as pytorch-metric-learning (PML) has them: one mechanism for all kinds.

``shipped(part, habits)`` is a subclass of a part of ours. It takes PML's own objects for distances,
reducers and miners, and refuses a subclass that overrides an inner step of PML's, which nothing
here would call.
"""

import inspect
from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Any, ClassVar

from lookalike.arguments import Built
from lookalike.errors import BadInput

__all__ = ["NoRecords", "Shipped", "dressed", "no_statistics", "public_parts", "shipped"]


def no_statistics(part: object, collect_stats: bool | None) -> None:
    """Refuse ``collect_stats=True``; PML's other values ask for nothing."""
    if collect_stats:
        raise BadInput(f"{type(part).__name__} keeps no statistics; leave collect_stats out")


class NoRecords:
    """What runs without PML's record keeper."""

    def add_to_recordable_attributes(self, *_: Any, **__: Any) -> None:
        """Nothing: PML's record keeper is not here."""


class Shipped(NoRecords):
    """What a kind of parts has besides its own: the habits of PML."""

    hooks: ClassVar[str]
    """Steps of PML's parts of this kind that a subclass might override, and nothing calls."""
    instead: ClassVar[str]
    """What such a subclass does here."""
    arguments: ClassVar[Mapping[str, tuple[Any, Any]]] = {}
    """Types and defaults of the arguments by keyword that PML's parts of this kind have."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        kind = next(each for each in cls.__mro__ if "hooks" in vars(each))
        for name in cls.hooks.split():
            if getattr(cls, name, None) is not getattr(kind, name, None):
                raise BadInput(
                    f"{cls.__name__} overrides {name}, which no part of Lookalike calls; "
                    f"{cls.instead}"
                )


BASES = {
    *("AdjustableDistance", "Distance", "Loss", "Miner", "PairLoss", "ProxyLoss", "Reducer"),
    "Regularizer",
}
"""Classes of Lookalike that are written anew by subclasses; PML knows nothing of them."""

OF_MODULES: dict[str, tuple[Any, Any]] = {"collect_stats": (bool | None, Built(no_statistics))}


def shipped(part: type, habits: type[Shipped], module: str) -> type:
    """A part of ours with the habits of PML, a class of the same name.

    Args:
        part: A class of Lookalike.
        habits: What PML's parts of its kind have besides.
        module: Where the class lives.

    Returns:
        A subclass of ``part``.
    """
    names: dict[str, Any] = {"__module__": module, "__doc__": part.__doc__}
    if habits.arguments:
        types = {name: kind for name, (kind, _) in habits.arguments.items()}
        names["__annotations__"] = {"_": KW_ONLY} | types
        names |= {name: default for name, (_, default) in habits.arguments.items()}
    else:
        names["__signature__"] = inspect.signature(part)
    return type(part.__name__, (habits, part), names)


def public_parts(room: Any, base: type, habits: type[Shipped], module: str) -> dict[str, Any]:
    """Everything public of a room of ours by name, its parts of one kind with PML's habits."""
    found = {name: getattr(room, name) for name in room.__all__ if name not in ("create", "names")}
    return {
        name: shipped(part, habits, module)
        if isinstance(part, type) and issubclass(part, base) and name not in BASES
        else part
        for name, part in found.items()
    }


def dressed(part: Any, made: Mapping[str, Any]) -> Any:
    """An object of a class of ours as one of the class of the same name with PML's habits."""
    found = made.get(type(part).__name__)
    if found is None or type(part) is not found.__bases__[1]:
        return part
    other = found.__new__(found)
    vars(other).update(vars(part))
    return other
