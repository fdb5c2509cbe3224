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
