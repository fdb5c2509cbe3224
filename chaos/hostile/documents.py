"""JSON documents with values of other types, other keys, and markup in every text."""

import json
from copy import deepcopy
from random import Random
from typing import Any

from chaos.hostile.mutation import mutated
from lookalike.files import CHECKSUM, seal

__all__ = ["MARKUP", "forged_json", "places"]

MARKUP = "</script><script>window.hacked=1</script><img src=x onerror='window.hacked=1'>\"'`{{7*7}}"
VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 10**400, 1.5, float("nan"), float("inf"), "", "x", "x" * 100_000, MARKUP),
    *([], {}, [[]], {"": None}, [None], "9" * 5000, "../../x", "2020-01-01", -(2**63), 2**64),
    *("\ud800", "\udcff"),
)


def places(value: Any, found: list[tuple[Any, Any]] | None = None) -> list[tuple[Any, Any]]:
    """Every place in a document: the container, and the key or the index."""
    found = [] if found is None else found
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in list(pairs):
        found.append((value, key))
        if isinstance(one, dict | list):
            places(one, found)
    return found


def forged_json(random: Random, text: str) -> bytes:
    """The document with one to three changes, or with damaged bytes."""
    draw = random.random()
    if draw < 0.25:
        return mutated(random, text.encode())
    if draw < 0.3:
        return random.choice(
            (b"", b"[" * 100_000, b"{}", b"[]", b"null", b"\xff", b"1" * 5000, b'"a"')
        )
    value = json.loads(text)
    for _ in range(random.choice((1, 1, 2, 3))):
        there = places(value)
        if not there:
            break
        holder, key = random.choice(there)
        kind = random.randrange(4)
        if kind == 0:
            del holder[key]
        elif kind == 1 and isinstance(holder, dict):
            holder[random.choice(("other", "", "__class__", MARKUP))] = holder.pop(key)
        else:
            holder[key] = deepcopy(random.choice(VALUES))
    if isinstance(value, dict) and CHECKSUM in value and random.random() < 0.7:  # by who knows how
        value = seal({key: one for key, one in value.items() if key != CHECKSUM})
    return json.dumps(value).encode("utf-8", "surrogatepass")
