"""Vision transformers: their own poolings, other image sizes, weights of other forms."""

import pytest
import timm
import torch
from safetensors.torch import save_file

from lookalike import models
from lookalike.errors import BadInput

CLASS_TOKEN, ATTENTION_POOL = "test_vit", "test_vit3"
"""Small networks of timm, with the parts of the large ones; images of 160 pixels."""
DINO = "vit_tiny_patch16_dinov3_qkvb"
"""A class token, four registers, a rotary position embedding."""


def images(side):
    return torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(0))


def of_file(path, network, name, **options):
    """Our model with the weights of a network of timm, by a file, without a head."""
    save_file(network.state_dict(), path)
    return models.build(name, weights=str(path), dim=0, normalize=False, **options).eval()


@pytest.mark.parametrize(
    ("name", "pooling"),
    [
        (CLASS_TOKEN, "cls"),
        (DINO, "cls"),
        (DINO, "avg"),  # over the patches: neither class token nor registers count
        (ATTENTION_POOL, "map"),
        ("vit_pe_core_tiny_patch16_384", "map"),
    ],
)
@torch.no_grad()
def test_a_pooling_gives_what_timm_pools_itself(tmp_path, name, pooling):
    own = {"cls": "token"}.get(pooling, pooling)
    network = timm.create_model(name, num_classes=0, img_size=64, global_pool=own).eval()
    model = of_file(tmp_path / "w.safetensors", network, name, pooling=pooling, image_size=64)
    torch.testing.assert_close(model(images(64)), network(images(64)))


@pytest.mark.slow
@torch.no_grad()
def test_torchvisions_class_token_is_what_it_classifies():
    from torchvision.models import vit_b_32

    whole = vit_b_32().eval()
    model = models.build("torchvision:vit_b_32", dim=0, normalize=False, pooling="cls").eval()
    names = model.backbone.network.state_dict()
    model.backbone.network.load_state_dict({n: whole.state_dict()[n] for n in names})
    torch.testing.assert_close(whole.heads(model(images(224))), whole(images(224)))


@pytest.mark.parametrize(("name", "pooling"), [(CLASS_TOKEN, "cls"), (ATTENTION_POOL, "map")])
def test_everything_that_a_pooling_uses_learns(name, pooling):
    model = models.build(name, dim=4, pooling=pooling, image_size=64)
    model(images(64))[:, 0].sum().backward()
    learning = {n for n, p in model.named_parameters() if p.requires_grad}
    assert {n for n, p in model.named_parameters() if p.grad is not None} == learning
    assert any("attn_pool" in n for n in learning) == (pooling == "map")


def test_a_mix_of_class_tokens_is_the_class_token_of_the_mix():
    """So that mixes in feature space work as with any map and linear pooling."""
    model = models.build(CLASS_TOKEN, dim=0, normalize=False, pooling="cls").eval()
    first, second = model.features(images(160))
    tokens = model.backbone.network.forward_features(images(160))
    mixed = (0.3 * tokens[0] + 0.7 * tokens[1])[0]
    torch.testing.assert_close(model.embed((0.3 * first + 0.7 * second)[None])[0], mixed)


@pytest.mark.parametrize("side", [96, 227])
@torch.no_grad()
def test_another_size_resamples_the_position_embedding_once(tmp_path, side):
    """It resamples in every pass; a side that patches do not divide is filled up with zeros."""
    network = timm.create_model(
        CLASS_TOKEN, num_classes=0, dynamic_img_size=True, dynamic_img_pad=True
    ).eval()
    model = of_file(
        tmp_path / "w.safetensors", network, CLASS_TOKEN, image_size=side, pooling="cls"
    )
    grid = -(-side // 16)
    assert model.backbone.network.pos_embed.shape[1] == grid**2 + 1
    torch.testing.assert_close(model(images(side)), network(images(side)))
    assert model(images(64)).shape == (2, 64)  # still any size


@pytest.mark.parametrize(
    "name",
    ["eva02_tiny_patch14_224", "swin_tiny_patch4_window7_224", "levit_128s"],
)
def test_other_families_take_another_size(name):
    model = models.build(name, dim=4, image_size=128).eval()
    assert model(images(128)).shape == (2, 4)


@pytest.mark.parametrize(
    ("name", "side"),
    [("efficientformer_l1", 128), ("nest_tiny", 227), ("torchvision:vit_b_32", 96)],
)
def test_a_size_that_a_network_cannot_take_is_one_sentence(name, side):
    with pytest.raises(BadInput, match=f"cannot take images of {side} pixels"):
        models.build(name, image_size=side)
    with pytest.raises(BadInput, match=f"cannot take images of {side} pixels"):
        models.check_network(name, "avg", side)


@pytest.mark.parametrize(
    ("name", "pooling", "needed"),
    [
        ("resnet18", "cls", "a class token"),
        ("test_vit2", "cls", "a class token"),  # it has a register, but no class token
        (CLASS_TOKEN, "map", "an attention pooling of its own"),
        ("small-cnn", "map", "an attention pooling of its own"),
    ],
)
def test_a_pooling_that_a_network_has_not_is_refused(name, pooling, needed):
    with pytest.raises(BadInput, match=f"needs a network with {needed}"):
        models.check_network(name, pooling, None)


@pytest.mark.parametrize("name", [CLASS_TOKEN, "test_convnext", "mobilenetv3_small_050"])
def test_generalised_mean_of_negative_values_is_refused(name):
    with pytest.raises(BadInput, match="without negative values"):
        models.build(name, pooling="gem", image_size=64)


def test_generalised_mean_after_a_relu_is_built():
    assert models.build("test_resnet", pooling="gem", image_size=64).dim == 128


@torch.no_grad()
def test_weights_under_the_names_of_their_authors(tmp_path):
    """DINOv2 with registers as Meta publishes it, for images of 518 pixels, on images of 70."""
    name = "vit_small_patch14_reg4_dinov2"
    network = timm.create_model(name, num_classes=0)
    theirs = network.state_dict()
    position = torch.randn(1, 1 + 37**2, 384)
    theirs |= {
        "pos_embed": position,
        "register_tokens": theirs.pop("reg_token"),
        "mask_token": torch.zeros(1, 384),
    }
    path = tmp_path / "dinov2_vits14_reg4_pretrain.pth"
    torch.save(theirs, path)
    model = models.build(name, weights=str(path), image_size=70, pooling="cls")
    own = model.backbone.network.state_dict()
    assert own["pos_embed"].shape == (1, 5 * 5, 384)
    torch.testing.assert_close(own["cls_token"], theirs["cls_token"] + position[:, 0])
    torch.testing.assert_close(own["blocks.11.mlp.fc2.weight"], theirs["blocks.11.mlp.fc2.weight"])


def test_weights_of_no_known_form_are_refused(tmp_path):
    save_file({"anything": torch.zeros(2)}, tmp_path / "w.safetensors")
    with pytest.raises(BadInput, match=r"do not fit the network.*1 unexpected"):
        models.build(CLASS_TOKEN, weights=str(tmp_path / "w.safetensors"))
