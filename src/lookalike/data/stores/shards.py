"""Building the shards of a JPEG store: resumable, by all cores, and by several machines together.

The folder has a plan (which images are in which shard) that the first process writes. Each process
then claims a shard that is missing, writes it, and goes on until none is. Every shard appears under
its name only when it is complete, so a killed process loses one shard at most.
"""

import json
import math
import time
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from lookalike.data.cache import Progress, Resize, remove_abandoned
from lookalike.data.image_set import ImageSet, UnreadableImage, refuse_unreadable
from lookalike.data.parallel import in_threads
from lookalike.data.stores.claims import Claim, claimed
from lookalike.data.stores.indexed_file import write_index
from lookalike.data.stores.jpeg import INDEX, MAGIC, JpegStore, encode
from lookalike.errors import LookalikeError
from lookalike.files import atomically, read_json, refuse_links, seal, write_new

__all__ = ["Plan", "agree", "build_shards", "existing_shards", "missing_share", "planned"]

SHARD_BYTES = 2_000_000_000
FEWEST_SHARDS = 16
"""Of a set that would fit into fewer, so that a killed process does not lose much."""
FEWEST_IMAGES = 256
"""Of a shard."""
RENEW_EVERY = 128
POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Plan:
    """Which images are in which shard: ``per_shard`` consecutive ones in each but the last."""

    images: int
    per_shard: int

    def shards(self, folder: Path) -> list[Path]:
        """The files of all shards."""
        count = math.ceil(self.images / self.per_shard)
        return [folder / f"shard-{number:05d}.jpegs" for number in range(count)]

    def images_of(self, number: int) -> range:
        """The images of one shard."""
        start = number * self.per_shard
        return range(start, min(start + self.per_shard, self.images))

    def missing_images(self, folder: Path) -> int:
        """How many images are in shards that are not there yet."""
        paths = enumerate(self.shards(folder))
        return sum(len(self.images_of(number)) for number, path in paths if not path.exists())


def planned(images: int, total_bytes: int) -> Plan:
    """The plan for images that take ``total_bytes``.

    >>> planned(1_000_000, 30_000_000_000)
    Plan(images=1000000, per_shard=62500)
    >>> planned(4_000_000, 120_000_000_000)
    Plan(images=4000000, per_shard=66667)
    """
    shards = max(FEWEST_SHARDS, math.ceil(total_bytes / SHARD_BYTES))
    return Plan(images, max(FEWEST_IMAGES, math.ceil(images / shards)))


def agree(folder: Path, plan: Plan) -> Plan:
    """The plan of the folder; the first process writes its own, the others take it."""
    refuse_links(folder)
    path = folder / "plan.json"
    if not path.exists():
        write_new(path, json.dumps(seal(asdict(plan))))
    return _read_plan(path)


def _read_plan(path: Path) -> Plan:
    if not path.exists():
        raise FileNotFoundError(path)
    try:
        return Plan(**read_json(path))
    except (LookalikeError, TypeError) as error:
        raise LookalikeError(
            f"the image cache '{path.parent}' is damaged (plan.json); remove it, and the same "
            "command makes it again"
        ) from error


def missing_share(folder: Path) -> float:
    """The share of the images that is not stored yet."""
    try:
        plan = _read_plan(folder / "plan.json")
    except FileNotFoundError:
        return 1.0
    return plan.missing_images(folder) / max(1, plan.images)


def existing_shards(folder: Path, quality: int) -> JpegStore | None:
    """The store, if all of its shards are there; a damaged shard is removed."""
    try:
        paths = _read_plan(folder / "plan.json").shards(folder)
    except FileNotFoundError:
        return None
    if not all(path.exists() for path in paths):
        return None
    try:
        return JpegStore(paths, quality)
    except (ValueError, EOFError):
        for path in paths:
            _remove_damaged(path, quality)
        return None


def _remove_damaged(path: Path, quality: int) -> None:
    try:
        JpegStore([path], quality)
    except (ValueError, EOFError):
        path.unlink(missing_ok=True)


def build_shards(
    images: ImageSet,
    resize: Resize,
    quality: int,
    folder: Path,
    plan: Plan,
    progress: Progress | None,
) -> None:
    """Write what is missing, together with other processes that do the same.

    Args:
        images: The data set.
        resize: The size of the shorter side, or height and width; None: unchanged.
        quality: Of the JPEGs, 1 to 100.
        folder: Where the shards are.
        plan: As :func:`agree` returned it.
        progress: Is called with the images stored so far, and all.

    Raises:
        BadInput: Some images cannot be decoded; the shards without such images are written.
    """
    paths = plan.shards(folder)
    bad: dict[int, list[UnreadableImage]] = {}
    while True:
        missing = [n for n, path in enumerate(paths) if n not in bad and not path.exists()]
        if not missing:
            break
        waited = True
        for number in missing:
            with claimed(paths[number]) as claim:
                if claim is None or paths[number].exists():
                    continue
                waited = False
                before = plan.images - plan.missing_images(folder)
                tick = partial(_tick, claim, progress, before, plan.images)
                chosen = plan.images_of(number)
                found = _write(images, resize, quality, chosen, paths[number], tick)
                if found:
                    bad[number] = found
        if waited:  # the rest is being written by others
            time.sleep(POLL_SECONDS)
    if bad:
        raise refuse_unreadable(images.name, [one for n in sorted(bad) for one in bad[n]])


def _tick(claim: Claim, progress: Progress | None, before: int, total: int, done: int) -> None:
    """Renew the claim now and then, and tell how much is stored."""
    if done % RENEW_EVERY == 0:
        claim.renew()
    if progress:
        progress(before + done, total)


def _write(
    images: ImageSet,
    resize: Resize,
    quality: int,
    chosen: range,
    path: Path,
    tick: Callable[[int], None],
) -> list[UnreadableImage]:
    """Write one shard, unless some of its images cannot be decoded; those."""

    def one(index: int) -> tuple[bytes, tuple[int, int, int]] | UnreadableImage:
        try:
            return encode(images, index, resize, quality)
        except UnreadableImage as unreadable:
            return unreadable

    remove_abandoned(path)
    bad: list[UnreadableImage] = []
    rows = np.empty(len(chosen), INDEX)
    rows["label"] = images.labels[chosen.start : chosen.stop]
    try:
        with atomically(path) as draft, draft.open("wb") as file:
            for place, made in enumerate(in_threads(one, chosen)):
                if isinstance(made, UnreadableImage):
                    bad.append(made)
                else:
                    data, rows["shape"][place] = made
                    file.write(data)
                    rows["end"][place] = file.tell()
                    rows["checksum"][place] = zlib.crc32(data)
                tick(place + 1)
            if bad:
                raise bad[0]  # so that the file does not appear
            write_index(file, MAGIC, rows)
    except UnreadableImage:
        pass
    return bad
