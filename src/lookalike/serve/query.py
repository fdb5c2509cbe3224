"""The body of ``POST /api/query``."""

from typing import Annotated, Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from lookalike.serve.limits import EXAMPLES, FILTER_LENGTH, LABEL_LENGTH, NEIGHBOURS

Id = Annotated[int, Field(ge=0, lt=2**63)]
Ids = Annotated[list[Id], Field(max_length=EXAMPLES)]
LabelName = Annotated[str, Field(max_length=LABEL_LENGTH)]
Labels = Annotated[list[LabelName], Field(max_length=EXAMPLES)]
Vector = Annotated[list[FiniteFloat], Field(min_length=1, max_length=65_536)]


class Query(BaseModel):
    """A search by ids, vectors and labels."""

    model_config = ConfigDict(extra="forbid", strict=True)

    vectors: Annotated[list[Vector], Field(max_length=EXAMPLES)] = Field(
        [], description="Vectors of the index's own model."
    )
    items: Ids = Field([], description="Indexed pictures; the query is the mean of all vectors.")
    positive_ids: Ids = Field([], description="Pictures that were marked as right.")
    negative_ids: Ids = Field([], description="Pictures that were marked as wrong.")
    plus: Labels = Field([], description="Labels whose mean is added.")
    minus: Labels = Field([], description="Labels whose mean is subtracted.")
    weight: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)] = Field(
        1.0, description="How much a label counts, against 1 of the pictures."
    )
    k: Annotated[int, Field(ge=1, le=NEIGHBOURS)] = Field(24, description="How many.")
    label: LabelName | None = Field(None, description="Search pictures of this label only.")
    where: Annotated[str, Field(max_length=FILTER_LENGTH)] | None = Field(
        None, description="Search pictures that this filter leaves, such as price < 50."
    )
    at_least: Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)] = Field(
        -1.0, description="Leave out neighbours less similar than this."
    )


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
    try:
        return Query.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise RequestValidationError([{**first, "loc": ("body", *first["loc"])}]) from error
