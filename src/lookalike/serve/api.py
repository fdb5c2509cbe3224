"""The routes of the JSON API: they check requests, hand work to threads and batches, and answer."""

import asyncio
import math
import time
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, File, Form, Header, Path, Query, Request, Response, UploadFile
from numpy.typing import NDArray
from PIL.Image import Image
from pydantic import BaseModel
from starlette.requests import ClientDisconnect

from lookalike.addresses import DatabaseAddress
from lookalike.inference.embedder import Embedder
from lookalike.inference.encoder import Vectors
from lookalike.serve import answers, query
from lookalike.serve.attribution import attribute, seen_part
from lookalike.serve.collection import View
from lookalike.serve.engine import SearchTask, milliseconds_since
from lookalike.serve.limits import (
    EXAMPLES,
    FILTER_LENGTH,
    LABEL_LENGTH,
    LISTED,
    NEIGHBOURS,
    PICTURES,
    Refusal,
)
from lookalike.serve.pictures import check_headers, decode_upload

if TYPE_CHECKING:
    from lookalike.serve.application import Service

Id = Annotated[int, Path(ge=0, lt=2**63, description="The number of an indexed picture.")]
Label = Annotated[
    str | None, Query(max_length=LABEL_LENGTH, description="Search pictures of this label only.")
]
AtLeast = Annotated[
    float, Query(ge=-1, le=1, description="Leave out neighbours less similar than this.")
]
K = Annotated[int, Query(ge=1, le=NEIGHBOURS, description="How many neighbours.")]
Where = Annotated[
    str | None,
    Query(
        max_length=FILTER_LENGTH,
        description="Search pictures that this filter leaves, such as price < 50 and brand = 'x'.",
    ),
]
FormIds = Annotated[list[query.Id], Form(max_length=EXAMPLES)]
FormLabels = Annotated[list[query.LabelName], Form(max_length=EXAMPLES)]
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
    _422="A value is invalid.",
    _431="The head of the request is too large.",
    _429="Too much work is waiting, or this token has asked too often; see Retry-After.",
    _503="The server is overloaded, or cannot read its index; see Retry-After.",
)
UNREADABLE = problems(_400="The body cannot be read.", _413="The body is too large.")
UNKNOWN = problems(_404="There is no such picture, or its file is missing.")
UPLOADED = problems(
    _400="The form cannot be read.",
    _413="The file or the picture is too large.",
    _415="The file is not a picture of a known format.",
)


