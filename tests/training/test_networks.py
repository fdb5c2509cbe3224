"""Networks of timm and torchvision with random weights: steps, resumed, evaluated, exported."""

import os

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from lookalike import models
from lookalike.config import load
from lookalike.errors import BadInput
from lookalike.inference.embedder import Embedder
from lookalike.inference.export import export
from lookalike.runs.run import test_embeddings
from lookalike.signals import Interrupted
from lookalike.training import train
from lookalike.training.building import PreparedParts

QUICK = ["protocol.name=paper", "protocol.test_untrained=false"]

NETWORKS = [
    ("test_vit3", "map"),
    *(
        pytest.param(network, pooling, marks=pytest.mark.slow)
        for network, pooling in [
            ("cait_xxs24_224", "avg"),
            ("convnextv2_atto", "avg"),
            ("deit_tiny_distilled_patch16_224", "avg"),
            ("densenet121", "max"),
            ("edgenext_xx_small", "avg"),
            ("eva02_tiny_patch14_224", "cls"),
            ("ghostnet_050", "avg+max"),
            ("levit_128s", "avg"),
            ("mobilenetv4_conv_small_050", "avg"),
            ("mobilevit_xxs", "avg"),
            ("regnety_002", "avg"),
            ("swin_tiny_patch4_window7_224", "avg"),
            ("test_nfnet", "avg"),
            ("tiny_vit_5m_224", "avg"),
            ("vit_pe_core_tiny_patch16_384", "map"),
            ("vit_small_patch14_reg4_dinov2", "cls"),
            ("vit_tiny_patch16_dinov3_qkvb", "cls"),
            ("xcit_nano_12_p16_224", "cls"),
            ("torchvision:googlenet", "avg"),
            ("torchvision:mobilenet_v3_small", "avg"),
            ("torchvision:shufflenet_v2_x0_5", "avg"),
            ("torchvision:vgg11", "avg"),
        ]
    ),
]


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A folder of twelve classes, four small coloured images each."""
    folder = tmp_path_factory.mktemp("photos")
    random = np.random.default_rng(0)
    for number in range(12):
        (folder / str(number)).mkdir()
        pattern = random.integers(0, 256, (8, 8, 3)).repeat(4, 0).repeat(4, 1)
        for image in range(4):
            pixels = np.clip(pattern + random.normal(0, 60, (32, 32, 3)), 0, 255)
            Image.fromarray(pixels.astype(np.uint8)).save(folder / str(number) / f"{image}.png")
    return folder


@pytest.fixture
def short(tmp_path, photos, monkeypatch):
    """The configuration of two steps on photos, in a folder of its own for each name."""
    monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path / "cache"))

    def config(name, *overrides):
        return load(
            None,
            [
                "data.name=folder",
                f"data.root={photos}",
                "data.transform=handwriting",
                "model.dim=8",
                "sampler.batch_size=8",
                "sampler.per_class=2",
                "train.batches_per_epoch=1",
                "train.epochs=2",
                "train.device=cpu",
                "train.loggers=csv",
                "protocol.metrics=[recall@1]",
                f"runs_dir={tmp_path / name}",
                *overrides,
            ],
        )

    return config


def weights_of(network, path, **options):
    """Random weights as a file, as if they were trained."""
    save_file(models.build(network, **options).backbone.network.state_dict(), path)
    return f"model.weights={path}"


def resumed(short, stops_at, tmp_path, *overrides):
    """A run that was stopped after its first step, and its export, which checks itself."""
    with pytest.raises(Interrupted):
        train(short("stopped", *overrides, "train.checkpoint_seconds=0"), stops_at(1))
    run = train(short("stopped", *overrides))
    assert run.result["steps"] == 2
    assert run.scores.keys() == {"recall@1"}
    embedder = Embedder.open(run.folder)
    assert export(embedder, "onnx", tmp_path / "model.onnx") > 0.9999
    return run


def equals_unstopped(short, run, *overrides):
    """The same run without the stop has the same weights and scores, also before training."""
    whole = train(short("whole", *overrides))
    assert whole.scores == run.scores
    assert whole.result["untrained"].keys() == {"recall@1"}
    torch.testing.assert_close(load_file(whole.weights), load_file(run.weights))


@pytest.mark.parametrize("network", ["test_vit", "test_resnet"])
def test_a_network(short, stops_at, tmp_path, network):
    given = (f"model.network={network}",)
    equals_unstopped(short, resumed(short, stops_at, tmp_path, *given), *given)


@pytest.mark.parametrize(("network", "pooling"), NETWORKS)
def test_every_family_of_networks_and_pooling(short, stops_at, tmp_path, network, pooling):
    given = (f"model.network={network}", f"model.pooling={pooling}", *QUICK)
    resumed(short, stops_at, tmp_path, *given)


def test_adapters_are_resumed_averaged_and_merged(short, stops_at, tmp_path):
    weights = weights_of("test_vit", tmp_path / "start.safetensors")
    given = (
        "model.network=test_vit",
        weights,
        "model.lora.rank=2",
        "model.pooling=cls",
        "optim.lr=0.1",
        "optim.layer_decay=0.9",
        "optim.warmup_epochs=1",
        "train.ema=0.5",
        "protocol.name=paper",
    )
    run = resumed(short, stops_at, tmp_path, *given)
    equals_unstopped(short, run, *given)
    start = models.build(
        "test_vit", weights=str(tmp_path / "start.safetensors"), dim=8, image_size=64
    ).state_dict()
    found = load_file(run.weights)
    assert found.keys() == start.keys()
    changed = {name for name in start if not torch.equal(start[name], found[name])}
    inside = {name for name in changed if not name.startswith("head.")}
    assert inside
    assert all(".attn." in name and name.endswith(".weight") for name in inside)


@pytest.mark.slow
@pytest.mark.parametrize("key", ["freeze_until", "frozen_until"])
def test_adapters_behind_a_cut(short, stops_at, tmp_path, key):
    weights = weights_of("test_vit", tmp_path / "start.safetensors")
    run = train(
        short(
            "cut",
            "model.network=test_vit",
            weights,
            "model.lora.rank=2",
            f"model.{key}=blocks.3",
            "optim.lr=0.1",
            "protocol.name=paper",
        )
    )
    start = models.build("test_vit", weights=weights.partition("=")[2], dim=8, image_size=64)
    found = load_file(run.weights)
    changed = {
        name
        for name, value in start.state_dict().items()
        if not torch.equal(value, found[name]) and not name.startswith("head.")
    }
    layers = ("qkv", "proj")
    assert changed == {
        f"backbone.network.blocks.{n}.attn.{layer}.weight" for n in (4, 5) for layer in layers
    }
    assert Embedder.open(run.folder).dim == 8


@pytest.mark.slow
@pytest.mark.parametrize("way", ["frozen", "lora"])
@pytest.mark.parametrize("tower", ["dinov2", "dinov3", "siglip", "clip"])
def test_a_foundation_recipe(short, tmp_path, tower, way):
    """With random weights of the whole tower, on images of 64 pixels."""
    recipe = f"recipe:foundation/{tower}-{way}"
    network = load(recipe).model.network
    config = load(
        recipe,
        [
            f"data.root={short('any').data.root}",
            "data.transform=handwriting",
            weights_of(network, tmp_path / "tower.safetensors"),
            "model.dim=8",
            "model.frozen_views=1",
            "sampler.batch_size=8",
            "train.batches_per_epoch=1",
            "train.epochs=1",
            "train.device=cpu",
            f"runs_dir={tmp_path / 'runs'}",
        ],
    )
    run = train(config)
    assert run.result["steps"] == 1
    assert Embedder.open(run.folder).dim == 8


def test_freezing_until_a_block_passes_new_views_every_time(short, tmp_path):
    run = train(
        short(
            "until",
            "model.network=test_vit",
            weights_of("test_vit", tmp_path / "start.safetensors"),
            "model.freeze_until=blocks.3",
            "train.activation_checkpointing=true",
            "protocol.name=paper",
        )
    )
    found = load_file(run.weights)
    assert not [name for name in os.listdir(tmp_path / "cache") if "features" in name]
    before = models.build("test_vit", weights=str(tmp_path / "start.safetensors"), image_size=64)
    network = before.backbone.network.state_dict()
    changed = {n for n, v in network.items() if not torch.equal(v, found[f"backbone.network.{n}"])}
    assert changed == {n for n in network if n.startswith(("blocks.4.", "blocks.5.", "norm."))}


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["model.lora.rank=2"], "model.lora needs .* trained weights"),
        (
            ["model.lora.rank=2", "model.freeze_backbone=true"],
            "model.lora and model.freeze_backbone=true exclude each other",
        ),
        (
            ["model.freeze_until=blocks.1", "model.frozen_until=blocks.2"],
            "exclude each other",
        ),
        (
            ["model.network=test_vit3", "model.pooling=map", "mix.where=feature"],
            "the network pools itself",
        ),
        (["model.network=efficientformer_l1"], "cannot take images of 64 pixels"),
        (
            [
                "model.network=efficientformer_l1",
                "data.transform={preset: simple-224, test: {scales: [1, 0.5]}}",
            ],
            "takes images of 224 pixels, but not of 112, as data.transform.test asks",
        ),
    ],
)
def test_what_cannot_be_combined_is_one_sentence(short, overrides, sentence):
    with pytest.raises(BadInput, match=sentence):
        train(short("refused", "model.network=test_vit", *overrides))


@pytest.mark.parametrize("frozen", [False, True])
def test_the_transforms_of_the_network(short, tmp_path, frozen):
    """They need the network's name wherever a size is asked for, also when features are kept."""
    given = ["model.network=test_resnet", "data.transform=network", *QUICK]
    if frozen:
        given += [weights_of("test_resnet", tmp_path / "own.safetensors"), "model.frozen=true"]
    run = train(short("own", *given))
    embedder = Embedder.open(run.folder)
    assert embedder.preset == models.preset_of("network", "test_resnet")
    tested = test_embeddings(run)
    files = [photo_of(run, tested.images.files[index]) for index in tested.indices[:4]]
    torch.testing.assert_close(
        torch.from_numpy(embedder.embed(files)), tested.embeddings[:4], rtol=0, atol=2e-3
    )


def test_behind_a_front_that_is_frozen_all_views_are_tested(short):
    transform = "data.transform={preset: small, size: 64, test: {flip: true, scales: [1, 0.5]}}"
    given = ["model.network=test_resnet", "model.freeze_until=layer2", transform, *QUICK]
    run = train(short("views", *given))
    tested = test_embeddings(run)
    files = [photo_of(run, tested.images.files[index]) for index in tested.indices[:4]]
    found = torch.from_numpy(Embedder.open(run.folder).embed(files))
    torch.testing.assert_close(found, tested.embeddings[:4], rtol=0, atol=1e-4)


def photo_of(run, file):
    return run.config.data.root / file


def test_a_study_over_networks_has_the_transforms_of_each(short):
    parts, sizes = PreparedParts(), []
    for network in ("test_resnet", "resnet18"):
        config = short("study", f"model.network={network}", "data.transform=network")
        parts.store(config)
        sizes.append(parts.preset(config).size)
    assert sizes == [models.preset_of("network", name).size for name in ("test_resnet", "resnet18")]
    assert sizes[0] != sizes[1]
