"""Docstrings of the public API are Google style, with every argument and what is returned."""

import ast
import dataclasses
import enum
import importlib
import inspect
import itertools
import re
import textwrap
import typing

import pytest

PACKAGES = [
    "lookalike",
    "lookalike.data",
    "lookalike.distances",
    "lookalike.evaluation",
    "lookalike.inference",
    "lookalike.losses",
    "lookalike.memory",
    "lookalike.miners",
    "lookalike.mixing",
    "lookalike.models",
    "lookalike.reducers",
    "lookalike.regularizers",
    "lookalike.samplers",
    "lookalike.search",
    "lookalike.training",
]
OURS = ("lookalike", __name__)


def section(doc, title):
    """The text under a title, up to the next title or the next line that is not indented."""
    found = re.search(rf"^(?:{title}):\n((?:[ ]+.*\n|\n)*)", doc + "\n", re.MULTILINE)
    return found[1] if found else ""


def documented_arguments(doc):
    return set(
        re.findall(r"^ {4}\*{0,2}(\w+)(?: \(.*\))?:", section(doc, "Args|Attributes"), re.MULTILINE)
    )


def docs_of(thing):
    """Where arguments may be described: a class inherits the options of its bases."""
    if not inspect.isclass(thing):
        return [inspect.getdoc(thing) or ""]
    bases = [base for base in thing.__mro__ if base.__module__.startswith(OURS)]
    own = [inspect.cleandoc(base.__doc__ or "") for base in bases]
    return own + [inspect.cleandoc(vars(base)["__init__"].__doc__ or "") for base in bases
                  if "__init__" in vars(base)]  # fmt: skip


def parameters_of(thing):
    if inspect.isclass(thing) and (
        issubclass(thing, (BaseException, enum.Enum)) or typing.is_typeddict(thing)
    ):
        return []
    try:
        found = inspect.signature(thing).parameters.values()
    except ValueError:  # a builtin without signature
        return []
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if all(p.kind in variable for p in found):  # the constructor of torch.nn.Module and others
        return []
    return [p.name for p in found if not p.name.startswith("_") and p.name != "self"]


def documented_fields(thing):
    """The fields of a dataclass or named tuple that have a docstring of their own below them."""
    if not (inspect.isclass(thing) and thing.__module__.startswith(OURS)):
        return set()
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(thing))).body
    return {
        field.target.id
        for field, below in itertools.pairwise(tree.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
    }


def flaws(thing):
    """What the docstring lacks."""
    docs = docs_of(thing)
    if not docs[0]:
        return ["a docstring"]
    known = documented_fields(thing).union(*map(documented_arguments, docs))
    lacking = [f"'{name}' under Args:" for name in parameters_of(thing) if name not in known]
    if not inspect.isclass(thing):
        returned = inspect.signature(thing).return_annotation
        if returned is not None and not section(docs[0], "Returns|Yields"):
            lacking.append("Returns:")
    return lacking


def public_names():
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", None) or vars(module):
            thing = getattr(module, name)
            ours = getattr(thing, "__module__", "").startswith("lookalike")
            if (
                ours
                and not name.startswith("_")
                and (inspect.isclass(thing) or inspect.isroutine(thing))
            ):
                yield pytest.param(thing, id=f"{package}.{name}")


@pytest.mark.parametrize("thing", public_names())
def test_docstring_is_complete(thing):
    assert not flaws(thing)


def test_flaws_are_found():
    def good(rows, *, size=1, **options) -> int:
        """Count.

        Args:
            rows: Some.
            size (int): How many: a
                number.
            **options: Others.

        Returns:
            A number.

        >>> good([])
        """

    def bad(rows, size) -> int:  # noqa: D417
        """Count.

        Args:
            rows: Some.
                size: not an argument of its own.
        """

    def silent(rows):
        pass

    class Parent:
        """Has an option.

        Args:
            option: One.
        """

    class Child(Parent):
        """Has another.

        Args:
            other: Two.
        """

        def __init__(self, other, option, third=3):
            pass

    @dataclasses.dataclass
    class Fields:
        """Has fields."""

        one: int
        """The first."""
        two: int

    assert flaws(Fields) == ["'two' under Args:"]
    assert flaws(good) == []
    assert flaws(bad) == ["'size' under Args:", "Returns:"]
    assert flaws(silent) == ["a docstring"]
    assert flaws(Child) == ["'third' under Args:"]
