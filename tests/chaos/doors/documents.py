"""JSON documents with values of other types, other keys, and markup in every text."""

import json
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

from tests.chaos.doors.door import damaged

__all__ = ["MARKUP", "forged_json", "places"]

MARKUP = "</script><script>window.hacked=1</script><img src=x onerror='window.hacked=1'>\"'`{{7*7}}"
VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 10**400, 1.5, float("nan"), float("inf"), "", "x", "x" * 100_000, MARKUP),
    *([], {}, [[]], {"": None}, [None], "9" * 5000, "../../x", "2020-01-01", -(2**63), 2**64),
    *("\ud800", "\udcff"),
)
WHOLE = (b"", b"[" * 100_000, b"{}", b"[]", b"null", b"\xff", b"1" * 5000, b'"a"')


def places(value: Any, found: list[tuple[Any, Any]] | None = None) -> list[tuple[Any, Any]]:
    """Every place in a document: the container, and the key or the index."""
    found = [] if found is None else found
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in list(pairs):
        found.append((value, key))
        if isinstance(one, dict | list):
            places(one, found)
    return found


@st.composite
def forged_json(draw: st.DrawFn, text: str) -> bytes:
    """The document with one to three changes, or with damaged bytes, or another one."""
    how = draw(st.sampled_from(("bytes", "bytes", "whole", *["places"] * 7)))
    if how == "bytes":
        return draw(damaged(text.encode()))
    if how == "whole":
        return draw(st.sampled_from(WHOLE))
    value = json.loads(text)
    for _ in range(draw(st.sampled_from((1, 1, 2, 3)))):
        if not (there := places(value)):
            break
        holder, key = draw(st.sampled_from(there))
        match draw(st.sampled_from(("drop", "rename", "change", "change"))):
            case "drop":
                del holder[key]
            case "rename" if isinstance(holder, dict):
                name = draw(st.sampled_from(("other", "", "__class__", MARKUP)))
                holder[name] = holder.pop(key)
            case _:
                holder[key] = deepcopy(draw(st.sampled_from(VALUES)))
    return json.dumps(value).encode("utf-8", "surrogatepass")