def api_router(service: "Service") -> APIRouter:
    """Every route under ``/api``, about one index."""
    limits, engine, collection = service.limits, service.engine, service.collection
    router = APIRouter(prefix="/api", responses=ALWAYS)

    async def answer(
        start: float, view: View, wanted: query.Query, uploads: Sequence[Vectors] = ()
    ) -> Response:
        def plan() -> SearchTask:
            condition = view.chosen(wanted.where, wanted.label)
            vector = wanted.combined(view, uploads)
            return SearchTask(view, vector, wanted.k + len(wanted.excluded), condition)

        hits = await engine.search(await service.lookups.run(plan))
        neighbours = [
            answers.NeighbourAnswer.model_validate(hit)
            for hit in hits
            if hit.id not in wanted.excluded and hit.similarity >= wanted.at_least
        ]
        return as_json(
            answers.NeighboursAnswer(
                neighbours=neighbours[: wanted.k],
                milliseconds=milliseconds_since(start),
                generation=view.index.generation,
            )
        )

    @router.get("/health", tags=["about"])
    async def health() -> answers.Health:
        """Whether the server runs; needs no token."""
        return answers.Health()

    @router.get("/ready", tags=["about"])
    async def ready() -> answers.Ready:
        """Whether the server answers searches, as it does from the first request on; no token."""
        return answers.Ready()

    @router.get("/about", tags=["about"])
    @service.lookups.threaded
    def about() -> answers.About:
        """What is being searched, by which network, within which limits."""
        view = collection.view
        index = view.index
        return answers.About(
            name=name_of(index.address),
            pictures=len(index),
            generation=index.generation,
            updated=index.updated,
            columns=view.columns,
            network=index.embedder.blueprint.network if engine.encoder is not None else None,
            dim=index.dim,
            fingerprint=index.fingerprint,
            runtime=engine.runtime,
            approximation=index.approximation,
            upload_bytes=limits.upload_bytes,
            neighbours=NEIGHBOURS,
        )

    @router.get("/labels", tags=["about"])
    @service.lookups.threaded
    def list_labels() -> list[answers.LabelAnswer]:
        """Every label with the number of its pictures, by name."""
        pairs = collection.view.label_counts.items()
        return [answers.LabelAnswer(name=name, count=count) for name, count in pairs]

    @router.get("/items", tags=["pictures"])
    async def list_items(
        label: Label = None,
        where: Where = None,
        offset: Annotated[int, Query(ge=0, lt=2**63)] = 0,
        limit: Annotated[int, Query(ge=1, le=LISTED)] = 24,
        seed: Annotated[
            int | None,
            Query(ge=0, lt=2**63, description="Draw pictures at random; one seed, one order."),
        ] = None,
    ) -> answers.ItemsAnswer:
        """Pictures in the order of the index, or drawn at random."""
        workers = service.lookups if where is None and label is None else service.filters
        return await workers.run(listed, collection.view, label, where, offset, limit, seed)

    def listed(
        view: View,
        label: str | None,
        where: str | None,
        offset: int,
        limit: int,
        seed: int | None,
    ) -> answers.ItemsAnswer:
        ids = view.ids
        if label is not None and label not in view.label_counts:
            return answers.ItemsAnswer(items=[], total=0)
        chosen = view.chosen(where, label)
        if chosen is not None:
            ids = view.index.ids_where(chosen)
        places = np.arange(min(offset, len(ids)), min(offset + limit, len(ids)))
        if seed is not None:
            places = shuffled(places, len(ids), seed)
        found = view.index.items(ids[places].tolist())
        items = [answers.ItemAnswer.model_validate(item) for item in found]
        return answers.ItemsAnswer(items=items, total=len(ids))

    @router.get("/items/{id}", tags=["pictures"], responses=UNKNOWN)
    @service.lookups.threaded
    def get_item(id: Id) -> answers.ItemAnswer:
        """What is known about a picture."""
        view = collection.view
        view.check(id)
        return answers.ItemAnswer.model_validate(view.index.item(id))

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
    @service.thumbnails.threaded
    def get_image(
        id: Id,
        size: Annotated[SizeName, Query(description="Longest side: 96, 320, 1024.")] = "small",
        if_none_match: Annotated[str | None, Header()] = None,
    ) -> Response:
        """A thumbnail of the picture, never the file itself."""
        view = collection.view
        view.check(id)
        tag = view.pictures.tag(id, SIZES[size])
        headers = {"ETag": f'"{tag}"', "Cache-Control": "private, no-cache"}
        if if_none_match is not None and tag in if_none_match:
            return Response(status_code=304, headers=headers)
        thumbnail = view.pictures.thumbnail(id, SIZES[size], tag)
        return Response(thumbnail.data, media_type=thumbnail.media_type, headers=headers)

    @router.get(
        "/items/{id}/neighbours",
        tags=["search"],
        responses=UNKNOWN,
        response_model=answers.NeighboursAnswer,
    )
    async def neighbours_of_item(
        id: Id, k: K = 24, label: Label = None, where: Where = None, at_least: AtLeast = -1.0
    ) -> Response:
        """The pictures most similar to an indexed one, without itself."""
        start, view = time.perf_counter(), collection.view
        wanted = query.Query(items=[id], k=k, label=label, where=where, at_least=at_least)
        with engine.admission.slot():
            return await answer(start, view, wanted)

    @router.post(
        "/search",
        tags=["search"],
        responses=UNKNOWN | UPLOADED,
        response_model=answers.NeighboursAnswer,
    )
    async def search_by_picture(
        image: Annotated[
            list[UploadFile],
            File(description="The query; of several the mean.", max_length=PICTURES),
        ] = [],  # noqa: B006
        item: FormIds = [],  # noqa: B006
        positive_ids: FormIds = [],  # noqa: B006
        negative_ids: FormIds = [],  # noqa: B006
        plus: FormLabels = [],  # noqa: B006
        minus: FormLabels = [],  # noqa: B006
        weight: Annotated[float, Form(ge=0, le=10, allow_inf_nan=False)] = 1.0,
        k: K = 24,
        label: Label = None,
        where: Where = None,
        at_least: AtLeast = -1.0,
    ) -> Response:
        """The indexed pictures most similar to uploads, which are not stored.

        Ids, labels and marks may be given too; they mean the same as in ``/api/query``.
        """
        start, view = time.perf_counter(), collection.view
        wanted = query.Query(
            items=item,
            positive_ids=positive_ids,
            negative_ids=negative_ids,
            plus=plus,
            minus=minus,
            weight=weight,
            k=k,
            label=label,
            where=where,
            at_least=at_least,
        )
        files = [one.file for one in image]
        with (
            engine.admission.slot(),
            engine.pixels.slot(await service.lookups.run(check_headers, files, limits)),
        ):
            tasks = [asyncio.ensure_future(engine.embed(file)) for file in files]
            try:
                vectors = await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
            return await answer(start, view, wanted, vectors)

    @router.post(
        "/query",
        tags=["search"],
        responses=UNKNOWN | UNREADABLE,
        response_model=answers.NeighboursAnswer,
        openapi_extra=query.DESCRIPTION,  # FastAPI would parse the body in the event loop
    )
    async def search_by_examples(request: Request) -> Response:
        """The pictures most similar to ids, vectors and labels, without the ids themselves."""
        start, view = time.perf_counter(), collection.view
        with engine.admission.slot():
            try:
                text = await request.body()
            except ClientDisconnect as error:
                raise Refusal(400, "The body cannot be read.") from error
            kind = request.headers.get("content-type", "")
            wanted = await service.parsing.run(query.parse, text, kind)
            return await answer(start, view, wanted)

    @router.post("/why", tags=["search"], responses=UNKNOWN | UPLOADED)
    @service.analyses.threaded
    def explain(
        neighbour: Annotated[int, Form(ge=0, lt=2**63, description="An indexed picture.")],
        item: Annotated[
            int | None, Form(ge=0, lt=2**63, description="The query, an indexed picture.")
        ] = None,
        image: Annotated[UploadFile | None, File(description="Or the query as a file.")] = None,
    ) -> answers.WhyAnswer:
        """Which places of two pictures make them similar. Give ``item`` or ``image``."""
        start, view = time.perf_counter(), collection.view
        if (item is None) == (image is None):
            raise Refusal(422, "Give either 'item' or 'image'.")
        encoder = engine.require_encoder()
        embedder = view.index.embedder
        view.check(neighbour)
        if image is not None:
            check_headers([image.file], limits)
            mine = decode_upload(image.file, limits)
            (vector,) = encoder.embed([mine])
        else:
            assert item is not None
            view.check(item)
            mine, vector = view.pictures.whole(item), view.index.vector_of(item)
        other = view.index.vector_of(neighbour)
        return answers.WhyAnswer(
            similarity=round(float(vector @ other), 5),
            query=share_map(embedder, mine, other),
            neighbour=share_map(embedder, view.pictures.whole(neighbour), vector),
            milliseconds=milliseconds_since(start),
        )

    @router.get("/map", tags=["map"])
    @service.analyses.threaded
    def get_map() -> answers.MapAnswer:
        """The map of the pictures: near means similar."""
        view = collection.view
        found = view.map.layout()
        x, y = found.coordinates.round(4).T.tolist()
        names = list(view.label_counts)
        codes = {name: code for code, name in enumerate(names)}
        shown = [item.label for item in view.index.items(found.ids.tolist())]
        return answers.MapAnswer(
            method=found.method,
            final=found.final,
            total=len(view.index),
            ids=found.ids.tolist(),
            x=x,
            y=y,
            # in a database there may be new labels already
            labels=[-1 if label is None else codes.get(label, -1) for label in shown],
            label_names=names,
        )

    return router


