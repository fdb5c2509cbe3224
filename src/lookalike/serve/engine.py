"""Where the server computes: decoding in threads, embedding and searching in batches."""

import asyncio
import time
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from lookalike.inference.embedder import Embedder
from lookalike.inference.encoder import Encoder, Vectors
from lookalike.search.filters import Filter
from lookalike.search.items import Hit
from lookalike.serve.collection import View
from lookalike.serve.limits import PICTURES, Limits, Refusal, Runtime
from lookalike.serve.monitoring import Metrics
from lookalike.serve.pictures import decode_upload
from lookalike.serve.queues import Admission, Batcher, Workers


@dataclass(frozen=True)
class SearchTask:
    """One search: a vector, in one state of the index."""

    view: View
    vector: Vectors
    k: int
    where: Filter | None

    @property
    def key(self) -> tuple[int, int, Filter | None]:
        """What searches must share to be one call of the index."""
        return id(self.view), self.k, self.where


class Engine:
    """Embeds pictures and searches vectors, several requests at a time.

    Each core takes the pictures that wait, up to a batch, and computes them alone: cores that share
    a batch wait for each other.

    Args:
        limits: Sizes of batches and queues.
        metrics: Is told about them.
        threads: How many cores to use.
    """

    def __init__(self, limits: Limits, metrics: Metrics, threads: int) -> None:
        self.limits = limits
        self.threads = threads
        self.encoder: Encoder | None = None
        self.runtime: Runtime | None = None
        self.admission = Admission(limits.waiting)
        self.pixels = Admission(limits.working_pixels)
        batched = limits.batch_pictures > 1
        most = limits.waiting * PICTURES
        self._decoding = Workers(self.threads, most, "decoding")
        self._embedding: Batcher[Tensor, Vectors] = Batcher(
            self._embed,
            "embedding",
            most=limits.batch_pictures,
            waiting=most,
            threads=self.threads,
            seconds=limits.batch_seconds if batched else 0.0,
            observe=partial(metrics.observe_batch, "embedding"),
        )
        self._searching: Batcher[SearchTask, list[Hit]] = Batcher(
            self._search,
            "searching",
            most=limits.batch_vectors if batched else 1,
            waiting=limits.waiting,
            threads=self.threads,
            key=lambda task: task.key,
            observe=partial(metrics.observe_batch, "searching"),
        )
        for queue in (self._decoding, self._embedding, self._searching):
            metrics.watch_queue(queue.name, queue)

    def use(self, encoder: Encoder) -> None:
        """Embed pictures by ``encoder``; the first batch, which is slow, is computed now."""
        torch.set_num_threads(self.limits.torch_threads)
        image = encoder.prepare(Image.new("RGB", (64, 64)))
        for count in {1, self.limits.batch_pictures}:
            encoder.embed_prepared([image] * count, self.limits.batch_pictures)
        self.runtime = "torch" if isinstance(encoder, Embedder) else "onnx"
        self.encoder = encoder

    def close(self) -> None:
        """End the threads."""
        self._decoding.close()
        self._embedding.close()
        self._searching.close()

    def require_encoder(self) -> Encoder:
        """The encoder; a refusal if the index has none."""
        if self.encoder is None:
            sentence = "This index was made from vectors and has no model: search by id or vector."
            raise Refusal(422, sentence)
        return self.encoder

    async def embed(self, file: BinaryIO) -> Vectors:
        """Embed an uploaded picture.

        Args:
            file: Its bytes, whose header was checked.

        Returns:
            Its unit vector.

        Raises:
            Refusal: It is not such a picture, or too much is waiting.
        """
        encoder = self.require_encoder()
        with self._embedding.announced():
            pixels = await self._decoding.run(self._decode, encoder, file)
            future = self._embedding.put(pixels)
        return await asyncio.wrap_future(future)

    async def search(self, task: SearchTask) -> list[Hit]:
        """The most similar pictures."""
        return await self._searching.submit(task)

    def _decode(self, encoder: Encoder, file: BinaryIO) -> Tensor:
        return encoder.prepare(decode_upload(file, self.limits))

    def _embed(self, pixels: list[Tensor]) -> list[Vectors]:
        return list(self.require_encoder().embed_prepared(pixels, self.limits.batch_pictures))

    def _search(self, tasks: list[SearchTask]) -> list[list[Hit]]:
        first = tasks[0]
        vectors = np.stack([task.vector for task in tasks])
        return first.view.index.search(vectors, first.k, where=first.where)


def milliseconds_since(start: float) -> float:
    """Milliseconds since ``start``, to a tenth."""
    return round(1e3 * (time.perf_counter() - start), 1)
