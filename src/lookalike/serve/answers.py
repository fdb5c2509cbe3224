"""What the server answers, as the types that its OpenAPI description shows."""

from typing import Literal

from pydantic import BaseModel, Field

from lookalike.search.items import Hit, Item

__all__ = [
    "About",
    "Health",
    "ItemAnswer",
    "ItemsAnswer",
    "LabelAnswer",
    "MapAnswer",
    "NeighbourAnswer",
    "NeighboursAnswer",
    "Problem",
    "ShareMap",
    "WhyAnswer",
]


class Problem(BaseModel):
    """Why a request was refused."""

    detail: str = Field(description="One sentence.")


class Health(BaseModel):
    """The server runs."""

    status: Literal["ok"] = "ok"


class About(BaseModel):
    """What is being searched."""

    name: str
    pictures: int
    network: str
    dim: int = Field(description="The length of a vector.")
    fingerprint: str = Field(description="Names network, weights and transform.")
    runtime: Literal["torch", "onnx"]
    approximation: str | None = Field(
        description="How search is made fast and how well that agrees; null: search is exact."
    )
    upload_bytes: int = Field(description="The largest file that is taken.")
    neighbours: int = Field(description="The largest k.")


class LabelAnswer(BaseModel):
    """A label and how many pictures have it."""

    name: str
    count: int


class ItemAnswer(BaseModel):
    """An indexed picture."""

    id: int
    path: str = Field(description="Relative to the folder that was indexed.")
    label: str | None
    metadata: dict[str, str]

    @classmethod
    def of(cls, item: Item) -> "ItemAnswer":
        """The answer about ``item``."""
        return cls(id=item.id, path=item.path, label=item.label, metadata=item.metadata)


class NeighbourAnswer(ItemAnswer):
    """An indexed picture and how similar it is to the query."""

    similarity: float = Field(description="Cosine similarity, at most 1.")

    @classmethod
    def of_hit(cls, hit: Hit) -> "NeighbourAnswer":
        """The answer about ``hit``."""
        return cls(
            id=hit.id,
            path=hit.path,
            label=hit.label,
            metadata=hit.metadata,
            similarity=round(hit.similarity, 5),
        )


class ItemsAnswer(BaseModel):
    """Some of the pictures, and how many there are."""

    items: list[ItemAnswer]
    total: int


class NeighboursAnswer(BaseModel):
    """The most similar pictures, the most similar first."""

    neighbours: list[NeighbourAnswer]
    milliseconds: float = Field(description="How long the server computed.")


class ShareMap(BaseModel):
    """The share of each place of a picture in a similarity."""

    shares: list[list[float]] = Field(
        description="Rows of cells. They add up to the similarity, but for the head's bias."
    )
    box: tuple[float, float, float, float] = Field(
        description="Left, top, width and height of what the network saw, in parts of the picture."
    )


class WhyAnswer(BaseModel):
    """Where the similarity of two pictures comes from."""

    similarity: float
    query: ShareMap
    neighbour: ShareMap
    milliseconds: float


class MapAnswer(BaseModel):
    """A flat map of the index, column by column; ``labels`` are positions in ``label_names``."""

    method: Literal["pca", "t-sne"]
    final: bool = Field(description="False: a better map is being made; ask again.")
    total: int = Field(description="How many pictures the index has; the map may show fewer.")
    ids: list[int]
    x: list[float] = Field(description="Between -1 and 1.")
    y: list[float] = Field(description="Between -1 and 1.")
    labels: list[int] = Field(description="-1: the picture has no label.")
    label_names: list[str]
