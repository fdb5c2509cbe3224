import json

import pytest

SMALL = ("data.transform=none", "model.frozen_views=0")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_few_classes(lookalike, coloured_noise):
    folder = coloured_noise(6, 3, size=(40, 40))
    done = lookalike("choose", folder, *SMALL)
    assert done.returncode == 0, done.stderr
    assert "18 images of 6 classes, 3 to 3 of a class (median 3)" in done.stdout
    assert "Use the network's own features" in done.stdout
    assert "Cannot be known: whether training helps" in done.stdout
    assert "recipe.yaml" in done.stdout
    told = json.loads(lookalike("choose", folder, *SMALL, "--json").stdout)
    assert told["untrained"]["classes"] == 6
    assert told["data"]["images"] == 18
    assert told["files"]["page"].endswith("page.html")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere"], "data.root of 'folder' is no folder: nowhere"),
        (["{photos}", "--minutes", "0"], "--minutes 0 is invalid: it must be above 0"),
        (["{photos}", "--minutes", "0.0001"], "is too little: the features of 4 images"),
        (["{photos}", "--metric", "recall"], "there is no metric 'recall'; did you mean"),
        (["{photos}", "loss.name=triplet"], "'loss.name=triplet' cannot be set"),
        (["{photos}", "model.dimm=3"], "there is no key 'model.dimm'; did you mean 'model.dim'?"),
        (["{photos}", "model.frozen=false"], "so model.frozen stays true"),
        (["model.dim=3"], "give a folder of pictures, or data.name=... for a data set"),
        (["data.name=cup", "data.root=x"], "did you mean 'cub'?"),
    ],
)
def test_bad_input(refused, photos, tmp_path, arguments, sentence):
    given = [str(photos) if one == "{photos}" else one for one in arguments]
    refused("choose", *given, sentence=sentence)
    assert list(tmp_path.iterdir()) == []
