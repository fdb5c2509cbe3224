"""Features computed once: the same scores as the network itself, the head alone learns."""

import pytest
import torch
from safetensors.torch import load_file

from lookalike import data, models
from lookalike.errors import BadInput
from lookalike.runs.run import model_tensors
from lookalike.training import train
from lookalike.training.batches import PixelSource, embed

FROZEN = ["model.frozen=true", "model.frozen_views=1", "train.batches_per_epoch=10"]


@pytest.fixture(scope="module")
def photographs(coloured_noise):
    """Eight classes, six images each."""
    return coloured_noise(8, 6)


@pytest.fixture
def small(tiny, photographs):
    def config(*overrides):
        return tiny(
            "data.name=folder",
            f"data.root={photographs}",
            "data.transform=small",
            "model.network=efficientnet-lite0",
            "model.weights=imagenet",
            "sampler.batch_size=8",
            "sampler.per_class=4",
            "protocol.ratio=0.5",
            *overrides,
        )

    return config


def test_the_untrained_network_scores_the_same(small):
    plain = train(small("train.epochs=0", "model.dim=0"))
    frozen = train(small("train.epochs=0", "model.dim=0", *FROZEN))
    assert frozen.result["test"] == plain.result["test"]


@pytest.mark.parametrize("start", ["random", "pca", "lda", "auto"])
def test_the_saved_model_is_whole(small, start):
    config = small(*FROZEN, f"model.head_init={start}", "optim.lr=1e-2")
    run = train(config)
    model = models.build("efficientnet-lite0", dim=16)
    model.load_state_dict(model_tensors(run))
    images = data.load("folder", config.data.root)
    split = data.make_splits(data.draw_test_half(images, 0), "paper")[0]
    preset = data.preset("small")
    pixels = PixelSource(data.open_store(images, preset.resize), preset, model.normalisation)
    ours = embed(model, split.final_test(), pixels)
    kept = load_file(str(run.folder / "test.safetensors"))["embeddings"]
    torch.testing.assert_close(ours, kept, atol=5e-3, rtol=0)  # half precision in between


@pytest.mark.parametrize("start", ["pca", "lda"])
def test_the_start_of_the_head_is_a_candidate_and_tested(small, start):
    settings = [*FROZEN, f"model.head_init={start}", "protocol.test_untrained=true"]
    before = train(small(*settings, "train.epochs=0"))
    run = train(small(*settings, "optim.lr=1e-9", "train.epochs=1"))
    assert run.epochs()[0]["validation map@r"] == pytest.approx(
        before.result["validation"]["map@r"], abs=1e-6
    )
    assert run.result["untrained"] == pytest.approx(before.result["test"], abs=1e-6)
    assert run.result["test"] == pytest.approx(before.result["test"], abs=1e-6)
    raw = train(small(*FROZEN, "train.epochs=0", "model.dim=0"))
    assert run.result["raw_features"] == pytest.approx(raw.result["test"], abs=1e-6)


def test_only_the_head_learns(small):
    start = models.build("efficientnet-lite0", weights="imagenet", dim=16).backbone.state_dict()
    end = model_tensors(train(small(*FROZEN)))
    assert all(torch.equal(value, end[f"backbone.{name}"]) for name, value in start.items())


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["model.weights=none"], "needs model.weights other than none: trained weights"),
        (["model.pooling=gem"], "gem learns"),
        (["mix.where=input"], "mixes pixels"),
        (
            ["model.dim=0", "model.head_init=lda"],
            "model.dim=0 and model.head_init=lda exclude each other: that needs a head",
        ),
    ],
)
def test_what_cannot_be_frozen_is_refused(small, overrides, sentence):
    with pytest.raises(BadInput, match=sentence):
        train(small(*FROZEN, *overrides))
