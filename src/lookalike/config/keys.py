"""The meaning of a configuration key, declared once, beside its type.

Each field of the schema is declared by :func:`key`::

    step_size: int = key(10, ge=1, active_when=(when("optim.schedule", "step"),))
    '''epochs between two steps of the schedule'''

The hash of a run (:func:`identity`), the fairness audit, the refusal of settings that do not go
together (:func:`refuse_conflicts`), the warnings about settings without effect
(:func:`without_effect`), the names of cached features, what the baselines of a study share,
``lookalike train --help-keys``, the JSON schema and the page ``docs/keys.md`` are derived from it.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo

from lookalike.errors import BadInput


@dataclass(frozen=True)
class When:
    """A rule about another key: that it has one of some values, or none of them.

    ``rule & other`` holds where both do.
    """

    key: str
    choices: tuple[Any, ...]
    negated: bool = False
    others: tuple["When", ...] = ()

    def __and__(self, other: "When") -> "When":
        return replace(self, others=(*self.others, other))

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether the rule holds for a configuration, given as a mapping of dotted keys."""
        own = (values.get(self.key) in self.choices) != self.negated
        return own and all(other.holds(values) for other in self.others)

    def found(self, values: Mapping[str, Any]) -> str:
        """What a configuration has of the keys that the rule is about."""
        names = [self.key, *(other.key for other in self.others)]
        return " and ".join(f"{name}={as_text(values.get(name))}" for name in names)

    def __str__(self) -> str:
        words = " or ".join(as_text(choice) for choice in self.choices)
        if not self.negated:
            own = f"{self.key}={words}"
        else:
            own = self.key if self.choices == (None,) else f"{self.key} other than {words}"
        return " while ".join([own, *map(str, self.others)])


def when(key: str, *choices: Any) -> When:
    """The rule that ``key`` has one of ``choices``.

    >>> str(when("optim.name", "rmsprop", "sgd"))
    'optim.name=rmsprop or sgd'
    """
    return When(key, choices)


def unless(key: str, *choices: Any) -> When:
    """The rule that ``key`` has none of ``choices``.

    >>> str(unless("protocol.name", "paper"))
    'protocol.name other than paper'
    """
    return When(key, choices, negated=True)


