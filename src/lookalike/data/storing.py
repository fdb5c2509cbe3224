"""Opening the store of a data set; what is not stored yet is decoded, resized and stored first.

A process that is killed loses the shard that it was writing; the next one stores what is missing.
"""

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from lookalike.data.cache import (
    Progress,
    Resize,
    cache_folder,
    remove_abandoned,
    resized,
    size_name,
)
from lookalike.data.image_set import ImageSet, UnreadableImage, refuse_unreadable
from lookalike.data.parallel import in_threads
from lookalike.data.store import INDEX, ImageStore, checksum_of, decode_jpeg, read_index, trailer
from lookalike.errors import BadInput, WriteFailed
from lookalike.files import atomically, locked, refuse_links

__all__ = ["chosen_store", "format_bytes", "open_store"]

Kind = Literal["raw", "jpeg", "auto"]
QUALITY = 95
KEPT_RATIO = 2
"""How much larger than a new JPEG the original may be, to be kept without another loss."""
SAMPLED = 64
"""Images by which the size of a store is estimated."""
LARGEST_RAW = 10_000_000_000
"""From here on ``auto`` takes JPEG; it depends on the data only, so that a run can be repeated."""
FEWEST_IMAGES = 256
"""Of a shard, unless it is the only one."""
MOST_SHARDS = 64
"""A killed process loses this part of a large store."""


@dataclass(frozen=True)
class StoreSizes:
    """Estimated bytes of each kind of store."""

    raw: int
    jpeg: int

    @property
    def choice(self) -> Literal["raw", "jpeg"]:
        """The kind that ``data.store=auto`` takes."""
        return "jpeg" if self.raw > LARGEST_RAW else "raw"

    def __str__(self) -> str:
        return f"raw pixels take {format_bytes(self.raw)}, JPEGs {format_bytes(self.jpeg)}"


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
    """Open the stored images of a data set; decode, resize and store what is not stored yet.

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
        WriteFailed: Writing failed; the shards that are complete are kept.
    """
    chosen = 0 if chosen_store(images, resize, kind, quality) == "raw" else quality
    name = f"{images.name}-{size_name(resize)}-{f'q{chosen}' if chosen else 'raw'}-{images.stamp}"
    path = cache_folder(folder) / f"{name}.store"
    try:
        with suppress(FileNotFoundError, ValueError):
            return ImageStore(path)
        require_space(images, resize, chosen, path)
        with locked(path.with_name(f"{path.name}.lock")):  # others wait, and find it complete
            path.mkdir(exist_ok=True)
            refuse_links(path)
            build(images, resize, chosen, path, progress)
            return ImageStore(path)
    except OSError as error:
        raise WriteFailed(
            f"cannot write the image cache {path}: {error}; what is stored is kept, and the same "
            "command resumes; LOOKALIKE_CACHE names another folder"
        ) from error


def build(
    images: ImageSet, resize: Resize, quality: int, folder: Path, progress: Progress | None
) -> None:
    """Write the shards that are missing or damaged.

    Raises:
        BadInput: Some images cannot be decoded; the shards without such images are written.
    """
    parts = shards(folder, len(images))
    for path in parts:
        try:
            read_index(path)
        except ValueError:
            path.unlink()
        except FileNotFoundError:
            remove_abandoned(path)
    missing = {path: part for path, part in parts.items() if not path.exists()}
    done = len(images) - sum(map(len, missing.values()))
    bad: list[UnreadableImage] = []
    for path, part in missing.items():

        def tell(count: int, before: int = done) -> None:
            if progress:
                progress(before + count, len(images))

        bad += write_shard(images, resize, quality, part, path, tell)
        done += len(part)
    if bad:
        raise refuse_unreadable(images.name, bad)


