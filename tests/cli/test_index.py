"""``lookalike index``: what it takes in, adds, removes and refuses."""

import json
import shutil

import pytest
import torch
from PIL import Image

from lookalike.search import Embedder, Index


@pytest.fixture
def own_photos(photos, tmp_path):
    """A copy of two colours, to be changed."""
    for name in ("pink", "red"):
        shutil.copytree(photos / name, tmp_path / "photos" / name)
    return tmp_path / "photos"


@pytest.fixture
def own_index(own_photos, trained, tmp_path):
    place = tmp_path / "own.index"
    Index.create(place, Embedder.from_run(trained), own_photos)
    return place


def test_a_run_and_a_folder_make_an_index(lookalike, photos, trained, tmp_path):
    place = tmp_path / "shop.index"
    done = lookalike("index", trained, photos, "-o", place)
    assert (done.returncode, done.stdout) == (0, f"{place}: 32 pictures (32 new)\n")
    made = Index.open(place)
    assert sorted(made.paths) == sorted(
        p.relative_to(photos).as_posix() for p in photos.rglob("*.*")
    )
    assert made.label_names == sorted(path.name for path in photos.iterdir())
    with Image.open(photos / "red" / "2.png") as image:
        assert made.query([image], 1)[0][0].path == "red/2.png"


def test_a_pretrained_network_needs_no_run(lookalike, own_photos, tmp_path):
    place = tmp_path / "shop.index"
    done = lookalike(
        "index", "--network", "efficientnet-lite0", own_photos, "--output", place, "--json"
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["index"], told["new"], told["search"]) == (str(place), 11, "exact")
    assert Index.open(place).embedder.dim == 1280


def test_broken_pictures_are_named_and_left_out(lookalike, own_photos, trained, tmp_path):
    (own_photos / "red" / "broken.png").write_bytes(b"no picture")
    (own_photos / "red" / "half.png").write_bytes((own_photos / "red" / "1.png").read_bytes()[:900])
    done = lookalike("index", trained, own_photos, "-o", tmp_path / "i")
    assert done.returncode == 0, done.stderr
    first, *skipped = done.stdout.splitlines()
    assert first.endswith("11 pictures (11 new, 2 skipped)")
    assert [line.split(":")[0] for line in skipped] == [
        "  skipped red/broken.png",
        "  skipped red/half.png",
    ]


def test_add_takes_what_is_new_or_has_changed(lookalike, own_photos, own_index, photos):
    shutil.copytree(photos / "blue", own_photos / "blue")
    shutil.copy(photos / "green" / "0.png", own_photos / "red" / "0.png")
    done = lookalike("index", "add", own_index, own_photos, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["new"], told["changed"], told["unchanged"]) == (5, 1, 10)
    found = Index.open(own_index)
    assert (len(found), found.label_names) == (16, ["blue", "pink", "red"])
    with Image.open(photos / "green" / "0.png") as image:
        (hit,) = found.query([image], 1)[0]
    assert (hit.path, hit.similarity) == ("red/0.png", pytest.approx(1, abs=1e-5))
    again = lookalike("index", "add", own_index, own_photos)
    assert again.stdout == f"{own_index}: 16 pictures (0 new, 16 unchanged)\n"


def test_remove_by_path_folder_label_and_missing_file(lookalike, own_photos, own_index):
    done = lookalike("index", "remove", own_index, "red/1.png", "red/2.png", "--json")
    assert json.loads(done.stdout) == {"removed": 2, "pictures": 9}
    (own_photos / "pink" / "3.png").unlink()
    done = lookalike("index", "remove", own_index, "--missing")
    assert done.stdout == f"{own_index}: 1 removed, 8 pictures left\n"
    assert "pink/3.png" not in Index.open(own_index).paths
    lookalike("index", "remove", own_index, "--label", "pink")
    assert set(Index.open(own_index).labels) == {"red"}
    lookalike("index", "remove", own_index, "red/")
    assert len(Index.open(own_index)) == 0
    assert (own_photos / "red" / "1.png").is_file()


def test_show_says_what_is_there(lookalike, shop, photos):
    told = json.loads(lookalike("index", "show", shop, "--json").stdout)
    assert (told["pictures"], told["labels"], told["dim"]) == (32, 6, 16)
    assert (told["network"], told["search"]) == ("small-cnn", "exact")
    assert told["folders"] == [str(photos)]
    lines = lookalike("index", "show", shop).stdout.splitlines()
    assert lines[0].split() == ["pictures", "32"]


def test_a_folder_of_broken_pictures_leaves_no_index(refused, trained, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(b"no picture")
    place = tmp_path / "i"
    sentence = "none of the 1 pictures in"
    refused("index", trained, tmp_path / "photos", "-o", place, sentence=sentence)
    assert not place.exists()


def test_the_same_in_postgresql(lookalike, refused, postgres, photos, trained, tmp_path):
    place = f"{postgres}#cli"
    done = lookalike("index", trained, photos, "--store", place)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(": 32 pictures (32 new)\n")
    done = lookalike("index", "remove", place, "--label", "blue", "--json")
    assert json.loads(done.stdout) == {"removed": 5, "pictures": 27}
    done = lookalike("index", "add", place, photos)
    assert done.stdout.endswith(": 32 pictures (5 new, 27 unchanged)\n")
    done = lookalike("search", place, photos / "red" / "3.png", "-k", "1", "--json")
    assert json.loads(done.stdout)[0]["hits"][0]["path"] == "red/3.png"
    refused("index", trained, photos, "--store", place, sentence="'lookalike index add' adds")
    torch.manual_seed(1)
    Embedder.from_network("small-cnn", weights="none").save(tmp_path / "other")
    query = ["search", place, photos / "red" / "3.png", "--model", tmp_path / "other"]
    refused(*query, sentence="was made by another model")


def test_compact_check_and_remove_by_a_filter(lookalike, own_index, own_photos):
    done = lookalike("index", "remove", own_index, "--where", "path like 'pink/%'", "--json")
    assert json.loads(done.stdout)["pictures"] == 5
    done = lookalike("index", "compact", own_index)
    assert (done.returncode, done.stdout) == (0, f"{own_index}: 5 pictures, search: exact\n")
    (own_photos / "red" / "1.png").unlink()
    told = json.loads(lookalike("index", "check", own_index, "--files", "--json").stdout)
    assert (told["healthy"], told["recall"], told["missing"]) == (True, 1.0, ["red/1.png"])
    path = next(own_index.glob("segments/*/vectors.npy"))
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    done = lookalike("index", "check", own_index)
    assert done.returncode == 1
    assert "vectors.npy" in done.stdout
    done = lookalike("index", "show", own_index)
    assert done.returncode == 2
    assert "damaged" in done.stderr


def test_vectors_may_be_stored_with_less_precision(lookalike, own_photos, trained, tmp_path):
    done = lookalike("index", trained, own_photos, "-o", tmp_path / "i", "--vectors", "float16")
    assert done.returncode == 0, done.stderr
    told = json.loads(lookalike("index", "show", tmp_path / "i", "--json").stdout)
    assert (told["pictures"], told["vectors"]) == (11, "float16")
