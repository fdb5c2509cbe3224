"""Names of parts: losses, miners, samplers, metrics, data sets, networks.

A part registers itself under a kebab-case name; other packages add theirs by entry point
(group ``lookalike.losses``, ``lookalike.miners``, ...), and ``package.module:Class`` names any
class or function that can be imported.
"""

import importlib
import inspect
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, fields
from importlib.metadata import entry_points
from typing import Any, ClassVar, Literal, Self, TypeVar, dataclass_transform, get_args, get_origin

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError

from lookalike.errors import BadInput, LookalikeWarning, did_you_mean

__all__ = [
    "DATASETS",
    "LOSSES",
    "METRICS",
    "MINERS",
    "NETWORKS",
    "REDUCERS",
    "REGULARIZERS",
    "SAMPLERS",
    "Configurable",
    "Entry",
    "Registry",
]

PLAIN = (str, int, float, list, dict, type(None))
"""Types that a configuration can hold: only such values are checked, never other objects."""

Part = TypeVar("Part", bound=Callable[..., Any])


@dataclass(frozen=True)
class Entry:
    """One named part: what builds it, the paper it comes from, and a line about it."""

    name: str
    build: Callable[..., Any]
    paper: str
    summary: str


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

    def register(self, name: str, *, paper: str = "") -> Callable[[Part], Part]:
        """Decorate a class or function to register it as ``name``; ``paper`` is its source."""

        def add(build: Part) -> Part:
            self._entries[name] = Entry(name, build, paper, _summary(build))
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

    def build(self, given: str | Mapping[str, Any]) -> Any:
        """Build a part by name, or by ``{name: ..., argument: ...}``, as a configuration has it."""
        settings = {"name": given} if isinstance(given, str) else dict(given)
        return self.create(settings.pop("name"), **settings)

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
        module, _, attribute = path.partition(":")
        try:
            found = getattr(importlib.import_module(module), attribute)
        except Exception as error:  # a module may raise anything while it is imported
            raise BadInput(f"cannot import '{path}' for the {self.kind}: {error}") from error
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
    if annotation is inspect.Parameter.empty:
        return ""
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


@dataclass_transform(eq_default=False)
class Configurable:
    """A ``torch.nn.Module`` whose arguments are declared as fields, as those of a dataclass.

    A class that writes ``__init__(self, ..., **options)`` itself passes the options on to its
    parent: arguments that have a default there. Its signature shows them, so that the registry can
    check their names.

    >>> class Parent(Configurable):
    ...     colour: str = "red"
    >>> class Child(Parent):
    ...     def __init__(self, depth: int = 1, **options: str) -> None: ...
    >>> Child.setting_names
    ('depth', 'colour')
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    setting_names: ClassVar[tuple[str, ...]] = ()
    """The arguments that the part takes."""
    _takes_any_keyword: ClassVar[bool] = False
    """Whether its own constructor decides which names of arguments are valid."""

    def __new__(cls, *_: Any, **given: Any) -> Self:
        """Prepare the module, so that parameters and modules can be stored as settings."""
        if not cls._takes_any_keyword:
            for name in given.keys() - set(cls.setting_names):
                raise BadInput(
                    f"{cls.__name__} takes no argument '{name}'; "
                    + did_you_mean(name, cls.setting_names)
                )
        part = super().__new__(cls)
        super(Configurable, part).__init__()
        return part

    def __post_init__(self) -> None:
        """Refuse a value that is not among those that a field names."""
        for setting in fields(self):
            if get_origin(setting.type) is Literal:
                value, known = getattr(self, setting.name), get_args(setting.type)
                if value not in known:
                    raise BadInput(
                        f"there is no {setting.name} '{value}'; " + did_you_mean(value, known)
                    )

    def extra_repr(self) -> str:
        """The settings between the parentheses of ``repr``: numbers, strings and truth values.

        Those that all parts of a kind share are left out where they have their default, or are off
        where nothing was said.
        """
        shown = []
        for name, parameter in inspect.signature(type(self)).parameters.items():
            value = getattr(self, name, None)
            shared = parameter.kind is inspect.Parameter.KEYWORD_ONLY
            usual = value == parameter.default or (value is False and parameter.default is None)
            if isinstance(value, bool | int | float | str) and not (shared and usual):
                shown.append(f"{name}={value!r}")
        return ", ".join(shown)

    def __init_subclass__(cls) -> None:
        """Write the constructor, unless the class has its own."""
        super().__init_subclass__()
        if "__init__" not in vars(cls):
            dataclass(eq=False, repr=False)(cls)
            for name in {setting.name for setting in fields(cls)} & vars(cls).keys():
                delattr(cls, name)  # a default in the class would hide a module of that name
        own = list(inspect.signature(cls.__init__).parameters.values())[1:]
        shown = [p for p in own if p.kind is not inspect.Parameter.VAR_KEYWORD]
        cls._takes_any_keyword = len(shown) < len(own)
        if cls._takes_any_keyword:
            shown += [
                p.replace(kind=inspect.Parameter.KEYWORD_ONLY)
                for p in inspect.signature(cls.__mro__[1]).parameters.values()
                if p.name not in {q.name for q in shown}
                and p.default is not inspect.Parameter.empty
            ]
        cls.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
        cls.setting_names = tuple(p.name for p in shown)


LOSSES = Registry("losses")
METRICS = Registry("metrics")
MINERS = Registry("miners")
SAMPLERS = Registry("samplers")
REDUCERS = Registry("reducers")
REGULARIZERS = Registry("regularizers")
DATASETS = Registry("datasets")
NETWORKS = Registry("networks")
