"""Adapters: what learns, what a merge computes, what is refused."""

import pytest
import torch

from lookalike import models
from lookalike.errors import BadInput
from lookalike.models.lora import merge_lora, merged_state, with_lora

NETWORK = "test_vit"


def images():
    return torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))


def adapted(network=NETWORK, **options):
    torch.manual_seed(0)
    return with_lora(models.build(network, dim=4, image_size=64), image_size=64, **options)


def learning(model):
    return {name for name, p in model.named_parameters() if p.requires_grad}


def step(model):
    """One step of gradient descent, with a loss that has a gradient everywhere."""
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1.0)
    for _ in range(2):  # B starts at 0, so that A has no gradient in the first
        optimizer.zero_grad()
        model(images())[:, 0].sum().backward()
        optimizer.step()


def test_a_model_starts_as_it_was():
    torch.manual_seed(0)
    plain = models.build(NETWORK, dim=4, image_size=64).eval()
    torch.testing.assert_close(adapted().eval()(images()), plain(images()), rtol=0, atol=0)


def test_only_adapters_and_head_learn():
    model = adapted(targets=("attention",))
    inside = {name for name in learning(model) if not name.startswith("head.")}
    blocks = {f"blocks.{n}.attn.{layer}" for n in range(6) for layer in ("qkv", "proj")}
    assert inside == {
        f"backbone.network.{path}.lora_{part}.default.weight" for path in blocks for part in "AB"
    }
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    step(model)
    changed = {name for name, p in model.named_parameters() if not torch.equal(p, start[name])}
    assert changed == learning(model)


def test_warming_up_and_freezing_keep_the_weights_frozen():
    model = adapted()
    before = learning(model)
    model.set_backbone_trainable(False)
    assert learning(model) == {"head.linear.weight", "head.linear.bias"}
    model.set_backbone_trainable(True)
    assert learning(model) == before


@pytest.mark.parametrize("targets", [("linear",), ("qkv", "fc1"), ("patch_embed.proj",)])
def test_a_merge_is_the_sum_of_weight_and_scaled_product(targets):
    model = adapted(targets=targets, rank=3, alpha=6)
    step(model)
    model.eval()
    expected, state = model(images()), model.state_dict()
    (path, *_) = [name[: -len(".lora_A.default.weight")] for name in state if "lora_A" in name]
    a, b = (state[f"{path}.lora_{part}.default.weight"] for part in "AB")
    product = torch.einsum("or,ri->oi", b.flatten(1), a.flatten(1)).view(b.shape[0], *a.shape[1:])
    weight = state[f"{path}.base_layer.weight"] + 6 / 3 * product
    stored = merged_state(model)
    assert any("lora_" in name for name in model.state_dict())
    torch.testing.assert_close(stored[f"{path}.weight"], weight)
    merge_lora(model)
    torch.testing.assert_close(model(images()), expected)
    plain = models.build(NETWORK, dim=4, image_size=64).eval()
    plain.load_state_dict(stored)
    torch.testing.assert_close(plain(images()), expected)


def test_without_adapters_a_merge_changes_nothing():
    model = models.build("small-cnn", dim=4)
    before = model.state_dict()
    merge_lora(model)
    assert merged_state(model).keys() == before.keys()


@pytest.mark.parametrize(
    ("network", "targets", "sentence"),
    [
        ("resnet18", ("attention",), "no such layers"),
        (NETWORK, ("qkw",), "did you mean 'qkv'"),
        # these multiply by the weight of the layer themselves
        ("eva02_tiny_patch14_224", ("attention",), "without calling the layer"),
    ],
)
def test_layers_that_cannot_have_an_adapter_are_refused(network, targets, sentence):
    with pytest.raises(BadInput, match=sentence):
        adapted(network, targets=targets)
