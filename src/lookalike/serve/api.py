"""The routes of the JSON API: they check requests, hand work to threads, and answer."""

import time
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, File, Form, Header, Path, Query, Response, UploadFile
from PIL.Image import Image

from lookalike.errors import BadInput
from lookalike.inference.embedder import Embedder
from lookalike.inference.encoder import Encoder, Vectors
from lookalike.search.index import Index
from lookalike.search.items import Item
from lookalike.serve import answers
from lookalike.serve.attribution import attribute, seen_part
from lookalike.serve.limits import Limits, Refusal, Workers, cores
from lookalike.serve.map import IndexMap
from lookalike.serve.pictures import Pictures, decode_upload

Id = Annotated[int, Path(ge=0, lt=2**63, description="The number of an indexed picture.")]
Label = Annotated[
    str | None, Query(max_length=1_000, description="Search pictures of this label only.")
]
AtLeast = Annotated[
    float, Query(ge=-1, le=1, description="Leave out neighbours less similar than this.")
]
SizeName = Literal["tiny", "small", "large"]
SIZES: dict[SizeName, int] = {"tiny": 96, "small": 320, "large": 1_024}
"""The longest sides that pictures are served in: on the map, in a grid, alone."""


def problems(**sentences: str) -> dict[int | str, dict[str, Any]]:
    """The documented refusals of a route: ``_404="when"``."""
    return {
        int(status.lstrip("_")): {"model": answers.Problem, "description": when}
        for status, when in sentences.items()
    }


ALWAYS = problems(
    _401="The token is missing or wrong.",
    _403="The request comes from a page of another site.",
    _408="The request took too long.",
    _421="The host name is not this server's.",
    _422="A value is invalid.",
    _429="Too much work is waiting.",
)
UNKNOWN = problems(_404="There is no such picture, or its file is missing.")
UPLOADED = problems(
    _400="The form cannot be read.",
    _413="The file or the picture is too large.",
    _415="The file is not a picture of a known format.",
)


