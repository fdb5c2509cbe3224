"""What requests may use, how an index is served, and how a request is refused."""

from dataclasses import dataclass, field
from typing import Literal

from starlette.exceptions import HTTPException

from lookalike.addresses import DatabaseAddress
from lookalike.serve.tokens import DEFAULT_RATE, Rate, Tokens

Runtime = Literal["torch", "onnx"]
LogFormat = Literal["human", "json"]

NEIGHBOURS = 200
"""The largest k."""
PICTURES = 16
"""How many pictures a search may upload."""
EXAMPLES = 64
"""How many ids, vectors and labels a search may have of each."""
LISTED = 200
"""The largest page of ``/api/items``."""
FILTER_LENGTH = 2_000
"""The longest filter, in characters."""
LABEL_LENGTH = 1_000
"""The longest label, in characters."""


@dataclass(frozen=True)
class Limits:
    """What one request, and all of them together, may use.

    What the description of the API says of single values, such as the largest k, is constant.

    Args:
        upload_bytes: The largest form with pictures.
        json_bytes: The largest other body.
        pixels: The largest picture.
        request_pixels: The pictures of a request together.
        working_pixels: The pictures of all requests that are being answered: a file of 6 KB may
            have fifty million pixels, whose decoding takes a second and 200 MB.
        side_ratio: How much longer one side may be than the other: a picture of 1 x 50,000,000
            pixels is small until its short side is resized for the network.
        scans: The most scans of a JPEG: a progressive one of a few megabytes can have a hundred
            thousand scans over its pixels.
        request_seconds: How long a request may take.
        drain_seconds: How long requests may still run after the server was asked to stop.
        reload_seconds: How often the server looks whether the index has changed.
        waiting: How many searches may be in the server at a time.
        filters: How many lists of filtered pictures may wait, of which one is made at a time: a
            filter looks at every picture.
        requests: How many requests may be in the server at a time.
        connections: How many connections may be open.
        head_bytes: The largest head of a request.
        batch_pictures: How many pictures the network sees at a time; 1: each alone.
        torch_threads: Of each batch. Each core computes a batch; threads that share one wait for
            each other after each of hundreds of small operations.
        batch_vectors: How many vectors are searched at a time.
        thumbnail_bytes: The memory for thumbnails.
        map_points: How many pictures the map shows.
    """

    upload_bytes: int = 20 * 2**20
    json_bytes: int = 4 * 2**20
    pixels: int = 50_000_000
    request_pixels: int = 100_000_000
    working_pixels: int = 200_000_000
    side_ratio: float = 20.0
    scans: int = 100
    request_seconds: float = 30.0
    drain_seconds: float = 10.0
    reload_seconds: float = 1.0
    waiting: int = 96
    filters: int = 16
    requests: int = 512
    connections: int = 4_096
    head_bytes: int = 32 * 2**10
    batch_pictures: int = 8
    torch_threads: int = 1
    batch_vectors: int = 64
    thumbnail_bytes: int = 64 * 2**20
    map_points: int = 4_000


@dataclass(frozen=True)
class Options:
    """How an index is served; worker processes are told it.

    Args:
        address: What opens the index.
        limits: What requests may use.
        tokens: Requests must have one of them, if there are any.
        rate: How often each token, or without any each address, may search; None: always.
        runtime: What embeds uploaded pictures.
        log: How the log is written.
        host: The address to listen on; on one of this machine's own, only its names are answered.
        proxies: Addresses or networks, with commas, whose word about a client's address and
            scheme (``X-Forwarded-For``, ``X-Forwarded-Proto``) is taken.
    """

    address: str | DatabaseAddress
    limits: Limits = Limits()
    tokens: Tokens = field(default_factory=Tokens)
    rate: Rate | None = DEFAULT_RATE
    runtime: Runtime = "torch"
    log: LogFormat = "human"
    host: str = "127.0.0.1"
    proxies: str = ""


class Refusal(HTTPException):
    """A request that cannot be answered, with the status and one sentence that says why."""


def overloaded() -> Refusal:
    """The refusal of what comes when the server has enough to do."""
    return Refusal(429, "Too many searches are waiting; try again soon.", {"Retry-After": "1"})
