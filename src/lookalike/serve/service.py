"""What the routes share: the collection, the engine, the limits, and whether they are ready."""

import logging
from typing import Literal

from lookalike.inference.encoder import Encoder
from lookalike.inference.onnx_encoder import OnnxEncoder
from lookalike.search.index import Index
from lookalike.serve.collection import Collection
from lookalike.serve.engine import Engine, Runtime
from lookalike.serve.limits import Limits, Workers
from lookalike.serve.logs import event
from lookalike.serve.metrics import Metrics

Phase = Literal["loading", "ready", "draining"]
UNREADY: dict[Phase, str] = {
    "loading": "The server is loading its model; try again soon.",
    "draining": "The server is being stopped.",
}
"""What ``/ready`` says."""


class Service:
    """One index being served by one process.

    Args:
        index: What is searched; its changes are followed.
        limits: What requests may use.
        threads: How many cores to use; None: all that this process may use.
    """

    def __init__(self, index: Index, limits: Limits, threads: int | None = None) -> None:
        self.limits = limits
        self.metrics = Metrics()
        self.collection = Collection(index, limits, self.metrics)
        self.engine = Engine(limits, self.metrics, threads)
        # pictures and maps take long: what a search looks up must not wait behind them
        self.lookups = Workers(self.engine.threads, 8 * limits.waiting, "lookups")
        self.thumbnails = Workers(self.engine.threads, 8 * limits.waiting, "thumbnails")
        self.analyses = Workers(1, limits.waiting, "analyses")
        self.filters = Workers(1, limits.filters, "filters")
        self.parsing = Workers(1, limits.waiting, "parsing")
        self._pools = (self.lookups, self.thumbnails, self.analyses, self.filters, self.parsing)
        for queue in self._pools:
            self.metrics.watch_queue(queue.name, queue)
        self._phase: Phase = "loading"

    @property
    def phase(self) -> Phase:
        """Loading, ready or draining."""
        return self._phase

    @phase.setter
    def phase(self, phase: Phase) -> None:
        self._phase = phase
        self.metrics.ready.set(phase == "ready")

    @property
    def unready(self) -> str | None:
        """Why no further requests should be sent here; None: they are welcome."""
        return UNREADY.get(self.phase)

    @property
    def refusing(self) -> str | None:
        """Why searches are refused; None: they are answered, while draining too."""
        return self.unready if self.phase == "loading" else None

    def load(self, encoder: Encoder | None = None, runtime: Runtime = "torch") -> None:
        """Load the model, if the index has one, and begin to answer.

        Args:
            encoder: Embeds uploads instead of the index's own model; it must be the same model.
            runtime: What runs the index's own model.
        """
        index = self.collection.view.index
        if encoder is None and index.fingerprint:
            embedder = index.embedder
            encoder = embedder
            if runtime == "onnx":
                encoder = OnnxEncoder.of(embedder, self.limits.torch_threads)
        if encoder is not None:
            index.check_encoder(encoder)
            self.engine.use(encoder)
        self.collection.follow()
        if self.phase == "loading":
            self.phase = "ready"
            event("ready", logging.DEBUG, pictures=len(index), generation=index.generation)

    def drain(self) -> None:
        """Say that no further requests should be sent; those that come are still answered."""
        self.phase = "draining"

    def close(self) -> None:
        """End the threads."""
        self.drain()
        self.collection.close()
        for workers in self._pools:
            workers.close()
        self.engine.close()
