"""Images that were decoded and resized once, as raw pixels or as JPEGs, read by index.

A store is a folder of shards. A shard has the data of consecutive images, one after another, then a
row of :data:`INDEX` for each of them, and at the end how many rows there are. It appears under its
name only when it is complete: a process that is killed loses the shard that it was writing, and the
next one stores what is missing. The checksum of a row covers the image and the rest of the row; it
is compared when the image is read for the first time.

Raw pixels are mapped into memory, which saves a copy: random crops of 256-px photographs take 190
us instead of 220 an image. JPEGs are read with ``pread``: their stores are for data larger than the
memory, and a mapping would grow with what is read.
"""

import os
import shutil
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np
import simplejpeg
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookalike.data.cache import (
    Progress,
    Resize,
    cache_folder,
    remove_abandoned,
    resized,
    size_name,
)
from lookalike.data.image_files import MOST_PIXELS
from lookalike.data.image_set import ImageSet, UnreadableImage, refuse_unreadable
from lookalike.data.parallel import in_threads
from lookalike.errors import BadInput, LookalikeError, WriteFailed
from lookalike.files import atomically, locked, open_regular, refuse_links

__all__ = ["INDEX", "ImageStore", "Indices", "checksum_of", "chosen_store", "open_store", "trailer"]

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
Indices = Sequence[int] | NDArray[np.int64] | Tensor
INDEX = np.dtype(
    [
        ("end", "<i8"),
        ("label", "<i8"),
        ("shape", "<i4", (3,)),
        ("quality", "<u4"),
        ("checksum", "<u4"),
    ]
)
"""One row per image: where its data end, class, height, width and channels, the quality of a JPEG
(0: raw pixels), and a CRC-32."""
MAGIC = b"LOOKIMG1"


class ImageStore:
    """The images of one data set; several threads may read at a time.

    Args:
        folder: What :func:`lookalike.data.open_store` wrote.

    Attributes:
        paths: The shards.
        shapes: Height, width and channels of each image.
        labels: The class of each image.

    Raises:
        FileNotFoundError: It is not complete.
        ValueError: A file is no shard, or damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paths = sorted(folder.glob("shard-*-of-*"))
        if not self.paths or len(self.paths) != int(self.paths[0].name.rpartition("-")[2]):
            raise FileNotFoundError(f"the image store '{folder}' is not complete")
        indices = [read_index(path) for path in self.paths]
        self._rows = np.concatenate(indices)
        self.shapes: NDArray[np.int32] = self._rows["shape"].copy()
        self.labels: NDArray[np.int64] = self._rows["label"].copy()
        self._starts = np.concatenate([np.append(0, rows["end"])[:-1] for rows in indices])
        self._sizes = self._rows["end"] - self._starts
        self._shards = np.repeat(np.arange(len(indices)), [len(rows) for rows in indices])
        self._files = [open_regular(path) for path in self.paths]
        self._mapped: list[NDArray[np.uint8]] = []
        if not self.settings:
            self._mapped = [np.asarray(np.memmap(file, np.uint8, "c")) for file in self._files]
        self._checked = np.zeros(len(self), np.bool_)

    def __len__(self) -> int:
        return len(self._rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return ImageStore, (self.folder,)

    @property
    def settings(self) -> Mapping[str, str]:
        """What changes the pixels, for the names of what is computed from them; empty: nothing."""
        quality = int(self._rows["quality"].max(initial=0))
        return {"store": "jpeg", "jpeg_quality": str(quality)} if quality else {}

    def data(self, index: int) -> NDArray[np.uint8]:
        """The bytes of image ``index``: its pixels, or a JPEG.

        Raises:
            LookalikeError: They are not those that were written.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"image {index} of {len(self)}")
        shard, start, size = self._shards[index], self._starts[index], self._sizes[index]
        data: NDArray[np.uint8]
        if self._mapped:
            data = self._mapped[shard][start : start + size]
        else:
            data = np.frombuffer(os.pread(self._files[shard].fileno(), size, start), np.uint8)
        if not self._checked[index]:
            row = self._rows[index]
            if checksum_of(row, data) != row["checksum"] or not (
                self._mapped or is_jpeg(row, data)
            ):
                raise LookalikeError(
                    f"the image cache '{self.paths[shard]}' is damaged (image {index}); remove "
                    "it, and the same command makes it again"
                )
            self._checked[index] = True
        return data

    def read(self, index: int) -> Tensor:
        """Image ``index`` as uint8 [C, H, W], perhaps a view; writing to it changes no file."""
        data = self.data(index)
        height, width, channels = self.shapes[index].tolist()
        if self._mapped:
            pixels = data.reshape(height, width, channels)
        else:
            pixels = decode_jpeg(data, channels)
        return torch.from_numpy(pixels).permute(2, 0, 1)

    def read_batch(self, indices: Indices) -> list[Tensor]:
        """Several images, each its own size."""
        return [self.read(int(index)) for index in indices]


def decode_jpeg(data: bytes | NDArray[np.uint8], channels: int) -> NDArray[np.uint8]:
    """The pixels [H, W, C] of a JPEG."""
    pixels: NDArray[np.uint8] = simplejpeg.decode_jpeg(data, "GRAY" if channels == 1 else "RGB")
    return pixels


def is_jpeg(row: Any, data: NDArray[np.uint8]) -> bool:
    """Whether data are a JPEG of the shape in its row, by its header; it may come from anyone."""
    height, width, _ = row["shape"].tolist()
    if height * width > MOST_PIXELS:
        return False
    try:
        return bool(simplejpeg.decode_jpeg_header(data)[:2] == (height, width))
    except ValueError:
        return False


