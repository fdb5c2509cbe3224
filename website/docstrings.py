"""An extension for griffe, which reads our docstrings: signatures, examples, cross references."""

import importlib
import inspect
import re
from typing import Any

import griffe
from pydantic import BaseModel

from lookalike.losses import Loss
from lookalike.miners import Miner
from lookalike.reducers import Reducer
from lookalike.regularizers import Regularizer
from lookalike.samplers import BatchSampler

EXAMPLE = re.compile(r"((?:^[ ]*(?:>>>|\.\.\.).*\n?)(?:^[ ]*\S.*\n?)*)", re.MULTILINE)
DECLARED = (Loss, Miner, Reducer, Regularizer, BatchSampler, BaseModel)
"""Classes whose arguments are their fields."""
ROLE = re.compile(r":(?:meth|func|class|mod|attr|data|exc):`~?([^`]+)`")


class OurDocstrings(griffe.Extension):
    """Show docstrings as they are meant.

    - Losses, miners and other parts declare their arguments as fields, which become a constructor
      while the class is made (``declare_arguments``, pydantic). Reading the source cannot know it.
    - Examples with ``>>>`` are code.
    - ``:func:`x``` names something, as ```x``` does.
    """

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Add ``__init__`` to a class whose constructor is made from its fields."""
        if not cls.path.startswith("lookalike.") or "__init__" in cls.members:
            return
        found = getattr(importlib.import_module(cls.module.path), cls.name, None)
        if not (inspect.isclass(found) and issubclass(found, DECLARED)):
            return
        empty = inspect.Parameter.empty
        parameters = [
            griffe.Parameter(
                name,
                annotation=None if one.annotation is empty else _short(one.annotation),
                kind=griffe.ParameterKind[one.kind.name.lower()],
                default=None if one.default is empty else repr(one.default),
            )
            for name, one in inspect.signature(found).parameters.items()
        ]
        own = griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)
        init = griffe.Function("__init__", parameters=griffe.Parameters(own, *parameters))
        cls.set_member("__init__", init)

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fence examples, and turn roles of reStructuredText into code."""
        if obj.docstring is None or not obj.path.startswith("lookalike"):
            return
        text = ROLE.sub(r"`\1`", obj.docstring.value)
        obj.docstring.value = EXAMPLE.sub(_fenced, text)


def _fenced(found: re.Match[str]) -> str:
    lines = inspect.cleandoc(found[1]).replace("  # doctest: +SKIP", "").splitlines()
    indent = " " * (len(found[1]) - len(found[1].lstrip(" ")))
    return "\n".join(indent + line for line in ["```python", *lines, "```"]) + "\n"


def _short(annotation: Any) -> str:
    """A type without the modules that its names come from, and without private ones."""
    text = re.sub(r"(?:\w+\.)+(\w+)", r"\1", inspect.formatannotation(annotation))
    return re.sub(r" \| _\w+", "", text)
