"""Signatures that show inherited options.

A part takes its own arguments and hands the options that all of its kind share to its parent as
``**options``. ``show_options`` writes them into the class's signature, so that the registry can
refuse a wrong name and ``help`` shows every argument.
"""

import inspect
from typing import get_args

__all__ = ["show_options"]


def show_options(cls: type) -> None:
    """Set the signature of ``cls``: its own arguments, then those its parent takes.

    Of the parent's, only those that ``**options: Unpack[...]`` names; all, where it names none.

    >>> class Parent:
    ...     def __init__(self, colour: str = "red") -> None: ...
    >>> class Child(Parent):
    ...     def __init__(self, depth: int = 1, **options: str) -> None: ...
    >>> show_options(Child)
    >>> list(inspect.signature(Child).parameters)
    ['depth', 'colour']
    """
    own = list(inspect.signature(cls.__init__).parameters.values())[1:]  # type: ignore[misc]
    shown = [p for p in own if p.kind is not inspect.Parameter.VAR_KEYWORD]
    if len(shown) < len(own):
        unpacked = get_args(own[-1].annotation)
        named = unpacked[0].__annotations__ if unpacked else None
        names = {p.name for p in shown}
        shown += [
            p.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for p in inspect.signature(cls.__mro__[1]).parameters.values()
            if p.name not in names
            and p.kind is not inspect.Parameter.VAR_KEYWORD
            and (named is None or p.name in named)
        ]
    cls.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
