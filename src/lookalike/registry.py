"""Names of parts: losses, miners, samplers, metrics, data sets, networks.

A part registers itself under a kebab-case name; other packages add theirs by entry point
(group ``lookalike.losses``, ``lookalike.miners``, ...), and ``package.module:Class`` names any
class or function that can be imported. Such a name is code: it is imported only if the user wrote
it (:func:`trust`), never because a file that was read names it.
"""

import importlib
import inspect
import math
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, TypeVar, get_origin

from pydantic import BaseModel, ConfigDict, PydanticUserError, TypeAdapter, ValidationError

from lookalike.errors import BadInput, LookalikeWarning, did_you_mean

__all__ = [
    "DATASETS",
    "DISTANCES",
    "LOSSES",
    "METRICS",
    "MINERS",
    "NETWORKS",
    "REDUCERS",
    "REGULARIZERS",
    "SAMPLERS",
    "Entry",
    "Registry",
    "import_trusted",
    "trust",
]

TRUSTED = "LOOKALIKE_TRUST"
"""The environment variable with the names that may be imported; child processes inherit it."""
IMPORT_NAME = re.compile(r"([A-Za-z_][\w.]*:[A-Za-z_]\w*)(@\d+)?")
"""``package.module:attribute``; that of a metric may end in its k."""

PLAIN = (str, int, float, list, dict, type(None))
"""Types that a configuration can hold: only such values are checked, never other objects."""

Part = TypeVar("Part", bound=Callable[..., Any])
Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Entry:
    """One named part: what builds it, the paper it comes from, and a line about it."""

    name: str
    build: Callable[..., Any]
    paper: str
    summary: str
    url: str = ""
    """Where the paper is."""


def trust(written: Any) -> None:
    """Let code be imported that the user named: on the command line, in a recipe or in a program.

    Args:
        written: A name ``package.module:attribute``, or settings of which all such values count.
            Settings from elsewhere, such as those of a run, must not be passed.

    >>> trust({"loss": {"name": "collections:Counter"}})
    >>> import_trusted("collections:Counter", "for the losses").__name__
    'Counter'
    """
    names = _trusted() | set(_import_names(written))
    os.environ[TRUSTED] = ",".join(sorted(names))


def import_trusted(name: str, purpose: str) -> Any:
    """The object that ``package.module:attribute`` names: the only place that imports by name.

    The current folder is searched too, after everything else.

    Args:
        name: The name.
        purpose: What it is for, as in "for the losses"; errors say it.

    Raises:
        BadInput: The user did not name it (:func:`trust`), or it cannot be imported.
    """
    if name not in _trusted():
        raise BadInput(
            f"'{name}' {purpose} is code, and only code that you name yourself is run; if you know "
            f"what it does, add '--trust {name}' (in Python: lookalike.trust('{name}') before)"
        )
    module, _, attribute = name.partition(":")
    try:
        with _current_folder_last():
            return getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a module may raise anything while it is imported
        raise BadInput(f"cannot import '{name}' {purpose}: {error}") from error


def _trusted() -> set[str]:
    return set(filter(None, os.environ.get(TRUSTED, "").split(",")))


def _import_names(written: Any) -> Iterator[str]:
    if isinstance(written, str):
        if named := IMPORT_NAME.fullmatch(written):
            yield named[1]
    elif isinstance(written, BaseModel):
        yield from _import_names(written.model_dump())
    elif isinstance(written, Mapping | Sequence):
        for part in written.values() if isinstance(written, Mapping) else written:
            yield from _import_names(part)


@contextmanager
def _current_folder_last() -> Iterator[None]:
    folder = os.getcwd()
    sys.path.append(folder)
    try:
        yield
    finally:
        sys.path.reverse()  # the last of that name is ours, whatever the module did to the list
        if folder in sys.path:
            sys.path.remove(folder)
        sys.path.reverse()


