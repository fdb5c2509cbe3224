"""``lookalike embed`` and ``lookalike index import``."""

import json

import numpy as np

from lookalike.inference.embedder import Embedder


def test_embed_and_import(lookalike, trained, photos, tmp_path):
    vectors = tmp_path / "vectors"
    done = lookalike("embed", trained, photos, "-o", vectors, "--per-shard", 10, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    embedder = Embedder.from_run(trained)
    assert (told["rows"], told["dim"], told["fingerprint"]) == (32, 16, embedder.fingerprint)
    assert (told["new"], told["unchanged"]) == (32, 0)
    again = lookalike("embed", trained, photos, "-o", vectors, "--per-shard", 10)
    assert again.stdout == f"{vectors}: 32 pictures (0 new, 32 unchanged)\n"
    found = lookalike("search", vectors, photos / "red" / "0.png", "-k", 1, "--json")
    assert json.loads(found.stdout)[0]["hits"][0]["path"] == "red/0.png"
    place = tmp_path / "shop.index"
    done = lookalike("index", "import", vectors, "-o", place, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["new"] == 32
    found = lookalike("search", place, photos / "red" / "0.png", "-k", 1, "--json")
    assert json.loads(found.stdout)[0]["hits"][0]["path"] == "red/0.png"


def test_skipped_pictures_are_told(lookalike, trained, photos, tmp_path):
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "0.png").write_bytes((photos / "red" / "0.png").read_bytes())
    (tmp_path / "p" / "1.png").write_bytes(b"no")
    done = lookalike("embed", trained, tmp_path / "p", "-o", tmp_path / "v")
    assert "skipped 1.png: it is not a picture of a known format" in done.stdout
    again = lookalike("embed", trained, tmp_path / "p", "-o", tmp_path / "v", "--json")
    assert [one["path"] for one in json.loads(again.stdout)["skipped"]] == ["1.png"]


def test_own_vectors(lookalike, tmp_path):
    np.save(tmp_path / "v.npy", np.random.default_rng(0).normal(size=(9, 4)))
    (tmp_path / "t.csv").write_text("id;label\n" + "".join(f"n{row};a\n" for row in range(9)))
    given = ("index", "import", tmp_path / "v.npy", "--table", tmp_path / "t.csv")
    done = lookalike(*given, "-o", tmp_path / "i", "--vectors", "float16")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tmp_path / 'i'}: 9 pictures (9 new)\n"
    assert lookalike(*given, "-o", tmp_path / "i").stdout.endswith("(0 new, 9 unchanged)\n")


def test_other_options_are_refused(lookalike, refused, trained, photos, tmp_path):
    lookalike("embed", trained, photos, "-o", tmp_path / "v")
    given = ("embed", trained, photos, "-o", tmp_path / "v", "--dtype", "float16")
    refused(*given, sentence="stores float32, not float16")
