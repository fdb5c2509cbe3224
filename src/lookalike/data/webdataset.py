"""WebDataset shards: tar archives in which files of one name, but for the suffix, are one sample.

``0001.jpg`` is the image, and ``0001.cls`` or ``0001.txt`` has its class, or ``0001.json`` has it
under ``label``, and perhaps ``split``.
"""

import os
import tarfile
from pathlib import Path
from typing import Any

from lookalike.data.image_files import IMAGE_SUFFIXES
from lookalike.data.image_set import ImageSet
from lookalike.data.listed_images import content_of, from_encoded
from lookalike.errors import BadInput
from lookalike.files import open_regular, parse_json
from lookalike.registry import DATASETS

__all__ = ["Members", "about_sample", "samples_of", "shards_of", "webdataset"]

_LABELS = (".cls", ".txt", ".json")


class Members:
    """Reads members of archives by their place, without unpacking; travels between processes."""

    def __init__(self, shards: list[Path], places: list[tuple[int, int, int]]) -> None:
        self.shards = shards
        self.places = places

    def __call__(self, index: int) -> bytes:
        """The bytes of a member."""
        shard, start, size = self.places[index]
        with open_regular(self.shards[shard]) as file:
            return os.pread(file.fileno(), size, start)


@DATASETS.register("webdataset")
def webdataset(root: Path | None = None) -> ImageSet:
    """Your own images in WebDataset shards: a folder of .tar files, or one of them.

    A sample is an image with a .cls or .txt file (its class) or a .json file (``label``, and
    perhaps ``split``: train, val or test). Without a split the second half of the classes tests.
    """
    if root is None:
        raise BadInput("'webdataset' needs data.root: a folder of .tar files, or one of them")
    shards = shards_of(root)
    if not shards:
        raise BadInput(f"data.root of 'webdataset' has no .tar file: {root}")
    files: list[str] = []
    labels: list[Any] = []
    splits: list[str] = []
    places = []
    for number, shard in enumerate(shards):
        for key, image, about in samples_of(shard):
            values = about_sample(shard, key, about)
            label, split = _label(shard, key, values), str(values.get("split", ""))
            files.append(f"{shard.name}/{image.name}")
            labels.append(label)
            splits.append(split)
            places.append((number, image.offset_data, image.size))
    if not files:
        raise BadInput(f"there is no sample with an image and a class in {root}")
    marked = any(splits)
    if marked and not all(splits):
        missing = files[splits.index("")]
        raise BadInput(f"'{missing}' has no split, but other samples of {root} have")
    if len({type(label) for label in labels}) > 1:
        labels = [str(label) for label in labels]
    return from_encoded(
        "webdataset",
        files,
        labels,
        splits if marked else None,
        Members(shards, places),
        *content_of(shards),
    )


def shards_of(root: Path) -> list[Path]:
    """The archives: the file itself, or those of a folder."""
    return [root] if root.is_file() else sorted(filter(Path.is_file, root.glob("*.tar")))


def samples_of(shard: Path) -> list[tuple[str, tarfile.TarInfo, dict[str, bytes]]]:
    """The samples with an image: its name, its place, and the small files with its class."""
    images: dict[str, tarfile.TarInfo] = {}
    about: dict[str, dict[str, bytes]] = {}
    try:
        with tarfile.open(shard, "r:") as archive:  # members of compressed ones have no place
            for member in archive:
                if not member.isfile() or member.issparse():  # of holes, not in one piece
                    continue
                folder, _, name = member.name.rpartition("/")
                stem, _, suffix = name.partition(".")
                key, kind = f"{folder}/{stem}", f".{suffix.lower()}"
                if kind in IMAGE_SUFFIXES:
                    images[key] = member
                elif kind in _LABELS and (file := archive.extractfile(member)) is not None:
                    about.setdefault(key, {})[kind] = file.read()
    except (tarfile.TarError, OSError) as error:
        raise BadInput(f"cannot read the shard {shard}: {error}") from error
    return [(key, image, about.get(key, {})) for key, image in images.items()]


def about_sample(shard: Path, key: str, about: dict[str, bytes]) -> dict[str, Any]:
    """What the small files of a sample say: ``label``, ``split``, and other keys of its JSON."""
    name = key.removeprefix("/")
    try:
        if ".json" in about:
            return dict(parse_json(about[".json"]))
        return {"label": (about.get(".cls") or about.get(".txt") or b"").decode().strip()}
    except (ValueError, TypeError) as error:
        raise BadInput(f"the sample '{name}' of {shard} has an unreadable class: {error}") from None


def _label(shard: Path, key: str, values: dict[str, Any]) -> Any:
    """The class of a sample, a number where it is one."""
    name, label = key.removeprefix("/"), values.get("label")
    if label in (None, ""):
        raise BadInput(
            f"the sample '{name}' of {shard} has no class: {name}.cls, {name}.txt, or "
            f"'label' in {name}.json is expected"
        )
    text = str(label)
    return int(text) if text.isdecimal() and len(text) < 19 else text
