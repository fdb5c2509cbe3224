import os
import subprocess
import sys

import pytest
import torch

from lookalike import models
from lookalike.errors import BadInput

pytestmark = pytest.mark.trust(
    "mine_for_lookalike:network",
    "mine_for_lookalike:wrong",
    "nosuchpackage:Network",
)

NAMED = ["bn-inception", "efficientnet-lite0", "googlenet", "resnet50", "small-cnn"]


def test_named_networks_have_a_line_and_a_paper():
    assert set(NAMED) <= set(models.names())
    for entry in models.describe():
        if entry.name in NAMED:
            assert entry.summary
            assert entry.paper or entry.name == "small-cnn"


@pytest.mark.parametrize(("network", "channels"), zip(NAMED, (1, 3, 1, 3, 1), strict=True))
def test_named_networks_train_on_grey_and_colour(network, channels):
    model = models.build(network, dim=16, channels=channels, pooling="avg+max")
    images = torch.randn(2, channels, 64, 64)
    found = model(images)
    assert found.shape == (2, 16)
    assert model.normalisation.channels == channels == len(model.normalisation.mean)
    found[:, 0].sum().backward()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize(
    ("network", "size", "shape"),
    [
        ("resnet18", 64, (512, 2, 2)),
        ("torchvision:resnet18", 64, (512, 2, 2)),
        ("resnet18.tv_in1k", 64, (512, 2, 2)),
        ("vit_tiny_patch16_224", 96, (192, 6, 6)),
        ("deit_tiny_distilled_patch16_224", 64, (192, 4, 4)),
        ("swin_tiny_patch4_window7_224", 64, (768, 2, 2)),
        ("xcit_nano_12_p16_224", 224, (128, 14, 14)),
        ("torchvision:densenet121", 64, (1024, 2, 2)),
        ("torchvision:squeezenet1_0", 64, (512, 3, 3)),
        ("torchvision:swin_t", 64, (768, 2, 2)),
        ("torchvision:mobilenet_v3_small", 64, (576, 2, 2)),
    ],
)
def test_other_networks_give_a_map(network, size, shape):
    model = models.build(network, dim=4, pooling="avg+max")
    images = torch.randn(2, 3, size, size).contiguous(memory_format=torch.channels_last)
    assert model.features(images).shape[1:] == shape
    found = model(images)
    assert found.isfinite().all()
    found[:, 0].sum().backward()
    learning = [p for p in model.parameters() if p.requires_grad]
    assert all(p.grad is not None for p in learning)


def test_tokens_lie_where_their_patches_do():
    model = models.build("vit_tiny_patch16_224").eval()
    images = torch.randn(1, 3, 64, 96)
    tokens = model.backbone.network.forward_features(images)
    found = model.features(images)
    assert found.shape == (1, 192, 4, 6)
    torch.testing.assert_close(found[0, :, 2, 3], tokens[0, 1 + 2 * 6 + 3])


def test_torchvision_map_is_what_the_whole_network_classifies():
    from torchvision.models import resnet18

    whole = resnet18().eval()
    model = models.build("torchvision:resnet18", dim=0, normalize=False).eval()
    model.backbone.network.load_state_dict(
        {k: v for k, v in whole.state_dict().items() if not k.startswith("fc.")}
    )
    images = torch.randn(2, 3, 64, 64)
    torch.testing.assert_close(whole.fc(model(images)), whole(images))


def test_googlenet_map_is_what_torchvision_classifies_from_its_own_scaling():
    from torchvision.models import googlenet

    whole = googlenet(aux_logits=False, transform_input=True, init_weights=True).eval()
    model = models.build("googlenet", dim=0, normalize=False).eval()
    model.backbone.network.load_state_dict(
        {k: v for k, v in whole.state_dict().items() if not k.startswith("fc.")}
    )
    pixels = torch.randint(0, 256, (2, 3, 64, 64)).float() / 255
    mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
    expected = whole((pixels - mean) / std)
    torch.testing.assert_close(whole.fc(model((pixels - 0.5) / 0.5)), expected)


