import pytest
import torch

from lookalike import models
from lookalike.errors import BadInput
from lookalike.models.own_networks import BNInception


@pytest.fixture
def oracle(caffe_bn_inception, random_state):
    network = caffe_bn_inception.bninception(num_classes=1000, pretrained=None)
    network.load_state_dict(random_state(network))
    return network.eval()


def test_names_shapes_and_order_are_those_of_the_caffe_conversion(oracle):
    own = BNInception(num_classes=1000).state_dict()
    theirs = oracle.state_dict()
    assert len(own) == 485
    assert [(k, v.shape) for k, v in own.items()] == [(k, v.shape) for k, v in theirs.items()]


@pytest.mark.parametrize("size", [224, 227, 96])
def test_map_equals_the_oracle(oracle, size):
    own = BNInception(num_classes=1000).eval()
    own.load_state_dict(oracle.state_dict())
    images = torch.randn(2, 3, size, size)
    with torch.no_grad():
        expected = oracle.features(images)
        found = own(images)
    assert expected.std() > 0.01
    torch.testing.assert_close(found, expected)


def test_training_mode_equals_the_oracle_and_moves_the_same_statistics(oracle):
    own = BNInception(num_classes=1000)
    own.load_state_dict(oracle.state_dict())
    oracle.train()
    images = torch.randn(4, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(own(images), oracle.features(images))
    name = "inception_5b_pool_proj_bn.running_var"
    torch.testing.assert_close(own.state_dict()[name], oracle.state_dict()[name])


def test_the_published_file_with_its_flat_batch_norm_vectors_loads(oracle, tmp_path):
    old = {}
    for name, value in oracle.state_dict().items():
        if name.endswith("num_batches_tracked"):
            continue
        old[name] = value[None] if "_bn." in name else value
    path = tmp_path / "bn_inception-52deb4733.pth"
    torch.save(old, path)
    model = models.build("bn-inception", weights=str(path)).eval()
    images = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(model.features(images), oracle.features(images))


def test_input_is_blue_first_and_unscaled():
    wanted = models.build("bn-inception").normalisation
    assert (wanted.mean, wanted.std) == ((104.0, 117.0, 128.0), (1.0, 1.0, 1.0))
    assert (wanted.scale, wanted.bgr, wanted.channels) == (1.0, True, 3)


def test_imagenet_asks_for_the_file():
    with pytest.raises(BadInput, match=r"bn_inception-52deb4733\.pth .*model\.weights"):
        models.build("bn-inception", weights="imagenet")


def test_missing_weights_are_refused_before_images_are_stored(tmp_path, monkeypatch):
    from lookalike.config import load
    from lookalike.training import building, train

    monkeypatch.setattr(building, "open_store", lambda *_: pytest.fail("images were stored first"))
    settings = ["model.network=bn-inception", "model.weights=imagenet", f"runs_dir={tmp_path}"]
    with pytest.raises(BadInput, match=r"download http.*SHA-256 52deb4733"):
        train(load(None, ["data.name=glyphs", *settings]))
    assert list(tmp_path.iterdir()) == []
