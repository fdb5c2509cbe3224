import pickle

import pytest
import torch
from safetensors.torch import save_file

from lookalike import models
from lookalike.errors import BadInput
from lookalike.models.weights import read_tensors


@pytest.fixture
def images():
    return torch.randn(2, 1, 32, 32)


@pytest.fixture
def trained(random_state):
    model = models.build("small-cnn", channels=1, dim=8, pooling="gem")
    model.load_state_dict(random_state(model))
    return model.eval()


def rebuilt(path, **changed):
    options = {"channels": 1, "dim": 8, "pooling": "gem", **changed}
    return models.build("small-cnn", weights=str(path), **options).eval()


def test_own_checkpoint_comes_back_whole(trained, images, tmp_path):
    save_file(trained.state_dict(), tmp_path / "model.safetensors")
    assert torch.equal(rebuilt(tmp_path / "model.safetensors")(images), trained(images))


@pytest.mark.parametrize(
    ("container", "wrapper"),
    [("", "module."), ("state_dict", ""), ("model", "module.model."), ("model_state_dict", "")],
)
def test_torch_files_in_every_usual_wrapping(trained, images, tmp_path, container, wrapper):
    tensors = {wrapper + k: v for k, v in trained.backbone.network.state_dict().items()}
    whole = {container: tensors, "epoch": 3} if container else tensors
    torch.save(whole, tmp_path / "weights.pth")
    model = rebuilt(tmp_path / "weights.pth")
    assert torch.equal(model.features(images), trained.features(images))


def test_classifiers_and_missing_step_counters_pass(trained, images, tmp_path):
    tensors = trained.backbone.network.state_dict()
    tensors = {k: v for k, v in tensors.items() if not k.endswith("num_batches_tracked")}
    tensors |= {"fc.weight": torch.zeros(10, 128), "classifier.1.bias": torch.zeros(10)}
    save_file(tensors, tmp_path / "weights.safetensors")
    model = rebuilt(tmp_path / "weights.safetensors")
    assert torch.equal(model.features(images), trained.features(images))


def test_a_wrong_file_is_told_in_one_sentence_and_changes_nothing(trained, tmp_path):
    tensors = trained.backbone.network.state_dict()
    del tensors["0.0.weight"]
    tensors["2.0.weight"] = torch.zeros(5, 16, 3, 3)
    tensors |= {f"extra.{i}": torch.zeros(1) for i in range(5)}
    save_file(tensors, tmp_path / "wrong.safetensors")
    with pytest.raises(BadInput) as told:
        rebuilt(tmp_path / "wrong.safetensors")
    sentence = str(told.value)
    assert "wrong.safetensors" in sentence
    assert "1 missing (0.0.weight)" in sentence
    assert "5 unexpected (extra.0, extra.1, extra.2, ...)" in sentence
    assert "1 wrong shape (2.0.weight [5, 16, 3, 3] for [32, 16, 3, 3])" in sentence
    assert "\n" not in sentence


def test_a_checkpoint_of_another_embedding_size_is_refused(trained, tmp_path):
    save_file(trained.state_dict(), tmp_path / "model.safetensors")
    with pytest.raises(BadInput, match=r"head\.linear\.weight \[8, 128\] for \[16, 128\]"):
        rebuilt(tmp_path / "model.safetensors", dim=16)


def test_a_checkpoint_with_a_head_the_model_lacks_is_refused(trained, tmp_path):
    save_file(trained.state_dict(), tmp_path / "model.safetensors")
    with pytest.raises(BadInput, match=r"1 unexpected \(head\.pool\.p\)"):
        rebuilt(tmp_path / "model.safetensors", pooling="avg")


def test_colour_kernels_fit_grey_images(tmp_path):
    colour = models.build("small-cnn", channels=3).eval()
    torch.save(colour.backbone.network.state_dict(), tmp_path / "colour.pth")
    grey = models.build("small-cnn", channels=1, weights=str(tmp_path / "colour.pth")).eval()
    images = torch.randn(2, 1, 32, 32)
    torch.testing.assert_close(grey.features(images), colour.features(images.expand(-1, 3, -1, -1)))


def test_a_missing_file_is_named():
    with pytest.raises(BadInput, match=r"nowhere\.pth"):
        models.build("small-cnn", weights="nowhere.pth")


@pytest.mark.parametrize(
    ("name", "content"), [("broken.pth", b"no weights, just text" * 9), ("broken.safetensors", b"")]
)
def test_files_that_are_no_weights_are_refused(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=name) as told:
        read_tensors(tmp_path / name)
    assert "\n" not in str(told.value)


class Harmful:
    def __reduce__(self):
        return (print, ("this must not run",))


def test_code_in_a_file_is_not_run(tmp_path, capsys):
    torch.save({"state_dict": Harmful()}, tmp_path / "harm.pth")
    (tmp_path / "plain.pth").write_bytes(pickle.dumps(Harmful()))
    for name in ("harm.pth", "plain.pth"):
        with pytest.raises(BadInput, match=name):
            read_tensors(tmp_path / name)
    assert capsys.readouterr().out == ""


def test_a_file_without_tensors_is_refused(tmp_path):
    torch.save({"epoch": 3}, tmp_path / "empty.pth")
    with pytest.raises(BadInput, match="no named tensors"):
        read_tensors(tmp_path / "empty.pth")
    torch.save([torch.zeros(2)], tmp_path / "list.pth")
    with pytest.raises(BadInput, match="no named tensors"):
        read_tensors(tmp_path / "list.pth")
