"""The parts of Lookalike as pytorch-metric-learning (PML) has them: one mechanism for all kinds.

``ship`` puts a subclass of every part into a module of ``lookalike.pml``. It takes PML's own
objects for distances, reducers and miners, and refuses a subclass that overrides an inner step of
PML's, which nothing here would call.
"""

import inspect
from typing import Any, ClassVar

from torch import nn

from lookalike.errors import BadInput
from lookalike.relations import Relations

__all__ = ["Shipped", "as_pmls", "chosen", "core_of", "dressed", "ship"]


class Shipped:
    """What a kind of parts has besides its own: the habits of PML."""

    hooks: ClassVar[str] = ""
    """Steps of PML's parts of this kind that a subclass might override, and nothing calls."""
    instead: ClassVar[str] = ""
    """What such a subclass does here."""
    core: ClassVar[type | None] = None
    """The part of Lookalike that this is."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        kind = next(each for each in cls.__mro__ if "hooks" in vars(each))
        for name in cls.hooks.split():
            if getattr(cls, name, None) is not getattr(kind, name, None):
                raise BadInput(
                    f"{cls.__name__} overrides {name}, which no part of Lookalike calls; "
                    f"{cls.instead}"
                )

    def add_to_recordable_attributes(self, *_: Any, **__: Any) -> None:
        """Nothing: PML's record keeper is not here."""


BASES = {"AdjustableDistance", "Distance", "Loss", "Miner", "PairLoss", "ProxyLoss", "Reducer"}
"""Classes of Lookalike that are written anew by subclasses; PML knows nothing of them."""


def ship(module: dict[str, Any], base: type, habits: type[Shipped]) -> dict[type, Any]:
    """Put in the place of each part in a module a class of the same name with PML's habits.

    Args:
        module: The names of the module.
        base: What parts of this kind are.
        habits: What PML's parts of this kind have besides.

    Returns:
        The new classes, by those of Lookalike.
    """
    made: dict[type, Any] = {}
    for name, part in module.items():
        shipped = isinstance(part, type) and issubclass(part, base) and name not in BASES
        if shipped and not issubclass(part, Shipped):
            own = {"__module__": module["__name__"], "__doc__": part.__doc__, "core": part}
            if "__init__" in vars(habits) and not issubclass(base, nn.Module):
                own["__signature__"] = inspect.signature(part)
            made[part] = type(name, (habits, part), own)
    module.update({part.__name__: found for part, found in made.items()})
    return made


def core_of(part: object) -> type:
    """The class of Lookalike that a shipped part is; that of any other is its own."""
    found: type = vars(type(part)).get("core") or type(part)
    return found


def chosen(part: Any, given: Any, what: str) -> Any:
    """What was given; or what ``get_default_distance`` says, or the default of the part."""
    default = getattr(part, f"get_default_{what}", getattr(type(part), f"default_{what}"))
    return default() if given is None else given


def dressed(part: Any, made: dict[type, Any]) -> Any:
    """An object of a class of ours as one of the class of the same name with PML's habits."""
    if type(part) not in made:
        return part
    other = object.__new__(made[type(part)])
    vars(other).update(vars(part))
    return other


def as_pmls(relations: Relations) -> tuple[Any, Any, Any, Any]:
    """The embeddings, labels, ``ref_emb`` and ``ref_labels`` that PML's parts take."""
    r = relations
    assert r.embeddings is not None
    device = r.embeddings.device
    labels, others = (None if y is None else y.to(device) for y in (r.labels, r.ref_labels))
    if r.ref_emb is None:
        return r.embeddings, labels, r.embeddings, labels
    return r.embeddings, labels, r.ref_emb, others