@pytest.mark.parametrize(
    ("given", "near"),
    [
        ("resnet5O", "'resnet50'"),
        ("smal-cnn", "'small-cnn'"),
        ("torchvision:resnet5", "'resnet50'"),
        ("timm:resnet18x", "'resnet18'"),
        ("qqqq", "bn-inception"),
    ],
)
def test_wrong_names_are_refused_with_the_nearest(given, near):
    with pytest.raises(BadInput, match=near):
        models.build(given)


def test_other_wrong_values_are_refused():
    with pytest.raises(BadInput, match="pooling 'mean'"):
        models.build("small-cnn", pooling="mean")
    with pytest.raises(BadInput, match="2"):
        models.build("small-cnn", channels=2)
    with pytest.raises(BadInput, match="small-cnn"):
        models.build("small-cnn", weights="imagenet")
    with pytest.raises(BadInput, match="nosuchpackage"):
        models.build("nosuchpackage:Network")
    with pytest.raises(BadInput, match="several maps"):
        models.build("crossvit_tiny_240")
    with pytest.raises(BadInput, match="224"):
        models.build("torchvision:vit_b_32")(torch.randn(1, 3, 64, 64))


def test_a_class_of_another_package_is_built(tmp_path, monkeypatch):
    (tmp_path / "mine_for_lookalike.py").write_text(
        "from lookalike.models import small_cnn\n"
        "def network(channels=3):\n    return small_cnn(channels)\n"
        "def wrong(channels=3):\n    return 'no network'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    model = models.build("mine_for_lookalike:network", channels=1, dim=4)
    assert model(torch.randn(2, 1, 32, 32)).shape == (2, 4)
    with pytest.raises(BadInput, match="Backbone"):
        models.build("mine_for_lookalike:wrong")
    with pytest.raises(BadInput, match="pretrained"):
        models.build("mine_for_lookalike:network", weights="imagenet")


OFFLINE = """
from lookalike import models
from lookalike.errors import BadInput, LookalikeError
for network in ("resnet50", "resnet18"):
    try:
        models.build(network, weights="imagenet")
    except LookalikeError as error:
        assert not isinstance(error, BadInput)
        print(error)
"""


def test_an_unreachable_hub_is_told_in_one_sentence(tmp_path):
    """The first is torchvision's, the second timm's."""
    nowhere = "http://127.0.0.1:9"
    offline = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(tmp_path),
        "TORCH_HOME": str(tmp_path),
        "https_proxy": nowhere,
        "HTTPS_PROXY": nowhere,
        "no_proxy": "",
        "NO_PROXY": "",
    }
    ran = subprocess.run(
        [sys.executable, "-c", OFFLINE], env=offline, capture_output=True, text=True, check=True
    )
    told = ran.stdout.splitlines()
    assert len(told) == 2
    for network, sentence in zip(("resnet50", "resnet18"), told, strict=True):
        assert f"'{network}'" in sentence
        assert "model.weights" in sentence


def test_seed_decides_random_weights():
    built = []
    for _ in range(2):
        torch.manual_seed(3)
        built.append(models.build("resnet18", dim=4).state_dict())
    assert all(torch.equal(value, built[1][name]) for name, value in built[0].items())


def test_fingerprint_follows_content_not_place(tmp_path):
    (tmp_path / "a.pth").write_bytes(b"weights")
    (tmp_path / "b.pth").write_bytes(b"weights")
    (tmp_path / "c.pth").write_bytes(b"others")
    a, b, c = (models.fingerprint("resnet50", str(tmp_path / f"{n}.pth")) for n in "abc")
    assert a == b != c
    assert models.fingerprint("resnet50") == "random"
    assert models.fingerprint("resnet50", "imagenet") == "imagenet:resnet50"
    packaged = models.fingerprint("efficientnet-lite0", "imagenet")
    assert len(packaged) == 16
    with pytest.raises(BadInput, match=r"gone\.pth"):
        models.fingerprint("resnet50", str(tmp_path / "gone.pth"))
