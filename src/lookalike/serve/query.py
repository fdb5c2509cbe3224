"""What a search starts from: pictures, ids, labels and marks, combined to one vector."""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from fastapi import UploadFile
from fastapi.exceptions import RequestValidationError
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from lookalike.inference.encoder import Vectors
from lookalike.serve.collection import View
from lookalike.serve.limits import (
    EXAMPLES,
    FILTER_LENGTH,
    LABEL_LENGTH,
    LISTED,
    NEIGHBOURS,
    PICTURES,
    Refusal,
)

POSITIVE, NEGATIVE = 0.75, 0.15
"""The weights of marks, beta and gamma."""
SHORTEST = 1e-6
CANCELLED = "These examples cancel each other out: nothing is left to search with."
Precise = NDArray[np.float64]

Id = Annotated[int, Field(ge=0, lt=2**63)]
Ids = Annotated[list[Id], Field(max_length=EXAMPLES)]
LabelName = Annotated[str, Field(max_length=LABEL_LENGTH)]
Labels = Annotated[list[LabelName], Field(max_length=EXAMPLES)]
FilterText = Annotated[str, Field(max_length=FILTER_LENGTH)]
Vector = Annotated[list[FiniteFloat], Field(min_length=1, max_length=65_536)]
MOST_PARTS = 150_000
"""Lists and keys of a body: labels and a filter may have as many brackets and colons.

Four megabytes of nothing else would hold the interpreter, and so every other request, for more than
a second."""


class Narrow(BaseModel):
    """Which pictures are searched, and how many are answered."""

    k: Annotated[int, Field(ge=1, le=NEIGHBOURS)] = Field(24, description="How many neighbours.")
    label: LabelName | None = Field(None, description="Search pictures of this label only.")
    where: FilterText | None = Field(
        None,
        description="Search pictures that this filter leaves, such as price < 50 and brand = 'x'.",
    )
    at_least: Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)] = Field(
        -1.0, description="Leave out neighbours less similar than this."
    )


class Page(BaseModel):
    """Which of the pictures are listed."""

    label: LabelName | None = Field(None, description="List pictures of this label only.")
    where: FilterText | None = Field(None, description="List pictures that this filter leaves.")
    offset: int = Field(0, ge=0, lt=2**63)
    limit: int = Field(24, ge=1, le=LISTED)
    seed: int | None = Field(
        None, ge=0, lt=2**63, description="Draw pictures at random; one seed, one order."
    )


class Marks(BaseModel):
    """What moves a search."""

    positive_ids: Ids = Field([], description="Pictures that were marked as right.")
    negative_ids: Ids = Field([], description="Pictures that were marked as wrong.")
    plus: Labels = Field([], description="Labels whose mean is added.")
    minus: Labels = Field([], description="Labels whose mean is subtracted.")
    weight: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)] = Field(
        1.0, description="How much a label counts, against 1 of the pictures."
    )


class Upload(Marks):
    """The form of ``POST /api/search``."""

    image: list[UploadFile] = Field(
        [], max_length=PICTURES, description="The query; of several the mean."
    )
    item: Ids = Field([], description="Indexed pictures that belong to the query.")


class Query(Narrow, Marks):
    """A search by ids, vectors and labels: the body of ``POST /api/query``."""

    model_config = ConfigDict(extra="forbid", strict=True)

    vectors: Annotated[list[Vector], Field(max_length=EXAMPLES)] = Field(
        [], description="Vectors of the index's own model."
    )
    items: Ids = Field([], description="Indexed pictures; the query is the mean of all vectors.")

    @staticmethod
    def of(narrow: Narrow, marks: Marks | None = None, items: Sequence[int] = ()) -> "Query":
        """The query of values that were validated apart."""
        given = dict(marks or ()) | dict(narrow)
        return Query.model_construct(**given | {"items": items})

    @property
    def excluded(self) -> set[int]:
        """What the answer leaves out: the query itself, and what is wrong."""
        return {*self.items, *self.negative_ids}

    def combined(self, view: View, uploads: Sequence[Vectors] = ()) -> Vectors:
        """The unit vector to search with.

        The query is the mean of the unit vectors of all pictures, scaled to unit length; of each
        label the mean is added or subtracted::

            q = unit(mean(x)),  q = unit(q + weight (sum of plus - sum of minus))

        Marks move it as Rocchio's relevance feedback does, towards the mean of what is right
        and away from the mean of what is wrong::

            q = unit(q + 0.75 mean(positive) - 0.15 mean(negative))

        (Rocchio, "Relevance feedback in information retrieval", 1971; the weights are those of
        Manning, Raghavan and Schuetze, "Introduction to Information Retrieval", 2008, 9.1.1.)

        Args:
            view: The state of the index that is searched.
            uploads: The vectors of uploaded pictures.
        """
        view.check(*self.items, *self.positive_ids, *self.negative_ids)
        vectors: list[ArrayLike] = [*uploads, *self.vectors]
        if not (vectors or self.items or self.plus or self.positive_ids):
            raise Refusal(422, "Give a picture, an id, a vector or a label to search with.")
        query: Precise = np.zeros(view.index.dim)
        units = [_unit(_checked(view, vector)) for vector in vectors]
        units += map(_unit, view.index.vectors_of(self.items)) if self.items else []
        if units:
            query = _unit(np.mean(units, 0), SHORTEST)
        if self.plus or self.minus:
            plus = sum((view.label_mean(label) for label in self.plus), np.zeros(len(query)))
            minus = sum((view.label_mean(label) for label in self.minus), np.zeros(len(query)))
            query = _unit(query + self.weight * (plus - minus), SHORTEST)
        if self.positive_ids or self.negative_ids:
            for ids, weight in ((self.positive_ids, POSITIVE), (self.negative_ids, -NEGATIVE)):
                if ids:
                    marked = view.index.vectors_of(ids)
                    query = query + weight * marked.mean(0, dtype=np.float64)
            query = _unit(query, SHORTEST)
        return query.astype(np.float32)


def _checked(view: View, vector: ArrayLike) -> Precise:
    numbers = np.asarray(vector, np.float64)
    if len(numbers) != view.index.dim:
        raise Refusal(422, f"A vector needs {view.index.dim} numbers, not {len(numbers)}.")
    return numbers


def _unit(vector: NDArray[np.floating], shortest: float = 0.0) -> Precise:
    """A vector scaled to unit length, unless nothing is left of it but rounding."""
    length = float(np.linalg.norm(vector))
    if not shortest < length < np.inf:
        raise Refusal(422, CANCELLED)
    return np.asarray(vector, np.float64) / length


DESCRIPTION: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": Query.model_json_schema()}},
    }
}
"""The body of the route in the description of the API."""


def parse(text: bytes, media_type: str) -> Query:
    """The query in a body; four megabytes of numbers take some hundredths of a second.

    Args:
        text: The body.
        media_type: As its header says; pages of other sites cannot send JSON without asking.

    Raises:
        RequestValidationError: It is not such a query.
    """
    if media_type.partition(";")[0].strip().lower() != "application/json":
        reason = "the body must be JSON, with the media type application/json"
        raise RequestValidationError([{"loc": ("body",), "msg": reason}])
    if sum(map(text.count, (b"[", b"{", b":"))) > MOST_PARTS:
        reason = "the body has too many lists and keys"
        raise RequestValidationError([{"loc": ("body",), "msg": reason}])
    try:
        return Query.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise RequestValidationError([{**first, "loc": ("body", *first["loc"])}]) from error
