"""Searching by picture files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from lookalike.inference.encoder import Encoder
from lookalike.inference.models import find_encoder
from lookalike.search.index import Index
from lookalike.search.items import Hit
from lookalike.search.reading import read_picture

__all__ = ["Answer", "ask"]


@dataclass(frozen=True)
class Answer:
    """A query and what was found."""

    path: Path
    image: Image.Image
    hits: list[Hit]


def ask(
    index: Index,
    queries: Sequence[Path],
    k: int,
    *,
    label: str | None = None,
    exact: bool = False,
    model: Path | None = None,
) -> list[Answer]:
    """The ``k`` nearest pictures of each query.

    Another ``model`` than the index's own may embed the queries if it is the same one.
    """
    encoder: Encoder = index.embedder
    if model is not None:
        encoder = find_encoder(model)
        index.accept(encoder)
    images = [read_picture(path) for path in queries]
    found = index.search(encoder.embed(images), k, label=label, exact=exact)
    return [Answer(*each) for each in zip(queries, images, found, strict=True)]
