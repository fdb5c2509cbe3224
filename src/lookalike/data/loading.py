"""Data sets by name: loading them, and downloading the official archives."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from lookalike.data.archives import download, unpack
from lookalike.data.cache import cache_folder, decoded
from lookalike.data.image_set import ImageSet, UnreadableImage
from lookalike.data.listed_images import told_progress
from lookalike.data.own_images import from_dataset
from lookalike.errors import BadInput, LookalikeError
from lookalike.files import read_json, write_json
from lookalike.registry import DATASETS


@dataclass(frozen=True)
class Archive:
    """One file to download into ``folder`` (relative to the root), unpacked there or kept."""

    url: str
    folder: str = "."
    md5: str | None = None
    packed: bool = True

    @property
    def file(self) -> str:
        """The file's own name."""
        return urlsplit(self.url).path.rpartition("/")[2]


_OMNIGLOT = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python"

SOURCES: Mapping[str, tuple[Archive, ...]] = {
    "cub": (
        Archive(
            "https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz?download=1",
            md5="97eceeb196236b17998738112f37df78",
        ),
    ),
    "cars": (
        Archive("http://ai.stanford.edu/~jkrause/car196/cars_annos.mat", "cars196", packed=False),
        Archive("http://ai.stanford.edu/~jkrause/car196/car_ims.tgz", "cars196"),
    ),
    "sop": (
        Archive(
            "http://ftp.cs.stanford.edu/cs/cvgl/Stanford_Online_Products.zip",
            md5="7f73d41a2f44250d4779881525aea32e",
        ),
    ),
    "omniglot": (
        Archive(f"{_OMNIGLOT}/images_background.zip", md5="68d2efa1b9178cc56df9314c21c6e718"),
        Archive(f"{_OMNIGLOT}/images_evaluation.zip", md5="6b91aef0f799c5bb55b94e3f2daec811"),
    ),
    "omniglot-small": (
        Archive(
            f"{_OMNIGLOT}/images_background_small1.zip", md5="e704a628b5459e08445c13499850abc4"
        ),
        Archive(
            f"{_OMNIGLOT}/images_background_small2.zip", md5="b75a71a51d3b13f821f212756fe481fd"
        ),
    ),
}

_BY_HAND = {
    "inshop": (
        "'inshop' cannot be downloaded by a program: ask for In-shop Clothes Retrieval at "
        "https://mmlab.ie.cuhk.edu.hk/projects/DeepFashion.html, then put list_eval_partition.txt "
        "and the unpacked img/ into {root}/InShop_Clothes"
    ),
} | {
    own: f"'{own}' is your own pictures: there is nothing to download"
    for own in ("folder", "csv", "huggingface", "parquet", "webdataset")
}


def load(
    name: str,
    root: str | Path | None = None,
    skip_unreadable: bool = False,
    progress: Callable[[int, int], None] | None = None,
    rehash: bool = False,
) -> ImageSet:
    """Load a data set; no image is decoded yet.

    Args:
        name: Its name (``lookalike list datasets``).
        root: The folder or file with its images; built-in data sets need none.
        skip_unreadable: Decode every image once, leave out those that cannot be decoded, and name
            them in ``unreadable``. The result is cached.
        progress: Is called with the files read so far, and all, while their content is not in the
            cache yet.
        rehash: Read the content of every file again, whatever the cache has.

    Returns:
        The data set.

    Raises:
        BadInput: There is no such data set, or its files are not as expected.
    """
    build = DATASETS.find(name).build
    try:
        with told_progress(progress, rehash):
            images = build(None if root is None else Path(root).expanduser())
    except Exception as error:
        if ":" not in name or isinstance(error, LookalikeError):
            raise
        raise BadInput(
            f"the data set '{name}' could not be loaded: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(images, ImageSet):
        images = from_dataset(images, name)
    return readable(images) if skip_unreadable else images


def readable(images: ImageSet) -> ImageSet:
    """``images`` without those that cannot be decoded.

    The result is cached under a name that changes when any file does.
    """
    path = cache_folder() / f"unreadable-{images.name}-{images.stamp}.json"
    if path.exists():
        bad: list[int] = read_json(path)
    else:
        found = enumerate(decoded(images, None))
        bad = [index for index, pixels in found if isinstance(pixels, UnreadableImage)]
        write_json(path, bad)
    return images.without(bad)


def prepare(
    name: str,
    root: str | Path | None = None,
    progress: Callable[[str, int, int | None], None] | None = None,
    base_url: str | None = None,
    sources: Mapping[str, tuple[Archive, ...]] = SOURCES,
    read: Callable[[Path], ImageSet] | None = None,
) -> ImageSet:
    """Download, unpack and check a data set.

    Complete files are not downloaded again, and an interrupted download is resumed.

    Args:
        name: Its name.
        root: The folder to put it into; built-in data sets need none.
        progress: Is called with the file's name, the bytes so far and all bytes (None: unknown).
        base_url: A mirror with the same files.
        sources: The archives of each data set.
        read: Reads it; None: what is registered under the name.

    Returns:
        The data set.

    Raises:
        BadInput: The data set cannot be downloaded by a program.
    """
    DATASETS.find(name)
    if name in _BY_HAND:
        raise BadInput(_BY_HAND[name].format(root=root or "data.root"))
    if name not in sources:
        return load(name, root)
    if root is None:
        raise BadInput(f"say where to put '{name}': data.root is missing")
    if base_url is not None and not base_url.startswith(("http://", "https://")):
        raise BadInput(f"a mirror's address begins with http:// or https://, not '{base_url}'")
    home = Path(root).expanduser()
    read = read or cast(Callable[[Path], ImageSet], DATASETS.find(name).build)
    with suppress(BadInput):
        return read(home)  # it is there already
    for archive in sources[name]:
        target = home / archive.folder / archive.file
        url = f"{base_url.rstrip('/')}/{archive.file}" if base_url else archive.url
        report = partial(progress, archive.file) if progress else None
        fetched = download(url, target, archive.md5, report)
        if archive.packed:
            unpack(target, target.parent)
            if fetched:  # an archive that the user put there stays
                target.unlink()
    return read(home)
