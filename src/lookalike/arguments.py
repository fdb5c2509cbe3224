"""Arguments of losses, miners and regularisers: declared as fields, built from names, checked."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Generic, Literal, TypeVar, get_args, get_origin

from torch import nn

from lookalike.errors import BadInput, did_you_mean

__all__ = ["Built", "declare_arguments", "shown_arguments"]

Part = TypeVar("Part", bound=type[nn.Module])
Value = TypeVar("Value")


class Built(Generic[Value]):
    """An argument that takes a name or settings, and is read as the object that they mean.

    Args:
        build: From the part and what was given to the object.
        default: What is given where nothing is.
    """

    build_checks = True
    """Whether ``build`` says what is wrong with a value; nothing else has to."""

    def __init__(self, build: Callable[[Any, Any], Value], default: Any = None) -> None:
        self.build = build
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, part: nn.Module | None, kind: type | None = None) -> Value:
        if part is None:
            return self.default  # type: ignore[no-any-return]  # the default of the field
        values = vars(part)
        value: Value = values[self.name] if self.name in values else values["_modules"][self.name]
        return value

    def __set__(self, part: nn.Module, value: Any) -> None:
        built = self.build(part, value)
        if isinstance(built, nn.Module):  # torch keeps modules in a place of its own
            nn.Module.__setattr__(part, self.name, built)
        else:
            vars(part)[self.name] = built


def declare_arguments(part: Part) -> Part:
    """Give a module a constructor with its fields as arguments, as a dataclass has.

    Whatever a base class needs is there before ``__post_init__`` runs, so that a subclass may make
    its learned parameters there. A class that writes ``__init__`` itself keeps it, and so do its
    subclasses, which may not declare further arguments then.

    >>> @declare_arguments
    ... class Shift(nn.Module):
    ...     by: float = 1
    ...     def __post_init__(self):
    ...         self.weight = nn.Parameter(torch.full((2,), float(self.by)))
    >>> import torch
    >>> Shift(by=3).weight.tolist()
    [3.0, 3.0]
    """
    base = next(each for each in part.__mro__ if "__init__" in vars(each))
    if base is not nn.Module and not hasattr(vars(base)["__init__"], "declared"):
        if base is not part and inspect.get_annotations(part):
            raise BadInput(
                f"{part.__name__} declares arguments, but {base.__name__} writes __init__; write "
                "__init__ in both, or in neither"
            )
        return part
    declared: Any = dataclass(eq=False, repr=False)(part)
    for name in {setting.name for setting in fields(declared)} & vars(part).keys():
        if not isinstance(vars(part)[name], Built):
            delattr(part, name)  # a default in the class would hide a module of that name
    fill: Callable[..., None] = part.__init__
    names = list(inspect.signature(fill).parameters)[1:]
    choices = {f.name: get_args(f.type) for f in fields(declared) if get_origin(f.type) is Literal}

    @functools.wraps(fill)
    def construct(self: nn.Module, *values: Any, **settings: Any) -> None:
        for name in settings:
            if name not in names:
                raise BadInput(
                    f"{type(self).__name__} takes no argument '{name}'; {did_you_mean(name, names)}"
                )
        for name, value in [*zip(names, values, strict=False), *settings.items()]:
            if name in choices and value not in choices[name]:
                raise BadInput(
                    f"there is no {name} '{value}'; {did_you_mean(value, choices[name])}"
                )
        nn.Module.__init__(self)
        fill(self, *values, **settings)

    construct.declared = True  # type: ignore[attr-defined]
    part.__init__ = construct  # type: ignore[method-assign]
    part.__setattr__ = _set  # type: ignore[method-assign,assignment]
    return part


def _set(part: nn.Module, name: str, value: Any) -> None:
    """Let an argument be built, also of a module, which torch would put past its descriptor."""
    argument = inspect.getattr_static(type(part), name, None)
    if isinstance(argument, Built):
        argument.__set__(part, value)
    else:
        nn.Module.__setattr__(part, name, value)


def shown_arguments(part: nn.Module) -> str:
    """The arguments between the parentheses of ``repr``: numbers, strings and truth values.

    Those by keyword only, which all parts of a kind share, and the distance are left out where they
    are the default.
    """
    shown = []
    for name, parameter in inspect.signature(type(part)).parameters.items():
        value = getattr(part, name, None)
        usual = parameter.kind is parameter.KEYWORD_ONLY and value == parameter.default
        if isinstance(value, bool | int | float | str) and not usual:
            shown.append(f"{name}={value!r}")
    distance = getattr(part, "distance", None)
    if distance is not None and distance != getattr(type(part), "default_distance", object)():
        shown.append(f"distance={distance}")
    return ", ".join(shown)
