"""Keys of a transform: on top of a preset, in the run's name, in the audit, read from a file."""

import pytest
import yaml

from lookalike.compare.conditions import conditions_of
from lookalike.config import TransformConfig, load, parse, without_effect
from lookalike.config.loading import merge
from lookalike.runs.run import run_name


def name(*overrides):
    return run_name(load(None, overrides), "data", "weights")


def test_a_preset_by_name_is_hashed_as_its_name():
    assert load(None, ["data.transform=small"]).identity()["data"]["transform"] == "small"


@pytest.mark.parametrize(
    "setting",
    [
        "size=336",
        "resize=300",
        "resize=[300, 300]",
        "crop=centre",
        "scale=[0.2, 1]",
        "ratio=[1, 1]",
        "interpolation=bicubic",
        "flip=0.1",
        "color_jitter=0.1",
        "color_jitter.hue=0.1",
        "rand_augment=3",
        "rand_augment.num_ops=1",
        "erasing=0.5",
        "erasing.scale=[0.1, 0.2]",
        "mean=[0, 0, 0] std=[1, 1, 1]",
        "test.size=250",
        "test.resize=300",
        "test.flip=true",
        "test.scales=[0.7, 1]",
    ],
)
def test_each_key_changes_the_name_of_the_run_and_the_condition_of_the_audit(setting):
    plain = ("data.transform={preset: proxy-anchor}",)
    settings = [f"data.transform.{one}" for one in setting.replace(" std", "\nstd").split("\n")]
    changed = (*plain, *settings)
    assert name(*changed) != name(*plain)
    one, other = (conditions_of(load(None, overrides)) for overrides in (plain, changed))
    assert {key for key in one | other if one.get(key) != other.get(key)} <= {
        "transform",
        "image_size",
    }
    assert one["transform"] != other["transform"]


def test_the_audit_names_a_composition_briefly():
    config = load(None, ["data.transform=small", "data.transform.size=96"])
    assert conditions_of(config)["transform"] == "small size=96"
    assert conditions_of(config)["image_size"] == 96


def test_keys_build_on_the_preset_below_them_and_a_name_replaces_keys():
    assert merge({"transform": "small"}, {"transform": {"size": 96}}) == {
        "transform": {"preset": "small", "size": 96}
    }
    assert merge({"transform": {"size": 96}}, {"transform": "small"}) == {"transform": "small"}
    config = load("recipe:cub-small", ["data.transform.test.flip=true"])
    assert config.data.transform.preset == "small"
    assert load(None, ["data.transform.size=96"]).data.transform == TransformConfig(size=96)


def test_a_written_configuration_is_read_again():
    config = load(None, ["data.transform={size: 96, color_jitter: {hue: 0.1}, test: {flip: true}}"])
    assert parse(yaml.safe_load(yaml.safe_dump(config.model_dump(mode="json")))) == config


def test_a_scale_without_resized_crops_has_no_effect():
    (warning,) = without_effect(load(None, ["data.transform={crop: random, scale: [0.2, 1]}"]))
    assert "data.transform.scale has no effect with data.transform.crop=random" in warning
    assert not without_effect(load(None, ["data.transform={scale: [0.2, 1]}"]))
