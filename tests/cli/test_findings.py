"""``lookalike duplicates`` and ``lookalike mislabelled``: table, JSON and page."""

import json
import shutil


def test_copies_are_found_by_a_calibrated_threshold(lookalike, photos, tmp_path):
    page = tmp_path / "duplicates.html"
    done = lookalike("duplicates", photos, "--page", page)
    assert done.returncode == 0, done.stderr
    first, *lines = done.stdout.splitlines()
    assert "groups in 32 pictures; cosine " in first
    assert "on validation pairs they recognise" in first
    assert "confidence" in lines[0]
    assert lines[1:3] == ["    pink/0.png", "    pink/again.jpg"]
    assert lines[-1] == f"page: {page}"
    assert "pink/again.jpg" in page.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["duplicates.html"]


def test_an_index_is_used_as_it_is_and_a_threshold_as_given(lookalike, shop, photos):
    done = lookalike("duplicates", shop, "--threshold", "0.9999", "--json")
    told = json.loads(done.stdout)
    assert told["calibration"] is None
    for group in told["groups"]:
        assert group["similarity"] >= 0.9999
        assert len(group["items"]) >= 2


def test_a_trained_model_calibrates_on_what_is_there(lookalike, photos, trained):
    done = lookalike("duplicates", photos / "pink", "--model", trained, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert 0 < told["calibration"]["threshold"] <= 1
    assert told["calibration"]["copies"] == 12  # four of each of the three that did not choose


def test_unreadable_pictures_are_named(lookalike, photos, trained, tmp_path):
    shutil.copytree(photos / "pink", tmp_path / "p")
    (tmp_path / "p" / "broken.jpg").write_bytes(b"no picture")
    done = lookalike("duplicates", tmp_path / "p", "--model", trained, "--threshold", "0.99")
    assert done.returncode == 0, done.stderr
    assert "skipped broken.jpg" in done.stderr
    assert "in 6 pictures" in done.stdout


def test_a_picture_under_a_wrong_label_is_in_doubt(lookalike, trained, tmp_path):
    page = tmp_path / "doubts.html"
    done = lookalike("mislabelled", trained, "-k", "4", "--page", page)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].endswith("of 17 test pictures are in doubt")
    assert any(
        line.split()[1:] == ["white/stray.png", "white", "->", "red"] for line in lines[1:-1]
    )
    assert lines[-1] == f"page: {page}"
    assert "white/stray.png" in page.read_text()


def test_doubts_as_json(lookalike, trained):
    done = lookalike("mislabelled", trained, "-k", "4", "--json")
    (stray,) = (row for row in json.loads(done.stdout) if row["path"] == "white/stray.png")
    assert (stray["label"], stray["proposed"]) == ("white", "red")
    assert stray["share"] >= 0.7 > stray["agreement"]
    assert len(stray["neighbours"]) == 4
    assert any(path.startswith("red/") for path in stray["neighbours"])
    none = lookalike("mislabelled", trained, "-k", "4", "--at-least", "1", "--json")
    assert len(json.loads(none.stdout)) <= len(json.loads(done.stdout))


def test_changed_pictures_are_noticed(lookalike, photos, trained, tmp_path):
    """Labels of other pictures than those that were tested would be compared."""
    home = tmp_path / "photos"
    shutil.copytree(photos, home)
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    config = (run / "config.yaml").read_text()
    assert str(photos) in config
    (run / "config.yaml").write_text(config.replace(str(photos), str(home)))
    (home / "white" / "4.png").unlink()
    done = lookalike("mislabelled", run)
    assert (done.returncode, done.stdout) == (1, "")
    assert "are not those that" in done.stderr
