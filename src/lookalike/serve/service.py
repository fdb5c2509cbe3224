"""One index being served by one process: its state, its model, and the threads that compute."""

import asyncio
import time
from collections.abc import Sequence
from typing import BinaryIO

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from lookalike.data.parallel import available_cores
from lookalike.inference.embedder import Embedder
from lookalike.inference.encoder import Encoder, Vectors
from lookalike.inference.onnx_encoder import OnnxEncoder
from lookalike.search.filters import Filter
from lookalike.search.index import Index
from lookalike.search.items import Hit
from lookalike.serve.collection import Collection, View
from lookalike.serve.limits import PICTURES, Limits, Refusal, Runtime
from lookalike.serve.pictures import decode_upload
from lookalike.serve.pool import Admission, Pool


class Service:
    """What the routes share.

    Each core takes the pictures or vectors that wait, up to a batch, and computes them alone: cores
    that share a batch wait for each other.

    Args:
        index: What is searched; its changes are followed.
        limits: What requests may use.
        encoder: Embeds uploads instead of the index's own model; it must be the same model.
        runtime: What runs the index's own model.
        threads: How many cores to use; None: all that this process may use.
    """

    def __init__(
        self,
        index: Index,
        limits: Limits,
        encoder: Encoder | None = None,
        runtime: Runtime = "torch",
        threads: int | None = None,
    ) -> None:
        self.limits = limits
        self.encoder = encoder
        if encoder is None and index.fingerprint:
            self.encoder = index.embedder
            if runtime == "onnx":
                self.encoder = OnnxEncoder.of(index.embedder, limits.torch_threads)
        if self.encoder is not None:
            index.check_encoder(self.encoder)
            self._warm_up(self.encoder)
        self.admission = Admission(limits.waiting)
        self.pixels = Admission(limits.working_pixels)
        self.pools: dict[str, Pool] = {}
        cores, together = threads or available_cores(), limits.batch_pictures > 1
        uploads, lists = limits.waiting * PICTURES, 8 * limits.waiting
        self.decoding = self._pool("decoding", cores, uploads)
        self.embedding = self._pool("embedding", cores, uploads, limits.batch_pictures)
        vectors = limits.batch_vectors if together else 1
        self.searching = self._pool("searching", cores, limits.waiting, vectors)
        # pictures and maps take long: what a search looks up must not wait behind them
        self.lookups = self._pool("lookups", cores, lists)
        self.thumbnails = self._pool("thumbnails", cores, lists)
        self.analyses = self._pool("analyses", 1, limits.waiting)
        self.filters = self._pool("filters", 1, limits.filters)
        self.parsing = self._pool("parsing", 1, limits.waiting)
        self.collection = Collection(index, limits)
        self.collection.follow()

    def _pool(self, name: str, threads: int, waiting: int, most: int = 1) -> Pool:
        self.pools[name] = Pool(name, threads, waiting, most)
        return self.pools[name]

    def _warm_up(self, encoder: Encoder) -> None:
        """Compute the first batch, which is slow, before anybody waits for it."""
        torch.set_num_threads(self.limits.torch_threads)
        image = encoder.prepare(Image.new("RGB", (64, 64)))
        for count in {1, self.limits.batch_pictures}:
            encoder.embed_prepared([image] * count, self.limits.batch_pictures)

    def close(self) -> None:
        """End the threads."""
        self.collection.close()
        for pool in self.pools.values():
            pool.close()

    @property
    def runtime(self) -> Runtime | None:
        """What embeds uploads; None: the index has no model."""
        if self.encoder is None:
            return None
        return "torch" if isinstance(self.encoder, Embedder) else "onnx"

    def require_encoder(self) -> Encoder:
        """The encoder; a refusal if the index has none."""
        if self.encoder is None:
            sentence = "This index was made from vectors and has no model: search by id or vector."
            raise Refusal(422, sentence)
        return self.encoder

    async def embed(self, files: Sequence[BinaryIO]) -> list[Vectors]:
        """Embed uploaded pictures.

        Args:
            files: Their bytes, whose headers were checked.

        Returns:
            Their unit vectors.

        Raises:
            Refusal: One is not such a picture, or too much is waiting.
        """
        encoder = self.require_encoder() if files else None

        def decode(file: BinaryIO) -> Tensor:
            assert encoder is not None
            return encoder.prepare(decode_upload(file, self.limits))

        async def one(file: BinaryIO) -> Vectors:
            pixels = await self.decoding.run(decode, file)
            return await self.embedding.batched(self._embed, pixels)

        tasks = [asyncio.ensure_future(one(file)) for file in files]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def search(self, view: View, vector: Vectors, k: int, where: Filter | None) -> list[Hit]:
        """The most similar pictures; searches that share all but their vector are one call."""

        def search(vectors: list[Vectors]) -> list[list[Hit]]:
            return view.index.search(np.stack(vectors), k, where=where)

        return await self.searching.batched(search, vector, key=(id(view), k, where))

    def _embed(self, pixels: list[Tensor]) -> list[Vectors]:
        return list(self.require_encoder().embed_prepared(pixels, self.limits.batch_pictures))


def milliseconds_since(start: float) -> float:
    """Milliseconds since ``start``, to a tenth."""
    return round(1e3 * (time.perf_counter() - start), 1)