class Registry:
    """The parts of one kind, by name.

    Args:
        kind: The plural that names the kind; plug-ins use the entry points ``lookalike.<kind>``.

    >>> colours = Registry("colours")
    >>> @colours.register("red", paper="Newton, 1704")
    ... def red(depth: int = 1) -> str:
    ...     "A warm colour."
    ...     return "red" * depth
    >>> colours.create("red", depth=2)
    'redred'
    >>> colours.names()
    ['red']
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, Entry] = {}
        self._plugins_loaded = False

    def register(self, name: str, *, paper: str = "", url: str = "") -> Callable[[Part], Part]:
        """Decorate a class or function to register it as ``name``, with its paper's address."""

        def add(build: Part) -> Part:
            self._entries[name] = Entry(name, build, paper, _summary(build), url)
            return build

        return add

    def __contains__(self, name: str) -> bool:
        """Whether ``name`` is registered, here or by a plug-in, or names something to import."""
        if ":" not in name and name not in self._entries:
            self._load_plugins()
        return ":" in name or name in self._entries

    def names(self) -> list[str]:
        """Every name, those of plug-ins included.

        Returns:
            The names, sorted.
        """
        self._load_plugins()
        return sorted(self._entries)

    def entries(self) -> list[Entry]:
        """Every entry, by name."""
        return [self._entries[name] for name in self.names()]

    def find(self, name: str) -> Entry:
        """The entry called ``name``, or a class or function named ``package.module:Class``."""
        if ":" in name:
            return Entry(name, self._imported(name), "", "")
        if name not in self:
            raise BadInput(
                f"there is no '{name}' among the {self.kind}; {did_you_mean(name, self._entries)} "
                f"('lookalike list {self.kind}' shows all)"
            )
        return self._entries[name]

    def create(self, name: str, /, *args: Any, **arguments: Any) -> Any:
        """Build a part by name.

        Args:
            name: A registered name, or ``package.module:Class``.
            *args: Positional arguments of the part.
            **arguments: Its other arguments.

        Returns:
            The part.

        Raises:
            BadInput: The name, an argument or its value is unknown or invalid; the sentence has
                the nearest valid one.
        """
        build = self.find(name).build
        self.check(name, arguments)
        try:
            inspect.signature(build).bind(*args, **arguments)
        except TypeError as error:
            raise BadInput(f"'{name}' of the {self.kind}: {error}") from None
        except ValueError:  # a builtin without signature
            pass
        return build(*args, **arguments)

    def build(self, given: Any, kind: type[Kind]) -> Kind:
        """A part as it is, by name, or by ``{name: ..., argument: ...}`` as in a configuration."""
        if isinstance(given, str | Mapping):
            settings = {"name": given} if isinstance(given, str) else dict(given)
            given = self.create(settings.pop("name"), **settings)
        if not isinstance(given, kind):
            raise BadInput(
                f"'{given}' is none of the {self.kind}; choose one of: {', '.join(self.names())}"
            )
        return given

    def check(self, name: str, arguments: dict[str, Any]) -> None:
        """Raise if ``name`` does not take one of the arguments, or the value given for it."""
        accepted = self.arguments(name)
        for argument, value in arguments.items():
            if accepted is not None and argument not in accepted:
                raise BadInput(
                    f"'{name}' of the {self.kind} takes no argument '{argument}'; "
                    + did_you_mean(argument, [*accepted, "name"])
                )
            if accepted is not None and isinstance(value, PLAIN) and value != "auto":
                reason = misfit(value, accepted[argument].annotation)
                if reason:
                    raise BadInput(
                        f"'{name}' of the {self.kind}: {argument} = {value!r} is invalid: {reason}"
                    )

    def arguments(self, name: str) -> dict[str, inspect.Parameter] | None:
        """The arguments that ``name`` takes; None if it takes any (``**kwargs``)."""
        try:
            parameters = inspect.signature(self.find(name).build).parameters
        except ValueError:  # a builtin without signature
            return None
        if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
            return None
        return dict(parameters)

    def _imported(self, path: str) -> Callable[..., Any]:
        found = import_trusted(path, f"for the {self.kind}")
        if not callable(found):
            raise BadInput(f"'{path}' for the {self.kind} is not a class or function")
        build: Callable[..., Any] = found
        return build

    def _load_plugins(self) -> None:
        if self._plugins_loaded:
            return
        self._plugins_loaded = True
        for point in entry_points(group=f"lookalike.{self.kind}"):
            if point.name not in self._entries:
                try:
                    build = point.load()
                except Exception as error:  # another package may raise anything
                    warnings.warn(
                        f"'{point.name}' of the {self.kind} ({point.value}) cannot be loaded and "
                        f"is left out: {error}",
                        LookalikeWarning,
                        stacklevel=2,
                    )
                    continue
                # A module that registers itself has done so by now, with its paper.
                self._entries.setdefault(point.name, Entry(point.name, build, "", _summary(build)))


def _summary(build: Callable[..., Any]) -> str:
    """The first line of the docstring."""
    return (inspect.getdoc(build) or "").partition("\n")[0]


def misfit(value: Any, annotation: Any) -> str:
    """Why ``value`` does not match ``annotation``; empty if it does, or cannot be checked."""
    if annotation is inspect.Parameter.empty or hasattr(get_origin(annotation), "build_checks"):
        return ""  # what builds it says what is wrong
    try:
        adapter = TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError:  # an annotation that pydantic cannot check
        return ""
    try:
        found = adapter.validate_python(value)
    except ValidationError as error:
        first = error.errors()[-1]["msg"]
        return first[0].lower() + first[1:]
    return "a number is wanted" if isinstance(found, float) and math.isnan(found) else ""


LOSSES = Registry("losses")
METRICS = Registry("metrics")
MINERS = Registry("miners")
SAMPLERS = Registry("samplers")
REDUCERS = Registry("reducers")
REGULARIZERS = Registry("regularizers")
DISTANCES = Registry("distances")
DATASETS = Registry("datasets")
NETWORKS = Registry("networks")
