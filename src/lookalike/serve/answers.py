"""The answers of the server, as the types of its OpenAPI description."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


class Problem(BaseModel):
    """Why a request was refused."""

    detail: str = Field(description="One sentence.")


class Health(BaseModel):
    """The server runs."""

    status: Literal["ok"] = "ok"


class Ready(BaseModel):
    """The server answers searches."""

    status: Literal["ready"] = "ready"


class About(BaseModel):
    """What is being searched."""

    name: str
    pictures: int
    generation: int = Field(description="Grows with every change of the index.")
    updated: float = Field(description="When the index was last changed, in epoch seconds.")
    columns: list[str] = Field(description="The metadata that filters can read.")
    network: str | None = Field(description="Null: the index was made from vectors.")
    dim: int = Field(description="The length of a vector.")
    fingerprint: str = Field(description="Identifies network, weights and transform.")
    runtime: Literal["torch", "onnx"] | None = Field(
        description="What embeds uploads; null: pictures cannot be uploaded."
    )
    approximation: str | None = Field(
        description="How search is made fast, and its recall; null: search is exact."
    )
    upload_bytes: int = Field(description="The largest file that is accepted.")
    neighbours: int = Field(description="The largest k.")


class LabelAnswer(BaseModel):
    """A label and how many pictures have it."""

    name: str
    count: int


class ItemAnswer(BaseModel):
    """An indexed picture."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    path: str = Field(description="Relative to the folder that was indexed.")
    label: str | None
    metadata: dict[str, str]


class NeighbourAnswer(ItemAnswer):
    """An indexed picture and how similar it is to the query."""

    similarity: Annotated[float, AfterValidator(lambda value: round(value, 5))] = Field(
        description="Cosine similarity, at most 1."
    )


class ItemsAnswer(BaseModel):
    """Some of the pictures, and how many there are."""

    items: list[ItemAnswer]
    total: int


class NeighboursAnswer(BaseModel):
    """The most similar pictures, the most similar first."""

    neighbours: list[NeighbourAnswer]
    milliseconds: float = Field(description="How long the server computed.")
    generation: int = Field(description="The state of the index that was searched.")


class ShareMap(BaseModel):
    """The contribution of each place of a picture to a similarity."""

    shares: list[list[float]] = Field(
        description="Rows of cells. Their sum is the similarity, except for the head's bias."
    )
    box: tuple[float, float, float, float] = Field(
        description="Left, top, width, height of the network's input, as fractions of the picture."
    )


class WhyAnswer(BaseModel):
    """Where the similarity of two pictures comes from."""

    similarity: float
    query: ShareMap
    neighbour: ShareMap
    milliseconds: float


class MapAnswer(BaseModel):
    """The map of the index, by columns; ``labels`` are positions in ``label_names``."""

    method: Literal["pca", "t-sne"]
    final: bool = Field(description="False: a better map is being computed; request it again.")
    total: int = Field(description="How many pictures the index has; the map may show fewer.")
    ids: list[int]
    x: list[float] = Field(description="Between -1 and 1.")
    y: list[float] = Field(description="Between -1 and 1.")
    labels: list[int] = Field(description="-1: the picture has no label.")
    label_names: list[str]
