"""``lookalike search``: a table, JSON or a contact sheet, or one sentence."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from lookalike.search import Embedder, Index, Record


def nearest_by_numpy(shop, file, k):
    """Paths and cosines of all pictures, sorted."""
    index = Index.open(shop)
    with Image.open(file) as image:
        cosines = np.asarray(index.vectors) @ index.embedder.embed([image])[0]
    order = np.argsort(-cosines, kind="stable")[:k]
    return [index.paths[row] for row in order], cosines[order]


def test_a_table_of_the_nearest(lookalike, shop, photos):
    query = photos / "green" / "1.png"
    done = lookalike("search", shop, query, "-k", "4")
    assert done.returncode == 0, done.stderr
    first, *lines = done.stdout.splitlines()
    paths, cosines = nearest_by_numpy(shop, query, 4)
    assert first == str(query)
    rows = [line.split() for line in lines]
    assert [row[0] for row in rows] == ["1", "2", "3", "4"]
    assert [row[3] for row in rows] == paths
    assert [float(row[1]) for row in rows] == pytest.approx(cosines, abs=6e-5)
    assert rows[0][2:] == ["green", "green/1.png"]


def test_json_of_several_queries(lookalike, shop, photos):
    queries = [photos / "green" / "1.png", photos / "pink" / "again.jpg"]
    done = lookalike("search", shop, *queries, "-k", "3", "--json")
    told = json.loads(done.stdout)
    assert [answer["query"] for answer in told] == list(map(str, queries))
    for answer, query in zip(told, queries, strict=True):
        paths, cosines = nearest_by_numpy(shop, query, 3)
        assert [hit["path"] for hit in answer["hits"]] == paths
        assert [hit["similarity"] for hit in answer["hits"]] == pytest.approx(cosines, abs=1e-5)
    assert {hit["path"] for hit in told[1]["hits"][:2]} == {"pink/again.jpg", "pink/0.png"}


def test_json_of_a_picture_without_a_file(lookalike, tmp_path):
    """As pictures inside of Parquet or WebDataset are."""
    embedder = Embedder.from_network("small-cnn", weights="none")
    index = Index.create(tmp_path / "i", embedder)
    index.root_number(tmp_path)
    image = Image.new("RGB", (64, 64), "red")
    image.save(tmp_path / "query.png")
    index.commit([Record("pictures.parquet/0")], embedder.embed([image]))
    done = lookalike("search", index.place, tmp_path / "query.png", "--json")
    assert done.returncode == 0, done.stderr
    (hit,) = json.loads(done.stdout)[0]["hits"]
    assert (hit["path"], hit["file"]) == ("pictures.parquet/0", None)


def test_one_bad_picture_does_not_lose_the_others(lookalike, shop, photos, tmp_path):
    bad = tmp_path / "bad.jpg"
    bad.write_text("no picture")
    done = lookalike("search", shop, bad, photos / "pink" / "0.png", "-k", "2", "--json")
    assert done.returncode == 1
    first, second = json.loads(done.stdout)
    assert first == {"query": str(bad), "error": "it is not a picture of a known format"}
    assert second["hits"][0]["file"] == str((photos / "pink" / "0.png").resolve())
    assert f"cannot read the picture '{bad}'" in done.stderr


def test_one_label_only_and_more_than_there_are(lookalike, shop, photos):
    query = photos / "green" / "1.png"
    done = lookalike("search", shop, query, "--label", "blue", "-k", "50", "--json")
    (answer,) = json.loads(done.stdout)
    assert {hit["label"] for hit in answer["hits"]} == {"blue"}
    assert len(answer["hits"]) == 5


def test_a_contact_sheet_shows_query_and_hits(lookalike, shop, photos, tmp_path):
    sheet = tmp_path / "sheets" / "found.png"
    done = lookalike("search", shop, photos / "blue" / "0.png", "-k", "4", "--sheet", sheet)
    assert done.stdout.splitlines()[-1] == f"contact sheet: {sheet}"
    with Image.open(sheet) as image:
        pixels = np.asarray(image.convert("RGB")).astype(int)
    blue = (pixels[:, :, 2] > 150) & (pixels[:, :, 0] < 90) & (pixels[:, :, 1] < 110)
    columns = blue.any(0).astype(int)
    assert (np.diff(columns) == 1).sum() >= 4  # pictures beside each other, with paper between
    assert [path.name for path in sheet.parent.iterdir()] == ["found.png"]


def test_the_run_itself_and_its_export_may_embed_the_query(
    lookalike, shop, photos, trained, tmp_path
):
    query = photos / "green" / "1.png"
    plain = lookalike("search", shop, query, "--json")
    lookalike("export", trained, "--to", "onnx", "-o", tmp_path / "m.onnx")
    for model in (trained, tmp_path / "m.onnx"):
        done = lookalike("search", shop, query, "--json", "--model", model)
        found, expected = (json.loads(text)[0]["hits"] for text in (done.stdout, plain.stdout))
        assert [hit["path"] for hit in found] == [hit["path"] for hit in expected]
        near = [hit["similarity"] for hit in expected]
        assert [hit["similarity"] for hit in found] == pytest.approx(near, abs=1e-5)


def test_another_model_is_refused(refused, shop, photos, tmp_path):
    torch.manual_seed(1)
    Embedder.from_network("small-cnn", weights="none").save(tmp_path / "other")
    query = ["search", shop, photos / "red" / "3.png", "--model", tmp_path / "other"]
    refused(*query, sentence="was made by another model")


def test_k_must_be_positive(lookalike, shop, photos):
    done = lookalike("search", shop, photos / "red" / "1.png", "-k", "0")
    assert done.returncode == 2
    assert "-k" in done.stderr
