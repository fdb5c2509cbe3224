"""Filters: SQL that is none of ours, injected, huge and nested, and labels that look like SQL."""

import csv
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import numpy as np
import torch
from PIL import Image

from chaos.hostile.fuzzer import Broken, Fuzzer, Input
from chaos.hostile.meanings import Row, meant
from chaos.hostile.mutation import mutated
from lookalike.errors import LookalikeError
from lookalike.search import Embedder, Index
from lookalike.search.filters import LONGEST, Filter

__all__ = ["Filters", "hostile_filter", "must_be_refused"]

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


def must_be_refused(text: str) -> bool:
    """Whether something forbidden remains where the texts in quotation marks are left out."""
    rest = TEXT.sub(" ", text).lower()
    return len(text) > LONGEST or any(word in rest for word in FORBIDDEN)


def hostile_filter(random: Random) -> tuple[str, str]:
    """A text that is given as a filter, and its kind: damaged, forged or huge."""
    draw = random.random()
    if draw < 0.35:
        return "damaged", mutated(random, random.choice(GOOD).encode()).decode("latin-1")
    if draw < 0.9:
        parts = [random.choice((*ATOMS, *GOOD)) for _ in range(random.choice((1, 1, 2, 3)))]
        text = random.choice((" and ", " or ", " ", ", ")).join(parts)
        return "forged", random.choice(("{}", "not {}", "({})", "(({})", "{}'", "{};")).format(text)
    size = random.choice((100, 2000, 100_000))
    return "huge", random.choice(
        (
            "(" * size + "price < 1" + ")" * size,
            "not " * size + "price < 1",
            " or ".join(["price < 1"] * size),
            "label in (" + ", ".join(["'a'"] * size) + ")",
            "label = '" + "a" * size + "'",
            "label like '" + "%a" * size + "'",
        )
    )


class Filters(Fuzzer):
    """Through ``Filter.parse`` and the search of an index with hostile labels."""

    name = "filters"
    count = 200

    def prepare(self, folder: Path) -> None:
        """Index pictures whose labels look like SQL and markup; one has no label."""
        rows = [Row(f"{n}.png", label, str(n)) for n, label in enumerate(LABELS)]
        rows += [Row("x.png", None, "-1.5e0"), Row("y.png", "A_B", ""), Row("z.png", "é0", "no")]
        rng = np.random.default_rng(0)
        with (folder / "t.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("path", "label", "price"))
            for row in rows:
                picture = Image.fromarray(rng.integers(0, 256, (16, 16, 3), np.uint8))
                picture.save(folder / row.path)
                writer.writerow((row.path, row.label or "", row.price))
        torch.manual_seed(0)
        embedder = Embedder.from_network("small-cnn", weights="none")
        self.index = Index.create(folder / "a.index", embedder, folder / "t.csv")
        self.query = rng.normal(size=(1, embedder.dim)).astype(np.float32)
        self.rows = rows

    def inputs(self, random: Random, folder: Path) -> Iterator[Input]:  # noqa: ARG002
        """Filters, those with a known meaning too, and labels to filter by."""
        while True:
            draw = random.random()
            if draw < 0.1:
                label = random.choice(LABELS)
                yield Input("label", self.by_label(label), keep=label)
            elif draw < 0.35:
                text, meaning = meant(random)
                found = [row.path for row in self.rows if meaning(row)]
                yield Input("meant", self.by_meaning(text, found), keep=text)
            else:
                kind, text = hostile_filter(random)
                yield Input(kind, self.by_filter(text), must_be_refused(text), text)

    def by_meaning(self, text: str, expected: list[str]) -> Callable[[], None]:
        """A filter with a known meaning is accepted, and finds those pictures."""

        def run() -> None:
            try:
                hits = self.index.search(self.query, 20, where=text)[0]
            except LookalikeError as error:
                raise Broken(f"refused: {error}") from error
            if sorted(hit.path for hit in hits) != sorted(expected):
                raise Broken(f"found {sorted(hit.path for hit in hits)}, not {sorted(expected)}")
            if self.index.count(Filter.of(text)) != len(expected):
                raise Broken(f"counted {self.index.count(Filter.of(text))}, not {len(expected)}")

        return run

    def by_label(self, label: str) -> Callable[[], None]:
        """The label finds its own picture, and no other."""

        def run() -> None:
            hits = self.index.search(self.query, 20, label=label)[0]
            if [hit.label for hit in hits] != [label]:
                raise Broken(f"found {[hit.label for hit in hits]}")

        return run

    def by_filter(self, text: str) -> Callable[[], None]:
        """Parse it, and search with it."""

        def run() -> None:
            Filter.parse(text)
            self.index.search(self.query, 5, where=text)
            self.index.count(Filter.of(text))

        return run
