"""YAML of any origin as plain values: no code, no copies by the million, no key twice."""

import re
from typing import Any

import yaml

__all__ = ["parse_yaml"]

MOST_CHARACTERS = 5_000_000
MOST_VALUES = 100_000
"""Counted as often as aliases repeat them: ten short lines can mean thousands of millions."""
DEEPEST = 50


class Loader(yaml.SafeLoader):
    """YAML that reads 1e-4 as a number, where YAML 1.1 wants 1.0e-4, and refuses a key twice."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """A mapping whose keys differ; those of ``<<`` may be there already."""
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if (key.tag, key.value) in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key '{key.value[:80]}' is there twice", key.start_mark
                    )
                seen.add((key.tag, key.value))
        return node

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        """A text that can be written to a file and be a path: no half surrogate pair, no NUL."""
        value = super().construct_scalar(node)
        if isinstance(value, str) and b"\0" in value.encode():
            raise yaml.constructor.ConstructorError(
                None, None, "a text has the character NUL", node.start_mark
            )
        return value

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """A whole number of 64 bits: no setting needs more, and few libraries take more."""
        number: int = super().construct_yaml_int(node)
        if not -(2**63) <= number < 2**63:
            shown = f"{node.value[:20]}..." if len(node.value) > 20 else node.value
            raise yaml.constructor.ConstructorError(
                None, None, f"the number {shown} has more than 64 bits", node.start_mark
            )
        return number

    def construct_date(self, node: yaml.ScalarNode) -> str:
        """A date is a text: no setting is one."""
        return str(self.construct_scalar(node))

    def refuse(self, node: yaml.Node) -> None:
        """Bytes, sets and the like: no setting is one, and JSON has none."""
        raise yaml.constructor.ConstructorError(
            None, None, f"could not determine a constructor for the tag {node.tag!r}"
        )

    def get_single_data(self) -> Any:
        """The values of the only document; a limit on their number comes before they are made."""
        node = self.get_single_node()
        if node is None:
            return None
        if expanded_size(node, {}, 0) > MOST_VALUES:
            raise yaml.YAMLError(f"it has more than {MOST_VALUES:,} values, repeated ones included")
        return self.construct_document(node)


Loader.add_constructor("tag:yaml.org,2002:int", Loader.construct_yaml_int)
Loader.add_constructor("tag:yaml.org,2002:timestamp", Loader.construct_date)
for kind in ("binary", "set", "omap", "pairs"):
    Loader.add_constructor(f"tag:yaml.org,2002:{kind}", Loader.refuse)
Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)


def expanded_size(node: yaml.Node, known: dict[int, int], depth: int) -> int:
    """How many values a node and all below it are; ``known`` has those that were counted."""
    if id(node) in known:
        return known[id(node)]
    if depth > DEEPEST:
        raise yaml.YAMLError(f"it is nested more than {DEEPEST} deep, or contains itself")
    size = 1
    if isinstance(node, yaml.SequenceNode):
        size += sum(expanded_size(one, known, depth + 1) for one in node.value)
    elif isinstance(node, yaml.MappingNode):
        size += sum(expanded_size(one, known, depth + 1) for pair in node.value for one in pair)
    known[id(node)] = size
    return size


def parse_yaml(text: str) -> Any:
    """The values in a YAML text.

    >>> parse_yaml("optim: {lr: 1e-4}")
    {'optim': {'lr': 0.0001}}

    Args:
        text: One document.

    Returns:
        Mappings, lists, texts (dates among them), numbers, or None.

    Raises:
        ValueError: The text is not YAML, or not of a kind that settings are; the message says why.
    """
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"it has more than {MOST_CHARACTERS:,} characters")
    try:
        return yaml.load(text, Loader=Loader)
    except RecursionError:
        raise ValueError(f"it is nested more than {DEEPEST} deep") from None
    except Exception as error:  # of YAML, or a ValueError of a number with too many digits
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(reason if len(reason) < 500 else f"{reason[:500]}...") from None
