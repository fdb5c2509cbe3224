"""Opening the store of a data set, built first if this is the first use."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from lookalike.data.cache import Progress, Resize, cache_folder, size_name
from lookalike.data.image_set import ImageSet
from lookalike.data.stores import shards
from lookalike.data.stores.jpeg import JpegStore
from lookalike.data.stores.raw import PixelStore, build_raw, existing_raw
from lookalike.data.stores.sizes import measure, require_space
from lookalike.data.stores.store import ImageStore
from lookalike.errors import WriteFailed

__all__ = ["QUALITY", "Kind", "chosen_store", "open_store"]

Kind = Literal["raw", "jpeg", "auto"]
QUALITY = 95


def chosen_store(
    images: ImageSet,
    resize: Resize,
    kind: Kind,
    quality: int = QUALITY,
    note: Callable[[str], None] | None = None,
) -> Literal["raw", "jpeg"]:
    """The kind of store that ``data.store`` means for a data set.

    Args:
        images: The data set.
        resize: The size of the stored images.
        kind: The value of ``data.store``.
        quality: Of JPEGs, 1 to 100.
        note: Is told the sizes where they decide.

    Returns:
        ``kind``; for ``auto`` the one that the size of the data asks for.
    """
    if kind != "auto":
        return kind
    sizes = measure(images, resize, quality)
    if note:
        note(f"data.store=auto: {sizes}; {sizes.choice} is taken")
    return sizes.choice


def open_store(
    images: ImageSet,
    resize: Resize,
    folder: Path | None = None,
    progress: Progress | None = None,
    *,
    kind: Kind = "raw",
    quality: int = QUALITY,
) -> ImageStore:
    """Open the stored images of a data set; decode, resize and store them if they are not yet.

    A JPEG store that was begun is completed, also by several processes and machines at a time.

    Args:
        images: The data set.
        resize: The size of the shorter side, or height and width; None: unchanged.
        folder: The cache folder; None: the default one.
        progress: Is called with the images stored so far, and all.
        kind: ``raw`` pixels, ``jpeg``, or ``auto``: by the size of the data.
        quality: Of JPEGs, 1 to 100.

    Returns:
        The store.

    Raises:
        BadInput: Some images cannot be decoded (the message names them), or the disk has too little
            space.
        WriteFailed: Writing failed; what a JPEG store has by then is kept.
    """
    place = cache_folder(folder)
    name = f"{images.name}-{size_name(resize)}"
    if chosen_store(images, resize, kind, quality) == "raw":
        path = place / f"{name}-{images.stamp}.pixels"
        return _opened(path, lambda: _open_raw(images, resize, path, progress))
    path = place / f"{name}-q{quality}-{images.stamp}.jpegs"
    return _opened(path, lambda: _open_jpeg(images, resize, quality, path, progress))


def _opened(path: Path, opening: Callable[[], ImageStore]) -> ImageStore:
    try:
        return opening()
    except OSError as error:
        kept = "; what is stored is kept, and the same command goes on" if path.is_dir() else ""
        raise WriteFailed(
            f"cannot write the image cache {path}: {error}{kept}; "
            "LOOKALIKE_CACHE names another folder"
        ) from error


def _open_raw(
    images: ImageSet, resize: Resize, path: Path, progress: Progress | None
) -> PixelStore:
    found = existing_raw(path)
    if found is None:
        sizes = measure(images, resize, QUALITY)
        require_space(sizes.raw, "raw", sizes, images.name, path.parent)
        build_raw(images, resize, path, progress)
    return found or PixelStore(path)


def _open_jpeg(
    images: ImageSet, resize: Resize, quality: int, folder: Path, progress: Progress | None
) -> JpegStore:
    found = shards.existing_shards(folder, quality)
    if found is not None:
        return found
    sizes = measure(images, resize, quality)
    needed = int(sizes.jpeg * shards.missing_share(folder))
    require_space(needed, "jpeg", sizes, images.name, folder.parent)
    folder.mkdir(exist_ok=True)
    plan = shards.agree(folder, shards.planned(len(images), sizes.jpeg))
    shards.build_shards(images, resize, quality, folder, plan, progress)
    return JpegStore(plan.shards(folder), quality)