def as_json(answer: BaseModel) -> Response:
    """An answer that is not validated a second time."""
    return Response(answer.model_dump_json(), media_type="application/json")


def shuffled(places: NDArray[np.int64], count: int, seed: int) -> NDArray[np.int64]:
    """Places of a random order of ``range(count)``, without making the others.

    Place i of the order is (a i + b) mod n, with a and n coprime.
    """
    if not count:
        return places
    rng = np.random.default_rng(seed)
    step = int(rng.integers(1, count + 1))
    while math.gcd(step, count) > 1:
        step = int(rng.integers(1, count + 1))
    first = int(rng.integers(count))
    return np.array([(step * int(place) + first) % count for place in places], np.int64)


def name_of(address: str | DatabaseAddress) -> str:
    """The name of an index that visitors see: of a path the last part, of a database the schema.

    >>> name_of("/home/me/shop.index/")
    'shop'
    >>> from lookalike.addresses import parse_address
    >>> name_of(parse_address("postgresql://there/all#shop"))
    'shop'
    """
    last = address.schema if isinstance(address, DatabaseAddress) else PurePath(address).name
    return last.removesuffix(".index") or "index"


def share_map(embedder: Embedder, image: Image, vector: Vectors) -> answers.ShareMap:
    """How much each place of a picture contributes to its similarity with ``vector``."""
    rows = np.round(attribute(embedder, image, vector).astype(np.float64), 6).tolist()
    return answers.ShareMap(shares=rows, box=seen_part(embedder, image))