@dataclass(frozen=True)
class Rule:
    """What a key excludes, or needs.

    Args:
        other: The rule about other keys.
        values: The values of the key itself that it is about; empty: all but the default.
        why: The reason, and what to do, for the sentence.
    """

    other: When
    values: tuple[Any, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class Key:
    """The meaning of a key beyond its type, default and description.

    Args:
        hashed: Whether the value is part of the run's hash. ``"when set"``: only where it is not
            the default, so that a new key does not rename existing runs. ``"never"``: the trained
            model does not depend on it. A key without effect (``active_when``) is never hashed.
        compared: Whether a difference makes a comparison unfair. False for what is part of the
            method and for what no score depends on. If a section is not compared, none of its
            keys is.
        condition: The audit's name for it (``lookalike.compare.audit.CONDITIONS``), if not its
            own dotted name. Several keys may form one condition.
        active_when: Rules of which at least one must hold for the key to have an effect; empty:
            it always has.
        excludes: What it does not go with.
        needs: What it does not go without.
        features: Rules of which one must hold for the stored features of a frozen network to depend
            on the key; empty: they do not.
        baselines: For the scores of a study that need no training: ``values``, if they depend on
            it (and on all keys of a section); ``way``, if only how they are computed does.
        of_study: Whether a study sets it by itself, so that no axis may.
        short: Whether the command line accepts the key without its section.
        hashed_as: Maps the value to what is hashed instead.
        dropped_with: A key of its section: what a recipe has is dropped when that one is changed,
            as the name of a module is with the network.
        arguments: For a section that names a part: keys among the arguments that every such part
            has, each with its description.
    """

    hashed: Literal["always", "when set", "never"] = "always"
    compared: bool = True
    condition: str = ""
    active_when: tuple[When, ...] = ()
    excludes: tuple[Rule, ...] = ()
    needs: tuple[Rule, ...] = ()
    features: tuple[When, ...] = ()
    baselines: Literal["", "values", "way"] = ""
    of_study: bool = False
    short: bool = False
    hashed_as: Callable[[Any], Any] | None = None
    dropped_with: str = ""
    arguments: Mapping[str, tuple["Key", str]] = field(default_factory=dict)

    def is_active(self, values: Mapping[str, Any]) -> bool:
        """Whether the key has an effect in a configuration, given as a mapping of dotted keys."""
        return not self.active_when or any(rule.holds(values) for rule in self.active_when)

    def __call__(self, schema: dict[str, Any]) -> None:
        """Complete the JSON schema that pydantic made of the field: what it needs and excludes."""
        if schema.get("type") == "array" and "items" in schema:  # or one, without brackets
            items = schema.pop("items")
            del schema["type"]
            schema["anyOf"] = [items, {"type": "array", "items": items}]
        parts = [schema["description"]] if "description" in schema else []
        if self.active_when:
            parts.append(f"only with {' or '.join(map(str, self.active_when))}")
        for words, rules in (("needs", self.needs), ("not with", self.excludes)):
            for rule in rules:
                own = f"{' or '.join(map(as_text, rule.values))}: " if rule.values else ""
                parts.append(f"{own}{words} {rule.other}")
        if parts:
            schema["description"] = "; ".join(parts)


def key(default: Any = ..., **about: Any) -> Any:
    """A field of the schema.

    Args:
        default: Its default; none: it must be set.
        **about: The arguments of :class:`Key`, and those of pydantic's ``Field``, such as ``ge``.

    Returns:
        The field.
    """
    names = {one.name for one in fields(Key)} & about.keys()
    meaning = Key(**{name: about.pop(name) for name in names})
    return Field(default, json_schema_extra=meaning, **about)


@dataclass(frozen=True)
class DeclaredKey:
    """A key with its place in the schema."""

    name: str
    """Dotted, as in ``key=value``."""
    key: Key
    description: str
    compared: bool
    """Whether it and all sections that contain it are compared."""
    section: type[BaseModel] | None
    """The model of the section, if the key is one."""
    field: FieldInfo | None
    """None for an argument of a part."""

    @property
    def takes_value(self) -> bool:
        """Whether it is set by itself, not only through keys of its section."""
        if self.section is None or self.field is None:
            return True
        return bool(set(_plain_kinds(self.field.annotation)) - {self.section, type(None)})

    @property
    def condition(self) -> str:
        """The audit's name for it."""
        return self.key.condition or self.name


@cache
def declared_keys(model: type[BaseModel]) -> dict[str, DeclaredKey]:
    """Every key of a schema by its dotted name, sections before their keys."""
    return {one.name: one for one in _declared(model)}


def _declared(
    model: type[BaseModel], prefix: str = "", compared: bool = True
) -> Iterator[DeclaredKey]:
    for name, info in model.model_fields.items():
        meaning, section = _key_of(info), _section(info)
        place, inside = f"{prefix}{name}", compared and meaning.compared
        yield DeclaredKey(place, meaning, info.description or "", inside, section, info)
        if section:
            yield from _declared(section, f"{place}.", inside)
        for argument, (own, description) in meaning.arguments.items():
            yield DeclaredKey(f"{place}.{argument}", own, description, own.compared, None, None)


def _key_of(info: FieldInfo) -> Key:
    """The meaning of a field; one that is not declared by :func:`key` has none."""
    return info.json_schema_extra if isinstance(info.json_schema_extra, Key) else Key()


def key_path(model: type[BaseModel], location: Sequence[int | str]) -> str:
    """The dotted key at a location of pydantic, which also names the choice of a union."""
    found: list[str] = []
    section: type[BaseModel] | None = model
    chosen = False  # whether a name that is no key says which choice of a union was tried
    for part in location:
        info = section.model_fields.get(str(part)) if section else None
        if info is not None:
            section = _section(info)
            chosen = len(set(_plain_kinds(info.annotation)) - {type(None)}) > 1
        elif chosen and isinstance(part, str):
            chosen = False
            continue
        found.append(str(part))
    return ".".join(found)


def identity(config: BaseModel) -> dict[str, Any]:
    """The values that the trained model depends on, nested: the input of the run's hash.

    Keys without effect in this configuration are left out.
    """
    return _identity(config, flattened(config.model_dump()))


def _identity(section: BaseModel, whole: Mapping[str, Any]) -> dict[str, Any]:
    values = section.model_dump(mode="json")
    for name, info in type(section).model_fields.items():
        meaning, value = _key_of(info), getattr(section, name)
        default = meaning.hashed == "when set" and value == info.default
        if meaning.hashed == "never" or default or not meaning.is_active(whole):
            del values[name]
        elif isinstance(value, BaseModel):
            values[name] = _identity(value, whole)
        elif meaning.hashed_as is not None:
            values[name] = meaning.hashed_as(value)
    return values


def without_effect(config: BaseModel) -> list[str]:
    """One sentence for each setting that differs from its default and has no effect."""
    values = flattened(config.model_dump())
    sentences = []
    for name, one in declared_keys(type(config)).items():
        changed = name in values and one.field is not None and values[name] != one.field.default
        if changed and not one.key.is_active(values):
            rules = one.key.active_when
            present = " and ".join(rule.found(values) for rule in rules)
            needed = " or ".join(map(str, rules))
            sentences.append(f"{name} has no effect with {present}: it needs {needed}")
    return sentences


def refuse_conflicts(config: BaseModel) -> None:
    """Refuse settings that exclude each other, or need others.

    Raises:
        BadInput: The first conflict that the keys declare.
    """
    values = flattened(config.model_dump())
    for name, one in declared_keys(type(config)).items():
        is_section = any(other.startswith(f"{name}.") for other in values)
        if one.field is None or not (is_section or name in values):
            continue
        value = "..." if is_section else values[name]
        shown = name if is_section else f"{name}={as_text(value)}"

        def concerns(rule: Rule, value: Any = value, field: FieldInfo = one.field) -> bool:
            return value in rule.values if rule.values else value != field.default

        for rule in filter(concerns, one.key.excludes):
            if rule.other.holds(values):
                others = rule.other.found(values)
                raise BadInput(f"{shown} and {others} exclude each other{_because(rule)}")
        for rule in filter(concerns, one.key.needs):
            if not rule.other.holds(values):
                raise BadInput(f"{shown} needs {rule.other}{_because(rule)}")


def _because(rule: Rule) -> str:
    return f": {rule.why}" if rule.why else ""


def feature_values(config: BaseModel) -> dict[str, Any]:
    """The values, by dotted key, that the stored features of a frozen network depend on."""
    values = flattened(config.model_dump(mode="json"))
    return {
        name: values[name]
        for name, one in declared_keys(type(config)).items()
        if name in values and any(rule.holds(values) for rule in one.key.features)
    }


def selected(config: BaseModel, wanted: Callable[[Key], bool]) -> dict[str, Any]:
    """The values of some keys, nested; of a section that is wanted, all of them."""
    found: dict[str, Any] = {}
    for name, info in type(config).model_fields.items():
        value = getattr(config, name)
        if wanted(_key_of(info)):
            found[name] = value.model_dump() if isinstance(value, BaseModel) else value
        elif isinstance(value, BaseModel) and (inner := selected(value, wanted)):
            found[name] = inner
    return found


def flattened(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as dotted keys.

    >>> flattened({"optim": {"lr": 1}, "seed": 2})
    {'optim.lr': 1, 'seed': 2}
    """
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= flattened(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value
    return found


def as_text(value: Any) -> str:
    """A value as YAML writes it."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _section(info: FieldInfo) -> type[BaseModel] | None:
    """The model inside a field, also of an optional field, a tuple or one choice of several."""
    return next(_models(info.annotation), None)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def _plain_kinds(annotation: Any) -> Iterator[Any]:
    """The types that a union names, without what annotates them."""
    if isinstance(annotation, UnionType) or get_origin(annotation) is Union:
        for choice in get_args(annotation):
            yield from _plain_kinds(choice)
    elif get_origin(annotation) is Annotated:
        yield from _plain_kinds(get_args(annotation)[0])
    else:
        yield annotation
