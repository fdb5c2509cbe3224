"""Filters: SQL that is none of ours, injected, huge and nested, and labels that look like SQL."""

import csv
import re
from pathlib import Path

import numpy as np
import torch
from hypothesis import strategies as st
from PIL import Image

from lookalike.search import Embedder, Index
from lookalike.search.filters import LONGEST, Filter
from tests.chaos.doors.door import Broken, Door, Input, damaged

__all__ = ["Filters", "hostile_filters"]

LABELS = (
    *("'; drop table items; --", 'a"b', "50%", "a_b", "\\", "<script>alert(1)</script>", "é", "0"),
)
GOOD = (
    *("price < 50", "label = 'a'", "price between 1 and 2", "label in ('a', 'b')"),
    *("path like '%x'",),
)
ATOMS = (
    *("1=1", "true", "label", "price", "(select 1)", "label = (select 1)", "exists(select 1)"),
    *("null", "price < 'x'", "price is not null", "label = label", "pg_sleep(9)", "*", "-- x"),
    *("label || 'x' = 'x'", "label like '%%%%%%%%%%%%%%%a'", "label ~ '(a+)+$'", "1/0 = 1"),
    *("label similar to 'x'", "price::text = '1'", "cast(price as int) = 1", "current_user = 'x'"),
    *("$1 = 1", ":a = 1", "? = 1", "price = 1e999", "price = 9" + "9" * 400, "label = 'a\0b'"),
    *("@@version = 1", "price << 2 = 4", "label = 'x'; delete from items", "array[1] = 1"),
    *("label = 'x' union select 1", "{fn x()} = 1", "label = E'\\x41'", "label = x'41'"),
    *("label = $$x$$", "price + 1 < 3", "count(price) > 1", "/* */", "label = 'x' or (select 1)"),
    *("label = 'x' -- ", "label = ''' or pg_sleep(9)", "label = '' or ''=''; drop table items"),
)
FORBIDDEN = (
    *("select", "pg_sleep", "union", "delete", "drop", "cast(", "::", "current_user", "count("),
    *(";", "--", "/*", "'"),
)
"""What no filter has outside of its texts; a quotation mark there was never closed."""
TEXT = re.compile(r"'(?:[^']|'')*'|\$\$.*?\$\$", re.DOTALL)


@st.composite
def hostile_filters(draw: st.DrawFn) -> tuple[str, str]:
    """The kind of a filter, damaged, forged or huge, and its text."""
    kind = draw(st.sampled_from(("damaged", "damaged", "forged", "forged", "forged", "huge")))
    if kind == "damaged":
        text = draw(st.sampled_from(GOOD))
        return kind, draw(damaged(text.encode())).decode("latin-1")
    if kind == "forged":
        parts = draw(st.lists(st.sampled_from((*ATOMS, *GOOD)), min_size=1, max_size=3))
        text = draw(st.sampled_from((" and ", " or ", " ", ", "))).join(parts)
        around = draw(st.sampled_from(("{}", "not {}", "({})", "(({})", "{}'", "{};")))
        return kind, around.format(text)
    size = draw(st.sampled_from((100, 2000, 100_000)))
    texts = (
        "(" * size + "price < 1" + ")" * size,
        "not " * size + "price < 1",
        " or ".join(["price < 1"] * size),
        "label in (" + ", ".join(["'a'"] * size) + ")",
        "label = '" + "a" * size + "'",
        "label like '" + "%a" * size + "'",
    )
    return kind, draw(st.sampled_from(texts))


class Filters(Door):
    """Through ``Filter.parse`` and the search of an index with hostile labels."""

    name = "filters"
    count = 200

    def prepare(self, folder: Path) -> None:
        """Index pictures whose labels look like SQL and markup."""
        rng = np.random.default_rng(0)
        with (folder / "t.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("path", "label", "price"))
            for number, label in enumerate(LABELS):
                pixels = rng.integers(0, 256, (16, 16, 3), np.uint8)
                Image.fromarray(pixels).save(folder / f"{number}.png")
                writer.writerow((f"{number}.png", label, number))
        torch.manual_seed(0)
        model = Embedder.from_network("small-cnn", weights="none")
        self.index = Index.create(folder / "a.index", model, folder / "t.csv")
        self.query = rng.normal(size=(1, model.dim)).astype(np.float32)

    def inputs(self) -> st.SearchStrategy[Input]:
        """Filters, and labels to filter by."""
        labels = st.sampled_from(LABELS).map(lambda label: Input("label", label))
        return labels | hostile_filters().map(
            lambda found: Input(*found, must_be_refused(found[1]))
        )

    def receive(self, sent: Input, folder: Path) -> None:
        """Parse it, and search with it; a label finds its own picture, and no other."""
        if sent.kind == "label":
            hits = self.index.search(self.query, 20, label=sent.content)[0]
            if [hit.label for hit in hits] != [sent.content]:
                raise Broken(f"found {[hit.label for hit in hits]}")
            return
        Filter.parse(sent.content)
        self.index.search(self.query, 5, where=sent.content)
        self.index.count(Filter.of(sent.content))


def must_be_refused(text: str) -> bool:
    """Whether something forbidden remains where the texts in quotation marks are left out."""
    rest = TEXT.sub(" ", text).lower()
    return len(text) > LONGEST or any(word in rest for word in FORBIDDEN)
