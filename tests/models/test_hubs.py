import numpy as np
import pytest
import timm
import torch
from sklearn.datasets import load_sample_images

from lookalike import models
from lookalike.errors import BadInput
from lookalike.models.hubs import efficientnet_lite0_file
from lookalike.models.weights import load_by_order, read_tensors


def test_packaged_weights_recognise_a_temple_and_a_flower():
    """The classifier of the same file, on top of our map, must name what the pictures show."""
    model = models.build("efficientnet-lite0", weights="imagenet", dim=0, normalize=False).eval()
    tensors = read_tensors(efficientnet_lite0_file())
    pictures = np.stack([picture[:, 100:527] for picture in load_sample_images().images])
    batch = torch.from_numpy(pictures.copy()).permute(0, 3, 1, 2).float()
    batch = torch.nn.functional.interpolate(batch, (224, 224), mode="bilinear", antialias=True)
    with torch.no_grad():
        features = model(model.normalisation(batch, torch.channels_last))
    scores = (features @ tensors["_fc.weight"].T + tensors["_fc.bias"]).softmax(1)
    palace, daisy = 698, 985
    assert scores.argmax(1).tolist() == [palace, daisy]


def test_every_tensor_of_the_network_comes_from_the_file():
    model = models.build("efficientnet-lite0", weights="imagenet")
    given = list(read_tensors(efficientnet_lite0_file()).values())
    own = list(model.backbone.network.state_dict().values())
    assert (len(given), len(own)) == (296, 294)
    assert all(torch.equal(a, b) for a, b in zip(own, given, strict=False))


def test_a_network_of_other_shapes_is_refused():
    tensors = read_tensors(efficientnet_lite0_file())
    network = timm.create_model("tf_efficientnet_lite1", num_classes=0)
    with pytest.raises(BadInput, match="do not fit"):
        load_by_order(network, tensors, "the package")


def test_input_is_scaled_to_one():
    wanted = models.build("efficientnet-lite0").normalisation
    assert (wanted.mean, wanted.std, wanted.scale) == ((0.5,) * 3, (0.5,) * 3, 1 / 255)
