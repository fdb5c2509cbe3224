"""The catalogue: every table and figure that can be reproduced, from ``recipes/reproductions/``.

A file has one paper's entries::

    paper: metrix
    entries:
      - name: metrix/<dataset>
        each: {dataset: [cub, cars]}          # an entry for each; <dataset> is filled in
        kind: table
        setup: <dataset>
        title: three losses with and without mixing
        source: README, tables of expected results
        select:
          - grid: "metrix/{dataset}/{method}-{mode}"      # the name of a grid of recipes
            only: {dataset: <dataset>}
            method: "{method}-{mode}"                     # what rows are called
        claims:
          - {says: "Mixing helps.", pairs: [[contrastive-feature, contrastive-baseline]]}

An entry trains nothing that is not a recipe: it selects cells of grids, and the published numbers
are found by the names of the recipes.
"""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from lookalike import published
from lookalike.config import recipes
from lookalike.config.loading import plain_yaml
from lookalike.errors import BadInput, did_you_mean

Kind = Literal["table", "tournament", "search", "figure", "list"]
Trained = Literal["head", "last-stage", "whole"]

INHERITED = ("select", "axes", "set", "metrics", "search", "space", "tuner", "repeats", "trained")
"""What an entry takes from the entry whose trainings it shows."""


class Strict(BaseModel):
    """A part of the catalogue; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)


class Selection(Strict):
    """Some recipes of a grid."""

    grid: str = Field(description="the grid's pattern of names")
    only: dict[str, str | tuple[str, ...]] = {}
    method: str = Field("{method}", description="what a row is called, from the values of axes")


class Figure(Strict):
    """One drawing of the page."""

    kind: Literal[
        "lines",  # score by the values of an axis, one line for each value of another
        "years",  # score by the year of the method's paper
        "tournament",  # average ranks
        "tuning",  # the optimisation plots of a search
        "reality",  # what papers report and claim, and what was tested
        "pairs",  # methods beside their plain form, in the pairs that claims name
        "correlation",  # score against the structure of the embeddings, over all trainings
        "projection",  # t-SNE of test classes
        "distances",  # histograms of positive and negative distances
        "retrieval",  # nearest neighbours of one method beside another's
    ]
    metrics: tuple[str, ...] = ("recall@1",)
    x: str = ""
    """The axis from left to right."""
    line: str = "method"
    """The axis of which each value has a line."""


class Limits(Strict):
    """The limits between which a difference (in points) or a correlation is said to lie."""

    least: float | None = None
    most: float | None = None

    @property
    def ends(self) -> tuple[float, float]:
        """Both limits; infinite where there is none."""
        return (
            -math.inf if self.least is None else self.least,
            math.inf if self.most is None else self.most,
        )

    @property
    def wanted(self) -> list[str]:
        """The limits in words; none for "above zero" and "below zero"."""
        least, most = (None if end is None else f"{end:+.2f}" for end in (self.least, self.most))
        if least and most:
            return [f"to be between {least} and {most}"]
        if not (self.least or self.most):
            return []
        return [f"to be above {least}" if least else f"to be below {most}"]


class Pair(Limits):
    """Two scores, and what the document says of the first minus the second.

    Both are values of the claim's axis, or ``others``: each value that the claim does not name.
    ``any`` beside ``any`` are all two values, everything else alike, the higher minus the lower;
    ``highest`` is the method with the highest score; ``reported`` the median of what other papers
    report for the method on the same images.
    """

    first: str
    second: str

    @model_validator(mode="before")
    @classmethod
    def higher_unless_said_otherwise(cls, given: Any) -> Any:
        """``[first, second]`` says that the first is higher."""
        values = (
            dict(zip(("first", "second"), given, strict=True)) if isinstance(given, list) else given
        )
        return values if {"least", "most"} & values.keys() else values | {"least": 0}


OTHERS, ANY, HIGHEST, REPORTED = "others", "any", "highest", "reported"


class Claim(Strict):
    """What a document claims of Recall@1, in its words and as something that scores can decide.

    Words of size and of sameness need a number, which documents do not print: the limits of pairs
    and correlations are ours, and stand beside every verdict.
    """

    says: str
    axis: str = "method"
    """What ``pairs`` has values of."""
    pairs: tuple[Pair, ...] = ()
    """Each difference lies between its limits; a list of names in a pair stands for each one."""
    of: Literal["all", "some", "half"] = "all"
    """How many of the differences must lie there: all, one, or half of them or more."""
    correlates: dict[str, Limits] = {}
    """Metrics, or ``year``, and the limits of their correlation with the score."""

    @field_validator("pairs", mode="before")
    @classmethod
    def one_pair_for_each_name(cls, given: Any) -> Any:
        """A list of names in a pair as so many pairs."""
        found: list[Any] = []
        for pair in given:
            lists = isinstance(pair, list | tuple)
            sides = pair if lists else (pair["first"], pair["second"])
            names = [side if isinstance(side, list) else [side] for side in sides]
            for first, second in itertools.product(*names):
                ends = {"first": first, "second": second}
                found.append([first, second] if lists else pair | ends)
        return found

    @model_validator(mode="after")
    def says_one_thing(self) -> "Claim":
        """Refuse a claim that says nothing, or two things."""
        if bool(self.pairs) == bool(self.correlates):
            raise ValueError("a claim has either pairs or correlates")
        return self


class Listing(Strict):
    """Rows and columns of a CSV file of ``papers/data``, as a document lists them."""

    table: str
    """The name of the file."""
    columns: dict[str, str]
    """The file's columns, by the titles that are shown."""
    where: dict[str, tuple[str, ...]] = {}
    """Only rows with one of these values in a column."""
    without: dict[str, tuple[str, ...]] = {}
    """No rows with one of these values in a column."""
    across: tuple[str, ...] = ()
    """Columns whose values become columns of the table, which show ``value``."""
    sort: bool = False
    """Whether rows are in alphabetical order, instead of the file's."""


