"""What the server tells Prometheus.

Everything is in a registry of its own. Label values are few and known: routes by their pattern,
status codes, names of queues. With several worker processes (``PROMETHEUS_MULTIPROC_DIR``) each one
writes to files there, and whichever is asked adds them up.
"""

import os
import time
from collections.abc import Sized

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.process_collector import ProcessCollector

SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable that prometheus_client itself reads when it is imported."""
SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES = (1, 2, 4, 8, 16, 32, 64)
MEDIA_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    """The numbers of one server."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.seconds = Histogram(
            "lookalike_request_seconds",
            "How long requests took, from the end of the head to the end of the answer.",
            ("method", "route", "status"),
            buckets=SECONDS,
            registry=registry,
        )
        self.running = Gauge(
            "lookalike_requests_running",
            "Requests being answered.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.queue = Gauge(
            "lookalike_queue_length",
            "What waits for a thread.",
            ("queue",),
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.batches = Histogram(
            "lookalike_batch_size",
            "How many pictures or vectors were computed together.",
            ("queue",),
            buckets=SIZES,
            registry=registry,
        )
        self.batch_seconds = Histogram(
            "lookalike_batch_seconds",
            "How long a batch took.",
            ("queue",),
            buckets=SECONDS,
            registry=registry,
        )
        self.errors = Counter(
            "lookalike_errors", "Requests that failed by a fault of the server.", registry=registry
        )
        self.reloads = Counter(
            "lookalike_index_reloads",
            "How often a changed index was opened, and how often that failed.",
            ("result",),
            registry=registry,
        )
        self.ready = self._latest("lookalike_ready", "1: the server answers searches.")
        self.pictures = self._latest("lookalike_index_pictures", "Pictures in the index.")
        self.generation = self._latest("lookalike_index_generation", "Number of the last commit.")
        self.updated = self._latest(
            "lookalike_index_updated_timestamp_seconds", "When the index was last changed."
        )
        self.age = self._latest(
            "lookalike_index_age_seconds", "Seconds since the index was last changed."
        )
        self._queues: dict[str, Sized] = {}
        self._index_updated = 0.0
        self.shared = SHARED in os.environ
        if not self.shared:
            ProcessCollector(registry=registry)

    def _latest(self, name: str, meaning: str) -> Gauge:
        return Gauge(name, meaning, registry=self.registry, multiprocess_mode="mostrecent")

    def watch_queue(self, name: str, queue: Sized) -> None:
        """Report the length of ``queue``."""
        self._queues[name] = queue

    def observe_batch(self, queue: str, size: int, seconds: float) -> None:
        """A batch has been computed."""
        self.batches.labels(queue).observe(size)
        self.batch_seconds.labels(queue).observe(seconds)

    def observe_index(self, pictures: int, generation: int, updated: float) -> None:
        """An index has been opened."""
        self.pictures.set(pictures)
        self.generation.set(generation)
        self.updated.set(updated)
        self._index_updated = updated

    def measure_queues(self) -> None:
        """Store how much is waiting now."""
        for name, queue in self._queues.items():
            self.queue.labels(name).set(len(queue))

    def text(self) -> bytes:
        """All numbers, as Prometheus reads them."""
        self.measure_queues()
        self.age.set(max(0.0, time.time() - self._index_updated) if self._index_updated else 0.0)
        if not self.shared:
            return generate_latest(self.registry)
        every = CollectorRegistry()
        MultiProcessCollector(every)  # type: ignore[no-untyped-call]
        return generate_latest(every)
