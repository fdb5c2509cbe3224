"""Real servers in processes of their own, about a small index of drawn shapes."""

import asyncio
import io
import signal
import threading
from dataclasses import dataclass

import httpx
import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from lookalike.search import Embedder, Index
from lookalike.search.items import Record
from tests.commands import Command

COLOURS = {"amber": (230, 160, 30), "indigo": (60, 50, 160), "teal": (20, 150, 140)}
SHAPES = ("disc", "square", "stripes")
EACH = 6


def drawn(colour, shape, seed):
    """A shape somewhere on a noisy ground."""
    rng = np.random.default_rng(seed)
    ground = rng.integers(190, 250, (200, 200 + 40 * (seed % 3), 3)).astype(np.uint8)
    image = Image.fromarray(ground)
    pen = ImageDraw.Draw(image)
    x, y = rng.integers(50, 110, 2)
    if shape == "disc":
        pen.ellipse((x, y, x + 80, y + 80), fill=colour)
    elif shape == "square":
        pen.rectangle((x, y, x + 70, y + 70), fill=colour)
    else:
        for step in range(0, 90, 18):
            pen.rectangle((x - 20, y + step, x + 90, y + step + 8), fill=colour)
    return image


def ask(app, scene, address=("127.0.0.1", 1)):
    """What ``scene`` returns of a client of ``app``, which runs in this process."""

    async def run():
        transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=address)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await scene(client)

    return asyncio.run(run())


@pytest.fixture
def bare(tmp_path):
    """An index of four vectors without a model."""
    made = Index.create(tmp_path / "own.index", None, dim=4)
    made.commit([Record(str(number), "x") for number in range(4)], np.eye(4, dtype=np.float32))
    return made


@pytest.fixture(scope="session")
def picture():
    """Draw a picture: ``picture("teal", "disc", 99)``."""
    return lambda colour="teal", shape="disc", seed=99: drawn(COLOURS[colour], shape, seed)


@pytest.fixture(scope="session")
def as_bytes():
    """Encode a picture."""

    def encode(image, kind="PNG", **options):
        out = io.BytesIO()
        image.save(out, kind, **options)
        return out.getvalue()

    return encode


@pytest.fixture(scope="session")
def shop_folder(tmp_path_factory):
    """Where 54 pictures, their index and a file outside lie."""
    home = tmp_path_factory.mktemp("shop")
    (home / "secret.png").write_bytes(b"")
    drawn((0, 0, 0), "disc", 1).save(home / "secret.png")
    for colour, value in COLOURS.items():
        for shape in SHAPES:
            folder = home / "photos" / f"{colour} {shape}"
            folder.mkdir(parents=True)
            for number in range(EACH):
                drawn(value, shape, hash_of(colour, shape, number)).save(folder / f"{number}.png")
    rows = [
        f"{colour} {shape}/{number}.png,{colour} {shape},{10 * number + 5},maker of {colour}"
        for colour in COLOURS
        for shape in SHAPES
        for number in range(EACH)
    ]
    listing = home / "photos" / "shop.csv"
    listing.write_text("\n".join(["path,label,price,maker", *rows]) + "\n")
    torch.manual_seed(5)
    embedder = Embedder.from_network("small-cnn", weights="none")
    Index.create(home / "shop.index", embedder, listing)
    return home


def hash_of(*parts):
    return sum(ord(letter) * (i + 1) for i, letter in enumerate("-".join(map(str, parts))))


@pytest.fixture(scope="session")
def shop(shop_folder):
    return Index.open(shop_folder / "shop.index")


@dataclass
class Running:
    """A server in its process."""

    process: Command
    address: str
    said: list

    def client(self, **options):
        return httpx.Client(base_url=self.address, timeout=60, **options)


@pytest.fixture(scope="session")
def start():
    """Start a server by ``lookalike serve`` arguments or by a program that prints its address."""
    running = []

    def begin(arguments=(), program=None):
        process = Command("serve", *arguments, program=program, joined=True)
        running.append(process)
        said = []
        for line in process.stdout:
            said.append(line)
            if "http://" in line:
                break
        else:
            pytest.fail("the server did not start: " + "".join(said))
        threading.Thread(target=lambda: said.extend(process.stdout), daemon=True).start()
        word = next(word for word in said[-1].split() if word.startswith("http"))
        return Running(process, word.partition("?")[0], said)

    yield begin
    for process in running:
        process.send_signal(signal.SIGTERM)
    for process in running:
        process.wait(90)


@pytest.fixture(scope="session")
def server(start, shop_folder):
    """The server as a user starts it, but for many tests at once, which all have one address."""
    return start([str(shop_folder / "shop.index"), "--port", "0", "--rate", "none"])


@pytest.fixture
def client(server):
    with server.client() as made:
        yield made
