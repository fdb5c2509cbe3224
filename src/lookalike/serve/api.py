"""The routes of the JSON API: they check requests, hand work to threads and batches, and answer."""

import asyncio
import math
import time
from collections.abc import Sequence
from pathlib import PurePath
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, File, Form, Header, Path, Query, Request, Response, UploadFile
from numpy.typing import NDArray
from PIL.Image import Image
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import ClientDisconnect

from lookalike.addresses import DatabaseAddress
from lookalike.inference.embedder import Embedder
from lookalike.inference.encoder import Vectors
from lookalike.search.filters import Filter
from lookalike.serve import answers, query
from lookalike.serve.attribution import attribute, seen_part
from lookalike.serve.collection import View
from lookalike.serve.limits import NEIGHBOURS, Refusal
from lookalike.serve.monitoring import prometheus_text
from lookalike.serve.pictures import check_headers, decode_upload
from lookalike.serve.service import Service, milliseconds_since

Id = Annotated[int, Path(ge=0, lt=2**63, description="The number of an indexed picture.")]
Narrow = Annotated[query.Narrow, Query()]
SizeName = Literal["tiny", "small", "large"]
SIZES: dict[SizeName, int] = {"tiny": 96, "small": 320, "large": 1_024}
"""The longest sides that pictures are served in: on the map, in a grid, alone."""


REFUSALS: dict[int | str, dict[str, Any]] = {
    "4XX": {
        "model": answers.Problem,
        "description": "Refused: 400 the body cannot be read; 401 the token is missing or wrong; "
        "403 a page of another site asks; 404 there is no such picture, or its file is missing; "
        "408 it took too long; 413 it is too large; 415 it is no picture of a known format; 422 a "
        "value is invalid; 429 too much work is waiting, or this token has asked too often, and "
        "Retry-After says when to come again; 431 the head is too large.",
    },
    503: {
        "model": answers.Problem,
        "description": "Overloaded, or the index cannot be read; see Retry-After.",
    },
}


