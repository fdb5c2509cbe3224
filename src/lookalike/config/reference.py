"""The documentation of all keys: help text, reference page, and the JSON schema for editors.

``make keys`` writes the page ``docs/keys.md`` (``python -m lookalike.config.reference``) and
``recipes/schema.json`` (``lookalike train --schema``).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from lookalike.config.keys import as_text, declared_keys, flattened
from lookalike.config.schema import RunConfig

INTRODUCTION = """\
# Configuration keys

Every key of a run, as `key=value` on the command line or nested in a YAML file. `make keys` writes
this page from the schema (`src/lookalike/config/schema.py`); `lookalike train --help-keys` prints
the keys too.

- **In the run's name**: whether the value is part of the hash that names the run's folder; *when
  set*: only where it is not the default.
- **Audit**: what the fairness audit calls the key; a difference makes a comparison unfair. "-": it
  does not.
- The sections `loss`, `miner` and `sampler` also take the arguments of the part they name
  (`lookalike list losses triplet`).

## In an editor

`recipes/schema.json`, the output of `lookalike train --schema`, is the JSON schema of a recipe (not
of a grid file). With the YAML extension of VS Code, or another client of yaml-language-server, this
comment in a recipe gives completion, documentation and errors while typing:

    # yaml-language-server: $schema=schema.json
"""

REQUIRED = "required"
BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
}
HASHED = {"always": "yes", "when set": "when set", "never": "no"}


@dataclass(frozen=True)
class KeyEntry:
    """The documentation of one key."""

    name: str
    type: str
    default: str
    meaning: str
    hashed: str
    condition: str


def key_entries(model: type[BaseModel] = RunConfig) -> list[KeyEntry]:
    """The documentation of every key that takes a value, in the order of the schema."""
    schema = json_schema(model)
    defaults = flattened(model().model_dump(mode="json"))
    return [
        KeyEntry(
            name=name,
            type=_type(given := _property(schema, name)),
            default=as_text(defaults.get(name, given.get("default", REQUIRED))),
            meaning=given.get("description", one.description),
            hashed=HASHED[one.key.hashed],
            condition=one.condition if one.compared else "",
        )
        for name, one in declared_keys(model).items()
        if one.takes_value
    ]


def help_text(model: type[BaseModel] = RunConfig) -> str:
    """Every key with its type, default and meaning, for a terminal.

    >>> print(help_text().splitlines()[0])
    seed: integer at least 0 and below 4294967296; default 0
    """
    lines = []
    for entry in key_entries(model):
        default = entry.default if entry.default == REQUIRED else f"default {entry.default}"
        lines += [f"{entry.name}: {entry.type}; {default}", f"    {entry.meaning}"]
    return "\n".join(lines)


def reference_page(model: type[BaseModel] = RunConfig) -> str:
    """The page ``docs/keys.md``: a table for each section."""
    sections: dict[str, list[KeyEntry]] = {}
    for entry in key_entries(model):
        sections.setdefault(entry.name.rpartition(".")[0], []).append(entry)
    lines = [INTRODUCTION]
    for section, entries in sections.items():
        lines += [f"## {section or 'Top level'}", ""]
        if section:
            one = declared_keys(model)[section]
            about = one.description or (one.section.__doc__ or "" if one.section else "").strip()
            lines += [about[:1].upper() + about[1:].rstrip(".") + ".", ""]
        lines += ["| key | type | default | meaning | in the run's name | audit |"]
        lines += ["|---|---|---|---|---|---|"]
        for entry in entries:
            default = entry.default if entry.default == REQUIRED else f"`{entry.default}`"
            condition = f"`{entry.condition}`" if entry.condition else "-"
            cells = (entry.type, default, entry.meaning, entry.hashed, condition)
            row = [f"`{entry.name}`", *(cell.replace("|", "\\|") for cell in cells)]
            lines.append(f"| {' | '.join(row)} |")
        lines.append("")
    return "\n".join(lines)


class WithoutTitles(GenerateJsonSchema):
    """A schema without titles that only repeat the names of its fields."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        """Never."""
        return False


def json_schema(model: type[BaseModel] = RunConfig) -> dict[str, Any]:
    """The JSON schema of a recipe file.

    Nothing is required, since a file may extend another one and the rest has defaults.
    """
    schema = model.model_json_schema(schema_generator=WithoutTitles)
    for part in (schema, *schema["$defs"].values()):
        part.pop("required", None)
    extends = {"type": "string", "description": "a file or recipe:NAME that this one builds on"}
    schema["properties"] = {"extends": extends, **schema["properties"]}
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect} | schema | {"title": "Configuration of a Lookalike run"}


def _property(schema: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The part of a JSON schema that describes a dotted key; empty for the argument of a part."""
    found: dict[str, Any] = dict(schema)
    for part in name.split("."):
        found = _resolved(schema, found).get("properties", {}).get(part, {})
    return found


def _resolved(schema: Mapping[str, Any], given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The target of a reference, also where null or a plain value is allowed instead."""
    if "$ref" in given:
        found: Mapping[str, Any] = schema["$defs"][given["$ref"].rpartition("/")[2]]
        return found
    for choice in _choices(given):
        target = _resolved(schema, choice)
        if target is not choice:
            return target
    return given


def _choices(given: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*given.get("anyOf", ()), *given.get("oneOf", ())]


def _type(given: Mapping[str, Any]) -> str:
    """A readable type: ``number above 0, or null``."""
    if choices := _choices(given):
        first, *others = choices
        if [choice.get("items") for choice in others] == [first]:
            return f"one or more of {_type(first)}"
        return ", or ".join(_type(choice) for choice in choices)
    if "$ref" in given:
        return "keys"
    if "prefixItems" in given:
        return f"{len(given['prefixItems'])} of {_type(given['prefixItems'][0])}"
    if "enum" in given or "const" in given:
        return " | ".join(map(as_text, given.get("enum", [given.get("const")])))
    bounds = [f"{words} {given[bound]}" for bound, words in BOUNDS.items() if bound in given]
    kind = given.get("format") or given.get("type", "argument")
    return f"{kind} {' and '.join(bounds)}" if bounds else kind


if __name__ == "__main__":
    print(reference_page(), end="")