class Tuner(Strict):
    """How the hyper-parameters of a search are chosen."""

    name: Literal["tpe", "gp", "random", "grid"] = "tpe"
    trials: int | None = Field(None, ge=1)
    """None: the whole grid."""
    small_trials: int = Field(20, ge=1)
    """At small scale, if there are not fewer."""


class Entry(Strict):
    """One table or figure of a paper."""

    name: str
    """``paper/table``."""
    kind: Kind
    setup: str = ""
    """The data set and the network of the document."""
    title: str
    """What is shown; without ``setup``, which is another one at small scale."""
    source: str
    """Where in the document."""
    of: str = ""
    """Another entry, whose trainings it shows."""
    select: tuple[Selection, ...] = ()
    axes: tuple[str, ...] = ()
    """What varies besides the method."""
    set: dict[str, Any] = {}
    """Settings on top of the recipes."""
    metrics: tuple[str, ...] = ()
    """If not given, those of the recipes."""
    search: dict[str, Any] = {}
    """The search space of every row."""
    space: str = ""
    """A shipped search space, from the values of axes: ``{method}``."""
    tuner: Tuner = Tuner()
    repeats: int = Field(3, ge=1)
    trained: Trained = "head"
    """What learns at small scale."""
    photographs: bool = False
    """Whether small scale needs photographs, too."""
    figures: tuple[Figure, ...] = ()
    claims: tuple[Claim, ...] = ()
    quotes: tuple[str, ...] = ()
    """Sources of published numbers that belong to no recipe."""
    lists: Listing | None = None
    """What it lists, without any training."""
    notes: str = ""
    """What the document leaves open."""

    @property
    def paper(self) -> str:
        """The key of the paper."""
        return self.name.partition("/")[0]

    @property
    def heading(self) -> str:
        """The title, with the data set and the network of the document."""
        return f"{self.setup}: {self.title}" if self.setup else self.title

    @property
    def study(self) -> str:
        """The entry whose trainings it shows; itself, mostly."""
        return self.of or self.name

    @property
    def searches(self) -> bool:
        """Whether hyper-parameters are searched for."""
        return bool(self.search or self.space)


@cache
def entries() -> dict[str, Entry]:
    """Every entry by name, in the order of the documents.

    Returns:
        The catalogue.

    >>> len(entries()) >= 60
    True
    """
    found: dict[str, Entry] = {}
    for path in sorted((recipes.folder() / recipes.REPRODUCTIONS).glob("*.yaml")):
        content = plain_yaml(path)
        for block in content["entries"]:
            for values in _expanded(block):
                if base := values.get("of"):
                    values = {k: getattr(found[base], k) for k in INHERITED} | values
                found[values["name"]] = Entry.model_validate(values)
    return found


def entry(name: str) -> Entry:
    """The entry called ``name``.

    Args:
        name: ``paper/table``.

    Returns:
        The entry.

    Raises:
        BadInput: There is no such table or figure.
    """
    if name not in entries():
        close = did_you_mean(name, entries())
        raise BadInput(f"there is no table or figure '{name}' to reproduce; {close}")
    return entries()[name]


def find_entries(words: Sequence[str]) -> list[Entry]:
    """The entries whose name, title, kind, source or paper contain all words.

    Args:
        words: In any case; none: all entries.

    Returns:
        The entries, in the order of the documents.

    Raises:
        BadInput: No entry has them all.
    """
    found = [one for one in entries().values() if all(word.lower() in _text(one) for word in words)]
    if not found:
        close = did_you_mean("/".join(words), entries())
        raise BadInput(f"no table or figure matches '{' '.join(words)}'; {close}")
    return found


def _text(one: Entry) -> str:
    paper = published.papers()[one.paper]
    about = f"{paper.title} {paper.authors}"
    return f"{one.name} {one.kind} {one.heading} {one.source} {about}".lower()


def _expanded(block: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A block of the file as entries: one for each combination of ``each``."""
    rest = {key: value for key, value in block.items() if key != "each"}
    each = block.get("each", [{}])
    if isinstance(each, Mapping):
        each = [
            dict(zip(each, values, strict=True)) for values in itertools.product(*each.values())
        ]
    return [_filled(rest, values) for values in each]


def _filled(value: Any, given: Mapping[str, Any]) -> Any:
    """``value`` with every ``<name>`` replaced; alone in a string, by a value of any type."""
    if isinstance(value, Mapping):
        return {key: _filled(inner, given) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, given) for inner in value]
    if not isinstance(value, str):
        return value
    alone = re.fullmatch(r"<(\w+)>", value)
    if alone and alone[1] in given:
        return given[alone[1]]
    return re.sub(r"<(\w+)>", lambda m: _as_text(given.get(m[1], m[0])), value)


def _as_text(value: Any) -> str:
    """A value inside a sentence; of a list, all its values."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
