import signal
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from lookalike.cli import main
from lookalike.signals import SIGNALS

COLOURS = {
    "amber": (230, 160, 30),
    "blue": (30, 60, 210),
    "green": (30, 180, 60),
    "pink": (240, 150, 190),
    "red": (200, 20, 20),
    "white": (245, 245, 245),
}
EACH = 5
SMALL = ["model.network=small-cnn", "model.weights=none", "model.dim=16", "data.transform=small"]
SHORT = ["train.epochs=1", "train.batches_per_epoch=2", "sampler.batch_size=8"]


@pytest.fixture
def lookalike(monkeypatch, capsys):
    """The command in this process, as starting one takes seconds."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["lookalike", *map(str, arguments)])
        monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main sets its own
        former = {number: signal.getsignal(number) for number in SIGNALS}  # and it handles signals
        monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
        try:
            with pytest.raises(SystemExit) as stopped:
                main()
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)
        told = capsys.readouterr()
        return SimpleNamespace(returncode=stopped.value.code or 0, stdout=told.out, stderr=told.err)

    return run


@pytest.fixture
def refused(lookalike):
    """Check that a command says one sentence, with exit code 2 and nothing on standard output."""

    def check(*arguments, sentence):
        done = lookalike(*arguments)
        assert done.returncode == 2, done.stdout + done.stderr
        assert sentence in " ".join(done.stderr.split())
        assert done.stderr.startswith("lookalike: ")
        assert done.stderr.count("\n") == 1
        assert done.stdout == ""

    return check


def coloured(colour, seed):
    """Soft clouds of about one colour."""
    clouds = np.array(colour) + np.random.default_rng(seed).normal(0, 40, (5, 5, 3))
    image = Image.fromarray(clouds.clip(0, 255).astype(np.uint8))
    return image.resize((60 + 4 * (seed % 4), 60), Image.Resampling.BICUBIC)


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    """Five pictures of each of six colours, a folder a colour, to be read only.

    One of the red ones lies under white, and the first pink one lies there twice.
    """
    home = tmp_path_factory.mktemp("shop") / "photos"
    for place, (name, colour) in enumerate(COLOURS.items()):
        (home / name).mkdir(parents=True)
        for number in range(EACH):
            coloured(colour, 10 * place + number).save(home / name / f"{number}.png")
    coloured(COLOURS["red"], 99).save(home / "white" / "stray.png")
    coloured(COLOURS["pink"], 30).save(home / "pink" / "again.jpg", quality=90)
    return home


@pytest.fixture(scope="session")
def trained(photos):
    """The folder of a small run on three of the colours, tested on the other three."""
    from lookalike.config import load
    from lookalike.training import train

    settings = ["data.name=folder", f"data.root={photos}", "protocol.name=paper", *SMALL, *SHORT]
    settings.append("protocol.order=sequential")  # the colours that choose come first
    runs = photos.parent / "runs"
    return train(load(None, [*settings, "sampler.name=random", f"runs_dir={runs}"])).folder


@pytest.fixture(scope="session")
def shop(photos, trained):
    """An index of the pictures, to be read only."""
    from lookalike.search import Embedder, Index

    place = photos.parent / "shop.index"
    Index.create(place, Embedder.from_run(trained), photos)
    return place