def checksum_of(row: Any, data: Any) -> int:
    """The checksum of a row of :data:`INDEX` and the data of its image."""
    return zlib.crc32(data, zlib.crc32(row.tobytes()[:-4]))


def trailer(count: int) -> bytes:
    """The end of a shard with ``count`` images."""
    return count.to_bytes(8, "little") + MAGIC


def read_index(path: Path) -> NDArray[Any]:
    """The rows of a shard.

    Raises:
        ValueError: The file is no shard, or damaged.
    """
    length = len(trailer(0))
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        last = os.pread(file.fileno(), length, max(0, size - length))
        count = int.from_bytes(last[:8], "little")
        start = size - length - count * INDEX.itemsize
        if last != trailer(count) or start < 0:
            raise ValueError(f"{path} is no shard of an image store, or damaged")
        rows = np.frombuffer(os.pread(file.fileno(), size - length - start, start), INDEX)
    ends = np.concatenate([[0], rows["end"]])
    sizes, shapes = np.diff(ends), rows["shape"].astype(np.float64)  # no product is too large
    raw = rows["quality"] == 0
    disagree = (ends[1:] < ends[:-1]) | (shapes < 0).any(1) | raw & (shapes.prod(1) != sizes)
    if ends[-1] != start or disagree.any():
        raise ValueError(f"{path} is damaged: its index and its images do not agree")
    return rows


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
    raw, jpeg = estimated_sizes(images, resize, quality)
    chosen: Literal["raw", "jpeg"] = "jpeg" if raw > LARGEST_RAW else "raw"
    if note:
        sizes = f"raw pixels take {format_bytes(raw)}, JPEGs {format_bytes(jpeg)}"
        note(f"data.store=auto: {sizes}; {chosen} is taken")
    return chosen


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
        _require_space(images, resize, chosen, path)
        with locked(path.with_name(f"{path.name}.lock")):  # others wait, and find it complete
            path.mkdir(exist_ok=True)
            refuse_links(path)
            _build(images, resize, chosen, path, progress)
            return ImageStore(path)
    except OSError as error:
        raise WriteFailed(
            f"cannot write the image cache {path}: {error}; what is stored is kept, and the same "
            "command resumes; LOOKALIKE_CACHE names another folder"
        ) from error


def _build(
    images: ImageSet, resize: Resize, quality: int, folder: Path, progress: Progress | None
) -> None:
    """Write the shards that are missing or damaged, except those with an unreadable image."""
    bad: list[UnreadableImage] = []
    done = 0
    for path, part in _shards(folder, len(images)).items():
        if not _is_whole(path):

            def tell(count: int, before: int = done) -> None:
                if progress:
                    progress(before + count, len(images))

            bad += _write_shard(images, resize, quality, part, path, tell)
        done += len(part)
    if bad:
        raise refuse_unreadable(images.name, bad)


def _shards(folder: Path, images: int) -> dict[Path, NDArray[np.int64]]:
    """The files of a store of so many images, and which images each has."""
    count = min(MOST_SHARDS, max(1, images // FEWEST_IMAGES))
    parts = np.array_split(np.arange(images), count)
    return {folder / f"shard-{n:05d}-of-{count:05d}": part for n, part in enumerate(parts)}


def _is_whole(path: Path) -> bool:
    try:
        read_index(path)
    except FileNotFoundError:
        remove_abandoned(path)
        return False
    except ValueError:
        return False
    return True


def _write_shard(
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
            return _encode(images, index, resize, quality)
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


def _encode(
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
        if original and len(original) <= KEPT_RATIO * len(data):
            with suppress(ValueError):  # no JPEG, or one that this decoder refuses
                if np.array_equal(decode_jpeg(original, pixels.shape[2]), pixels):
                    data = original
    return data, made.shape


def estimated_sizes(images: ImageSet, resize: Resize, quality: int) -> tuple[int, int]:
    """The bytes of raw pixels and of JPEGs, by some images; the same for the same images."""
    if not len(images):
        return 0, 0
    chosen = np.unique(np.linspace(0, len(images) - 1, min(SAMPLED, len(images))).astype(np.int64))

    def one(index: int) -> tuple[int, int] | None:
        try:
            data, shape = _encode(images, index, resize, quality)
        except UnreadableImage:  # building will say so
            return None
        return int(np.prod(shape)), len(data)

    found = [sizes for sizes in in_threads(one, chosen.tolist()) if sizes is not None]
    raw, jpeg = np.mean(found or [(0, 0)], axis=0) * len(images)
    return int(raw), int(jpeg)


def _require_space(images: ImageSet, resize: Resize, quality: int, folder: Path) -> None:
    """Refuse to begin where the disk has too little space for what is missing."""
    raw, jpeg = estimated_sizes(images, resize, quality or QUALITY)
    parts = _shards(folder, len(images)).items()
    missing = sum(len(part) for path, part in parts if not path.exists()) / max(1, len(images))
    needed, free = (jpeg if quality else raw) * missing, shutil.disk_usage(folder.parent).free
    if needed <= free:
        return
    smaller = ""
    if not quality and jpeg < needed:
        smaller = f"data.store=jpeg takes {format_bytes(jpeg)}; "
    raise BadInput(
        f"storing '{images.name}' (data.store={'jpeg' if quality else 'raw'}) takes about "
        f"{format_bytes(needed)} in {folder.parent}, where {format_bytes(free)} are free; "
        f"{smaller}a preset (data.transform) of smaller images takes less, and LOOKALIKE_CACHE "
        "names a folder on another disk"
    )


def format_bytes(count: float) -> str:
    """A number of bytes as text.

    >>> format_bytes(1_530_000_000), format_bytes(20_000)
    ('1.53 GB', '0.02 MB')
    """
    return f"{count / 1e9:.3g} GB" if count >= 1e9 else f"{count / 1e6:.3g} MB"
