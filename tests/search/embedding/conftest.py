import io
import tarfile

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image

COUNT = 23


def picture(number):
    """A noisy picture; every third one is taller than wide."""
    random = np.random.default_rng(number)
    shape = (150, 170, 3) if number % 3 else (190, 140, 3)
    pixels = random.integers(0, 256, 3) + random.normal(0, 30, shape)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def encoded(number):
    held = io.BytesIO()
    picture(number).save(held, "PNG")
    return held.getvalue()


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    """Pictures in three folders, to be read only; one cannot be read."""
    home = tmp_path_factory.mktemp("bulk") / "photos"
    for number in range(COUNT):
        path = home / f"class {number % 3}" / f"{number:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(number))
    (home / "class 1" / "zz.jpg").write_bytes(encoded(0)[:300])
    return home


@pytest.fixture(scope="session")
def other_sources(tmp_path_factory):
    """The same pictures, in order of their number, as CSV, Parquet and WebDataset."""
    home = tmp_path_factory.mktemp("sources")
    files = home / "files"
    files.mkdir()
    for number in range(COUNT):
        (files / f"{number:02d}.png").write_bytes(encoded(number))
    lines = [f"files/{n:02d}.png,class {n % 3},{n * 10},{n}" for n in range(COUNT)]
    (home / "table.csv").write_text("\n".join(["path,label,price,size", *lines]) + "\n")
    (home / "parquet").mkdir()
    for name, numbers in (("a", range(9)), ("b", range(9, COUNT))):
        columns = {
            "image": [{"bytes": encoded(n), "path": None} for n in numbers],
            "label": [f"class {n % 3}" for n in numbers],
            "price": [10 * n for n in numbers],
        }
        path = home / "parquet" / f"{name}.parquet"
        pyarrow.parquet.write_table(pyarrow.table(columns), path, row_group_size=4)
    (home / "web").mkdir()
    for name, numbers in (("0", range(9)), ("1", range(9, COUNT))):
        with tarfile.open(home / "web" / f"{name}.tar", "w") as archive:
            for n in numbers:
                about = b'{"label": "class %d", "price": %d, "box": [1, 2]}' % (n % 3, n * 10)
                for file, data in ((f"{n:02d}.png", encoded(n)), (f"{n:02d}.json", about)):
                    entry = tarfile.TarInfo(file)
                    entry.size = len(data)
                    archive.addfile(entry, io.BytesIO(data))
    return home


@pytest.fixture(scope="session")
def expected(embedder):
    """The vectors of all pictures, by the ordinary way."""
    return embedder.embed([picture(number) for number in range(COUNT)])