def api_router(index: Index, encoder: Encoder, limits: Limits) -> APIRouter:
    """Every route under ``/api``, about one index."""
    router = APIRouter(prefix="/api", responses=ALWAYS)
    heavy = Workers(cores(), limits.waiting, "embedding")
    light = Workers(cores(), 8 * limits.waiting, "reading")
    pictures = Pictures(index, limits.thumbnail_bytes)
    index_map = IndexMap(index, limits.map_points)
    K = Annotated[int, Query(ge=1, le=limits.neighbours, description="How many neighbours.")]

    def known(id: int) -> Item:
        try:
            return index.item(id)
        except BadInput as error:
            raise Refusal(404, f"There is no picture {id}.") from error

    def nearest(
        vector: Vectors, k: int, label: str | None, at_least: float, without: int | None
    ) -> list[answers.NeighbourAnswer]:
        if label is not None and label not in index.label_names:
            raise Refusal(422, f"No picture has the label '{label}'.")
        wanted = k if without is None else k + 1
        (hits,) = index.search(vector, wanted, label=label)
        found = [hit for hit in hits if hit.id != without and hit.similarity >= at_least]
        return [answers.NeighbourAnswer.model_validate(hit) for hit in found[:k]]

    @router.get("/health", tags=["about"])
    async def health() -> answers.Health:
        """Whether the server runs; needs no token."""
        return answers.Health()

    @router.get("/about", tags=["about"])
    @light.threaded
    def about() -> answers.About:
        """What is being searched, by which network, within which limits."""
        return answers.About(
            name=name_of(index.place),
            pictures=len(index),
            network=index.embedder.blueprint.network,
            dim=encoder.dim,
            fingerprint=encoder.fingerprint,
            runtime="torch" if encoder is index.embedder else "onnx",
            approximation=index.approximation,
            upload_bytes=limits.upload_bytes,
            neighbours=limits.neighbours,
        )

    @router.get("/labels", tags=["about"])
    @light.threaded
    def list_labels() -> list[answers.LabelAnswer]:
        """Every label with the number of its pictures, by name."""
        counts = np.bincount(index.label_codes + 1, minlength=len(index.label_names) + 1)[1:]
        pairs = zip(index.label_names, counts.tolist(), strict=True)
        return [answers.LabelAnswer(name=name, count=count) for name, count in pairs]

    @router.get("/items", tags=["pictures"])
    @light.threaded
    def list_items(
        label: Label = None,
        offset: Annotated[int, Query(ge=0, lt=2**63)] = 0,
        limit: Annotated[int, Query(ge=1, le=limits.listed)] = 24,
        seed: Annotated[
            int | None,
            Query(ge=0, lt=2**63, description="Draw pictures at random; one seed, one order."),
        ] = None,
    ) -> answers.ItemsAnswer:
        """Pictures in the order of the index, or drawn at random."""
        ids = index.ids
        if label is not None:
            code = index.label_names.index(label) if label in index.label_names else -2
            ids = ids[index.label_codes == code]
        if seed is not None:
            ids = np.random.default_rng(seed).permutation(ids)
        found = index.items(ids[offset:][:limit])
        items = [answers.ItemAnswer.model_validate(item) for item in found]
        return answers.ItemsAnswer(items=items, total=len(ids))

    @router.get("/items/{id}", tags=["pictures"], responses=UNKNOWN)
    @light.threaded
    def get_item(id: Id) -> answers.ItemAnswer:
        """What is known about a picture."""
        return answers.ItemAnswer.model_validate(known(id))

    @router.get(
        "/items/{id}/image",
        tags=["pictures"],
        response_class=Response,
        responses=UNKNOWN
        | {
            200: {"content": {"image/jpeg": {}, "image/png": {}}, "description": "The picture."},
            304: {"description": "The picture has not changed."},
        },
    )
    @light.threaded
    def get_image(
        id: Id,
        size: Annotated[SizeName, Query(description="Longest side: 96, 320, 1024.")] = "small",
        if_none_match: Annotated[str | None, Header()] = None,
    ) -> Response:
        """A thumbnail of the picture, never the file itself."""
        known(id)
        tag = pictures.tag(id, SIZES[size])
        headers = {"ETag": f'"{tag}"', "Cache-Control": "private, no-cache"}
        if if_none_match is not None and tag in if_none_match:
            return Response(status_code=304, headers=headers)
        thumbnail = pictures.thumbnail(id, SIZES[size], tag)
        return Response(thumbnail.data, media_type=thumbnail.media_type, headers=headers)

    @router.get("/items/{id}/neighbours", tags=["search"], responses=UNKNOWN)
    @heavy.threaded
    def neighbours_of_item(
        id: Id, k: K = 24, label: Label = None, at_least: AtLeast = -1.0
    ) -> answers.NeighboursAnswer:
        """The pictures most similar to an indexed one, without itself."""
        start = time.perf_counter()
        known(id)
        neighbours = nearest(index.vector_of(id), k, label, at_least, without=id)
        return answers.NeighboursAnswer(neighbours=neighbours, milliseconds=since(start))

    @router.post("/search", tags=["search"], responses=UPLOADED)
    @heavy.threaded
    def search_by_picture(
        image: Annotated[UploadFile, File(description="The query.")],
        k: K = 24,
        label: Label = None,
        at_least: AtLeast = -1.0,
    ) -> answers.NeighboursAnswer:
        """The indexed pictures most similar to an upload, which is not stored."""
        start = time.perf_counter()
        (vector,) = encoder.embed([decode_upload(image.file.read(), limits)])
        neighbours = nearest(vector, k, label, at_least, without=None)
        return answers.NeighboursAnswer(neighbours=neighbours, milliseconds=since(start))

    @router.post("/why", tags=["search"], responses=UNKNOWN | UPLOADED)
    @heavy.threaded
    def explain(
        neighbour: Annotated[int, Form(ge=0, lt=2**63, description="An indexed picture.")],
        item: Annotated[
            int | None, Form(ge=0, lt=2**63, description="The query, an indexed picture.")
        ] = None,
        image: Annotated[UploadFile | None, File(description="Or the query as a file.")] = None,
    ) -> answers.WhyAnswer:
        """Which places of two pictures make them similar. Give ``item`` or ``image``."""
        start = time.perf_counter()
        if (item is None) == (image is None):
            raise Refusal(422, "Give either 'item' or 'image'.")
        known(neighbour)
        if image is not None:
            query = decode_upload(image.file.read(), limits)
            (vector,) = encoder.embed([query])
        else:
            assert item is not None
            known(item)
            query, vector = pictures.whole(item), index.vector_of(item)
        other = index.vector_of(neighbour)
        return answers.WhyAnswer(
            similarity=round(float(vector @ other), 5),
            query=share_map(index.embedder, query, other),
            neighbour=share_map(index.embedder, pictures.whole(neighbour), vector),
            milliseconds=since(start),
        )

    @router.get("/map", tags=["map"])
    @light.threaded
    def get_map() -> answers.MapAnswer:
        """The map of the pictures: near means similar."""
        found = index_map.layout()
        x, y = found.places.round(4).T.tolist()
        return answers.MapAnswer(
            method=found.method,
            final=found.final,
            total=len(index),
            ids=np.asarray(index.ids)[found.rows].tolist(),
            x=x,
            y=y,
            labels=index.label_codes[found.rows].tolist(),
            label_names=index.label_names,
        )

    return router


def name_of(place: str) -> str:
    """The name of an index that visitors see: the last part of its place.

    >>> name_of("/home/me/shop.index/"), name_of("postgresql://me@there/pictures#shop")
    ('shop', 'shop')
    """
    last = place.rstrip("/").rpartition("/")[2].rpartition("#")[2]
    return last.removesuffix(".index") or "index"


def since(start: float) -> float:
    """Milliseconds since ``start``, to a tenth."""
    return round(1e3 * (time.perf_counter() - start), 1)


def share_map(embedder: Embedder, image: Image, vector: Vectors) -> answers.ShareMap:
    """How much each place of a picture contributes to its similarity with ``vector``."""
    rows = np.round(attribute(embedder, image, vector).astype(np.float64), 6).tolist()
    return answers.ShareMap(shares=rows, box=seen_part(embedder, image))