def api_router(service: Service) -> APIRouter:
    """Every route about one index."""
    limits, collection = service.limits, service.collection
    router = APIRouter(responses=REFUSALS)

    async def answer(
        start: float, view: View, wanted: query.Query, uploads: Sequence[Vectors] = ()
    ) -> answers.NeighboursAnswer:
        def plan() -> tuple[Vectors, Filter | None]:
            return wanted.combined(view, uploads), view.chosen(wanted.where, wanted.label)

        vector, where = await service.lookups.run(plan)
        hits = await service.search(view, vector, wanted.k + len(wanted.excluded), where)
        neighbours = [
            answers.NeighbourAnswer.model_validate(hit)
            for hit in hits
            if hit.id not in wanted.excluded and hit.similarity >= wanted.at_least
        ]
        return answers.NeighboursAnswer(
            neighbours=neighbours[: wanted.k],
            milliseconds=milliseconds_since(start),
            generation=view.index.generation,
        )

    @router.api_route("/health", methods=["GET", "HEAD"], include_in_schema=False)
    @router.get("/api/health", tags=["about"])
    async def health() -> answers.Health:
        """Whether the server runs; needs no token."""
        return answers.Health()

    @router.api_route("/ready", methods=["GET", "HEAD"], include_in_schema=False)
    @router.get("/api/ready", tags=["about"])
    async def ready() -> answers.Ready:
        """Whether the server answers searches, as it does from the first request on; no token."""
        return answers.Ready()

    @router.get(
        "/metrics",
        tags=["about"],
        response_class=Response,
        responses={200: {"content": {"text/plain": {}}, "description": "The numbers."}},
    )
    async def metrics() -> Response:
        """What Prometheus collects; needs the token, if there is one."""
        updated = collection.view.index.updated
        text = await asyncio.to_thread(prometheus_text, service.pools, updated)
        return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    @router.get("/api/about", tags=["about"])
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
            network=index.embedder.blueprint.network if service.encoder is not None else None,
            dim=index.dim,
            fingerprint=index.fingerprint,
            runtime=service.runtime,
            approximation=index.approximation,
            upload_bytes=limits.upload_bytes,
            neighbours=NEIGHBOURS,
        )

    @router.get("/api/labels", tags=["about"])
    @service.lookups.threaded
    def list_labels() -> list[answers.LabelAnswer]:
        """Every label with the number of its pictures, by name."""
        pairs = collection.view.label_counts.items()
        return [answers.LabelAnswer(name=name, count=count) for name, count in pairs]

    @router.get("/api/items", tags=["pictures"])
    async def list_items(page: Annotated[query.Page, Query()]) -> answers.ItemsAnswer:
        """Pictures in the order of the index, or drawn at random."""
        every = page.where is None and page.label is None
        pool = service.lookups if every else service.filters
        return await pool.run(listed, collection.view, page)

    @router.get("/api/items/{id}", tags=["pictures"])
    @service.lookups.threaded
    def get_item(id: Id) -> answers.ItemAnswer:
        """What is known about a picture."""
        view = collection.view
        view.check(id)
        return answers.ItemAnswer.model_validate(view.index.item(id))

    @router.get(
        "/api/items/{id}/image",
        tags=["pictures"],
        response_class=Response,
        responses={
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

    @router.get("/api/items/{id}/neighbours", tags=["search"])
    async def neighbours_of_item(id: Id, narrow: Narrow) -> answers.NeighboursAnswer:
        """The pictures most similar to an indexed one, without itself."""
        start, view = time.perf_counter(), collection.view
        with service.admission.slot():
            return await answer(start, view, query.Query.of(narrow, items=[id]))

    @router.post("/api/search", tags=["search"])
    async def search_by_picture(
        form: Annotated[query.Upload, Form(media_type="multipart/form-data")], narrow: Narrow
    ) -> answers.NeighboursAnswer:
        """The indexed pictures most similar to uploads, which are not stored.

        Ids, labels and marks may be given too; they mean the same as in ``/api/query``.
        """
        start, view = time.perf_counter(), collection.view
        wanted = query.Query.of(narrow, form, form.item)
        files = [one.file for one in form.image]
        with (
            service.admission.slot(),
            service.pixels.slot(await service.lookups.run(check_headers, files, limits)),
        ):
            return await answer(start, view, wanted, await service.embed(files))

    @router.post(
        "/api/query",
        tags=["search"],
        openapi_extra=query.DESCRIPTION,  # FastAPI would parse the body in the event loop
    )
    async def search_by_examples(request: Request) -> answers.NeighboursAnswer:
        """The pictures most similar to ids, vectors and labels, without the ids themselves."""
        start, view = time.perf_counter(), collection.view
        with service.admission.slot():
            try:
                text = await request.body()
            except ClientDisconnect as error:
                raise Refusal(400, "The body cannot be read.") from error
            kind = request.headers.get("content-type", "")
            wanted = await service.parsing.run(query.parse, text, kind)
            return await answer(start, view, wanted)

    @router.post("/api/why", tags=["search"])
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
        encoder = service.require_encoder()
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

    @router.get("/api/map", tags=["map"])
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


def listed(view: View, page: query.Page) -> answers.ItemsAnswer:
    """A page of the pictures; none where no picture has the label."""
    if page.label is not None and page.label not in view.label_counts:
        return answers.ItemsAnswer(items=[], total=0)
    chosen = view.chosen(page.where, page.label)
    ids = view.ids if chosen is None else view.index.ids_where(chosen)
    places = np.arange(min(page.offset, len(ids)), min(page.offset + page.limit, len(ids)))
    if page.seed is not None:
        places = shuffled(places, len(ids), page.seed)
    found = view.index.items(ids[places].tolist())
    items = [answers.ItemAnswer.model_validate(item) for item in found]
    return answers.ItemsAnswer(items=items, total=len(ids))


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