def shards(folder: Path, images: int) -> dict[Path, NDArray[np.int64]]:
    """The files of a store of so many images, and which images each has."""
    count = min(MOST_SHARDS, max(1, images // FEWEST_IMAGES))
    parts = np.array_split(np.arange(images), count)
    return {folder / f"shard-{n:05d}-of-{count:05d}": part for n, part in enumerate(parts)}


def write_shard(
    images: ImageSet,
    resize: Resize,
    quality: int,
    part: NDArray[np.int64],
    path: Path,
    tell: Callable[[int], None],
) -> list[UnreadableImage]:
    """Write the images ``part``, unless some of them cannot be decoded; those."""

    def one(index: int) -> tuple[bytes, tuple[int, ...]] | UnreadableImage:
        try:
            return encode(images, index, resize, quality)
        except UnreadableImage as unreadable:
            return unreadable

    bad: list[UnreadableImage] = []
    rows = np.zeros(len(part), INDEX)
    rows["label"], rows["quality"] = images.labels[part], quality
    with suppress(UnreadableImage), atomically(path) as draft, draft.open("wb") as file:
        for number, made in enumerate(in_threads(one, part.tolist())):
            if isinstance(made, UnreadableImage):
                bad.append(made)
            else:
                data, rows["shape"][number] = made
                file.write(data)
                rows["end"][number] = file.tell()
                rows["checksum"][number] = checksum_of(rows[number], data)
            tell(number + 1)
        if bad:
            raise bad[0]  # so that the file does not appear
        file.write(rows.tobytes() + trailer(len(rows)))
    return bad


def encode(
    images: ImageSet, index: int, resize: Resize, quality: int
) -> tuple[bytes, tuple[int, ...]]:
    """Image ``index`` as it is stored, and its shape.

    For a JPEG, the original file is kept where it is one that needs no resizing, has few bytes and
    decodes to the same pixels.
    """
    pixels = images.decode(index)
    made = np.ascontiguousarray(resized(pixels, resize))
    if not quality:
        return made.tobytes(), made.shape
    kind, sampling = ("GRAY", "Gray") if made.shape[2] == 1 else ("RGB", "420")
    try:
        data: bytes = simplejpeg.encode_jpeg(made, quality, kind, sampling)
    except ValueError as error:  # a side of more than 65,500 pixels
        raise UnreadableImage(images.files[index], f"no JPEG can hold it: {error}") from error
    if images.encoded is not None and made.shape == pixels.shape:
        original = images.encoded(index)
        if original and len(original) <= KEPT_RATIO * len(data) and _decodes_to(original, pixels):
            data = original
    return data, made.shape


def _decodes_to(data: bytes, pixels: NDArray[np.uint8]) -> bool:
    """Whether a file is a JPEG of exactly these pixels: not rotated by EXIF data, not CMYK."""
    try:
        return np.array_equal(decode_jpeg(data, pixels.shape[2]), pixels)
    except ValueError:  # no JPEG, or one that this decoder refuses
        return False


def measure(images: ImageSet, resize: Resize, quality: int) -> StoreSizes:
    """Estimate the sizes by some images, evenly spaced; always the same for the same images."""
    if not len(images):
        return StoreSizes(0, 0)
    chosen = np.unique(np.linspace(0, len(images) - 1, min(SAMPLED, len(images))).astype(np.int64))

    def one(index: int) -> tuple[int, int] | None:
        try:
            data, shape = encode(images, index, resize, quality)
        except UnreadableImage:  # building will say so
            return None
        return int(np.prod(shape)), len(data)

    found = [sizes for sizes in in_threads(one, chosen.tolist()) if sizes is not None]
    raw, jpeg = np.mean(found or [(0, 0)], axis=0) * len(images)
    return StoreSizes(int(raw), int(jpeg))


def require_space(images: ImageSet, resize: Resize, quality: int, folder: Path) -> None:
    """Refuse to begin where the disk has too little space for what is missing.

    Raises:
        BadInput: There is too little.
    """
    sizes = measure(images, resize, quality or QUALITY)
    kind, whole = ("jpeg", sizes.jpeg) if quality else ("raw", sizes.raw)
    parts = shards(folder, len(images)).items()
    missing = sum(len(part) for path, part in parts if not path.exists())
    needed, free = whole * missing // max(1, len(images)), shutil.disk_usage(folder.parent).free
    if needed <= free:
        return
    smaller = ""
    if kind == "raw" and sizes.jpeg < needed:
        smaller = f"data.store=jpeg takes {format_bytes(sizes.jpeg)}; "
    raise BadInput(
        f"storing '{images.name}' (data.store={kind}) takes about {format_bytes(needed)} in "
        f"{folder.parent}, where {format_bytes(free)} are free; {smaller}a preset (data.transform) "
        "of smaller images takes less, and LOOKALIKE_CACHE names a folder on another disk"
    )


def format_bytes(count: int) -> str:
    """A number of bytes as text.

    >>> format_bytes(1_530_000_000), format_bytes(20_000)
    ('1.53 GB', '0.02 MB')
    """
    return f"{count / 1e9:.3g} GB" if count >= 1e9 else f"{count / 1e6:.3g} MB"
