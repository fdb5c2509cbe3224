"""Leaving out the images that cannot be decoded, when the user says so."""

import json

from lookalike.data.cache import decoded
from lookalike.data.cache_folder import cache_folder
from lookalike.data.image_set import ImageSet, UnreadableImage
from lookalike.files import write_json

__all__ = ["readable"]


def readable(images: ImageSet) -> ImageSet:
    """``images`` without those that cannot be decoded.

    Decoding everything takes a while, so the finding is kept in the cache, under a name that
    changes when any file does.
    """
    path = cache_folder() / f"unreadable-{images.name}-{images.stamp}.json"
    if path.exists():
        bad: list[int] = json.loads(path.read_text(encoding="utf-8"))
    else:
        found = enumerate(decoded(images, None))
        bad = [index for index, pixels in found if isinstance(pixels, UnreadableImage)]
        write_json(path, bad)
    return images.without(bad)
