"""Tiny data sets in the official layouts, and a loopback HTTP server."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from lookalike.data import ImageSet


@pytest.fixture
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache for one test alone, where it looks at what lies there."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("LOOKALIKE_CACHE", str(folder))
    return folder


@pytest.fixture
def save_image() -> Callable[..., np.ndarray]:
    """Writes a random picture and returns its pixels (exact for PNG)."""

    def save(path: Path, size: tuple[int, int] = (24, 20), seed: int = 0) -> np.ndarray:
        path.parent.mkdir(parents=True, exist_ok=True)
        width, height = size
        pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path)
        return pixels

    return save


@pytest.fixture
def image_set() -> Callable[..., ImageSet]:
    """An ImageSet held in memory: one array an image."""

    def make(
        pixels: list[np.ndarray], labels: list[int], name: str = "memory", **changes: object
    ) -> ImageSet:
        numbers = np.array(labels, np.int64)
        classes = int(numbers.max()) + 1
        values: dict[str, object] = {
            "name": name,
            "files": tuple(f"{i}.png" for i in range(len(pixels))),
            "labels": numbers,
            "class_names": tuple(f"class {i}" for i in range(classes)),
            "test": numbers >= classes // 2,
            "query": None,
            "gallery": None,
            "decode": pixels.__getitem__,
            "fingerprint": name,
            "stamp": name,
        }
        return ImageSet(**{**values, **changes})  # type: ignore[arg-type]

    return make


@pytest.fixture
def tiny_cub(tmp_path: Path, save_image: Callable[..., np.ndarray]) -> Path:
    """Four classes of two pictures; returns the folder that holds CUB_200_2011."""
    home = tmp_path / "CUB_200_2011"
    names = ["001.Albatross", "002.Auklet", "003.Bunting", "004.Cardinal"]
    files = [f"{name}/{name}_{i}.jpg" for name in names for i in range(2)]
    for seed, file in enumerate(files):
        save_image(home / "images" / file, seed=seed)
    numbered = lambda rows: "".join(f"{i} {row}\n" for i, row in enumerate(rows, 1))  # noqa: E731
    (home / "images.txt").write_text(numbered(files))
    (home / "classes.txt").write_text(numbered(names))
    (home / "image_class_labels.txt").write_text(numbered([i // 2 + 1 for i in range(8)]))
    return tmp_path


@pytest.fixture
def tiny_cars(tmp_path: Path, save_image: Callable[..., np.ndarray]) -> Path:
    """Four models of two pictures, in an annotation file of the official structure."""
    home = tmp_path / "cars196"
    rows = np.zeros(
        (1, 8),
        dtype=[
            ("relative_im_path", object),
            ("bbox_x1", object),
            ("class", object),
            ("test", object),
        ],
    )
    for i in range(8):
        file = f"car_ims/{i + 1:06d}.jpg"
        save_image(home / file, seed=i)
        rows[0, i] = (file, 1, i // 2 + 1, i % 2)
    names = np.empty((1, 4), object)
    names[0] = ["Acura RL", "Acura TL", "BMW M3", "BMW X5"]
    savemat(home / "cars_annos.mat", {"annotations": rows, "class_names": names})
    return tmp_path


@pytest.fixture
def tiny_sop(tmp_path: Path, save_image: Callable[..., np.ndarray]) -> Path:
    """Two training products and two test products of two photos each."""
    home = tmp_path / "Stanford_Online_Products"
    for half, first in (("train", 1), ("test", 3)):
        rows = ["image_id class_id super_class_id path"]
        for number in (first, first + 1):
            for i in range(2):
                file = f"bicycle_final/{number}_{i}.JPG"
                save_image(home / file, seed=10 * number + i)
                rows.append(f"{len(rows)} {number} 1 {file}")
        (home / f"Ebay_{half}.txt").write_text("\n".join(rows) + "\n")
    return tmp_path


@pytest.fixture
def tiny_inshop(tmp_path: Path, save_image: Callable[..., np.ndarray]) -> Path:
    """Two training items and two test items with one query and two gallery photos each."""
    home = tmp_path / "InShop_Clothes"
    rows = []
    for item, parts in (
        ("id_00000001", ("train", "train")),
        ("id_00000002", ("query", "gallery", "gallery")),
        ("id_00000003", ("train", "train")),
        ("id_00000004", ("gallery", "query", "gallery")),
    ):
        for i, part in enumerate(parts):
            file = f"img/WOMEN/Dresses/{item}/0{i}_1_front.jpg"
            save_image(home / file, seed=i)
            rows.append(f"{file}    {item} {part}")
    text = "\n".join([str(len(rows)), "image_name item_id evaluation_status", *rows])
    (home / "list_eval_partition.txt").write_text(text + "\n")
    return tmp_path


def write_alphabets(home: Path, alphabets: dict[str, int], drawings: int = 2) -> None:
    """Characters as Omniglot has them: black on white, one bit a pixel, two drawings each."""
    rng = np.random.default_rng(0)
    for alphabet, characters in alphabets.items():
        for number in range(1, characters + 1):
            folder = home / alphabet / f"character{number:02d}"
            folder.mkdir(parents=True)
            for drawing in range(1, drawings + 1):
                ink = rng.random((20, 24)) > 0.1
                Image.fromarray(ink).save(folder / f"{number:04d}_{drawing:02d}.png")


@pytest.fixture
def tiny_omniglot(tmp_path: Path) -> Path:
    """Two alphabets of one character to train, one of two characters to test."""
    home = tmp_path / "omniglot"
    write_alphabets(home / "images_background", {"Greek": 1, "Latin": 1})
    write_alphabets(home / "images_evaluation", {"Tengwar": 2})
    return tmp_path


@pytest.fixture
def tiny_omniglot_small(tmp_path: Path) -> Path:
    """Greek is in both reduced sets, as in the official archives."""
    home = tmp_path / "omniglot"
    write_alphabets(home / "images_background_small1", {"Greek": 1, "Korean": 1})
    write_alphabets(home / "images_background_small2", {"Greek": 1, "Tagalog": 2})
    return tmp_path


@dataclass
class Site:
    """What the loopback server holds and how it behaves; ``asked`` is the log of Range headers."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    etag: str | None = '"one"'
    cut_after: list[int] = field(default_factory=list)
    status: int | None = None
    shift: int = 0
    asked: list[str | None] = field(default_factory=list)


@pytest.fixture
def site() -> Iterator[Site]:
    """A real HTTP server on the loopback; each number in ``cut_after`` breaks one answer there."""
    served = Site()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            served.asked.append(wanted)
            body = served.files.get(self.path.partition("?")[0].lstrip("/"))
            if served.status or body is None:
                self.send_error(served.status or 404)
                return
            start = 0
            if wanted and served.ranges and self.headers.get("If-Range") in (None, served.etag):
                start = int(wanted.removeprefix("bytes=").rstrip("-"))
                if start >= len(body):
                    self.send_response(416)
                    self.send_header("Content-Range", f"bytes */{len(body)}")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                start += served.shift
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            else:
                self.send_response(200)
            self.send_header("Content-Length", str(len(body) - start))
            if served.etag:
                self.send_header("ETag", served.etag)
            self.end_headers()
            end = start + served.cut_after.pop(0) if served.cut_after else len(body)
            self.wfile.write(body[start:end])

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield served
    server.shutdown()
    server.server_close()
    thread.join()
