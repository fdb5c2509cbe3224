"""How much a visitor may ask for, and how a request is refused."""

from dataclasses import dataclass

from fastapi import HTTPException

__all__ = ["Limits", "Refusal", "Sizes"]


@dataclass(frozen=True)
class Limits:
    """What one request, and all of them together, may use.

    ``side_ratio``: a picture of 1 x 50,000,000 pixels is small until its short side is made as
    long as a network wants it. ``scans``: a progressive JPEG of a few megabytes can ask for its
    pixels to be gone over a hundred thousand times. ``waiting``: how many pieces of work may
    wait for a free core. ``silent_seconds``: how long a connection may stay without a whole
    request.
    """

    upload_bytes: int = 20 * 2**20
    pixels: int = 50_000_000
    side_ratio: float = 20.0
    scans: int = 100
    request_seconds: float = 30.0
    silent_seconds: float = 15.0
    waiting: int = 64
    connections: int = 256
    neighbours: int = 200
    listed: int = 200
    thumbnail_bytes: int = 64 * 2**20
    map_points: int = 4_000


@dataclass(frozen=True)
class Sizes:
    """The longest sides that pictures are served in: on the map, in a grid, by itself."""

    tiny: int = 96
    small: int = 320
    large: int = 1_024


class Refusal(HTTPException):
    """A request that cannot be answered, with the status and one sentence that says why."""

    def __init__(self, status: int, sentence: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(status, sentence, headers)
