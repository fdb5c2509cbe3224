from dataclasses import dataclass

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from lookalike import data
from lookalike.config import load
from lookalike.evaluation import evaluate
from lookalike.training import Run


@dataclass(frozen=True)
class NamedRun:
    """A run and what the report calls it."""

    name: str
    run: Run

    @property
    def result(self):
        return self.run.result


METRICS = ("recall@1", "recall@2", "recall@4", "recall@8", "map@r")
CLASSES = 60


@pytest.fixture(scope="session")
def glyphs():
    return data.load("glyphs", None)


@pytest.fixture(scope="session")
def make_run(glyphs, tmp_path_factory):
    """A run folder as training leaves it, about some test classes of glyphs.

    Embeddings are one direction a class plus noise, so the scores are real and follow the noise.
    """
    first = int(glyphs.labels[glyphs.test].min())
    indices = np.flatnonzero((glyphs.labels >= first) & (glyphs.labels < first + CLASSES))
    labels = glyphs.labels[indices]

    def make(name, noise=0.5, epochs=3, overrides=(), embeddings=None, **changes):
        folder = tmp_path_factory.mktemp("runs") / f"glyphs-{len(name)}-0123456789ab"
        run = Run(folder)
        run.prepare(load(None, [f"train.epochs={epochs}", *overrides]), {})
        if embeddings is None:
            generator = torch.Generator().manual_seed(7)
            centres = torch.randn(CLASSES, 16, generator=generator)
            embeddings = centres[torch.from_numpy(labels - first)]
            embeddings = embeddings + noise * torch.randn(len(labels), 16, generator=generator)
        save_file(
            {"embeddings": embeddings, "indices": torch.from_numpy(indices)},
            str(folder / "test.safetensors"),
        )
        run.log.write_text(
            "".join(
                f'{{"epoch": {e}, "loss": {1 / e}, "validation map@r": {0.5 + 0.1 * e}, '
                f'"validation recall@1": {0.6 + 0.1 * e}, "lr": 0.001}}\n'
                for e in range(1, epochs + 1)
            )
        )
        result = {
            "data_fingerprint": glyphs.fingerprint,
            "train_classes": 1_000,
            "epochs": epochs,
            "test_images": len(indices),
            "test_classes": CLASSES,
            "test": evaluate(embeddings, labels, METRICS),
        }
        if epochs:
            result |= {"chosen_epoch": epochs - 1, "validation": {"map@r": 0.7}}
        run.finish({k: v for k, v in (result | changes).items() if v is not None}, 12.34)
        return NamedRun(name, run)

    return make


@pytest.fixture(scope="session")
def gathered():
    """Runs of the report as contenders, under their names."""
    from lookalike.compare.contenders import gather

    def make(runs):
        return gather([run.run.folder for run in runs], {run.run.folder: run.name for run in runs})

    return make


@pytest.fixture(scope="session")
def table_of(gathered):
    """The table of some runs, by all their metrics."""
    from lookalike.compare.comparison import chosen_metric, compare
    from lookalike.report import score_table

    def make(runs, **options):
        found = gathered(runs)
        (part,) = compare(found, chosen_metric(found), **options).datasets
        return score_table(
            part, [m for m in runs[0].result["test"] if m not in ("rho", "uniformity")]
        )

    return make


@pytest.fixture(scope="session")
def three_runs(make_run):
    """An untrained network, a middling method and a good one whose name tries to break out."""
    return [
        make_run("untrained network", noise=3.0, epochs=0),
        make_run("contrastive", noise=1.0),
        make_run("</script><b>proxy & |anchor|", noise=0.4),
    ]


@pytest.fixture(scope="session")
def page(three_runs, gathered, tmp_path_factory):
    from lookalike.report import write_page

    return write_page(
        tmp_path_factory.mktemp("page") / "index.html",
        gathered(three_runs),
        "A title with <angles>",
        "A lead.",
        commands=["lookalike train a.yaml", "lookalike train b.yaml"],
    )[0]
