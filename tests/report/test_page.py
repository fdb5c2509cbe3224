import json
import re
from html.parser import HTMLParser

import pytest
import torch

from lookalike.errors import BadInput, LookalikeError
from lookalike.report import ReportRun, write_page
from lookalike.training import Run


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = []
        self.words = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture(scope="module")
def text(page):
    return page.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def tags(text):
    return Tags(
        re.sub(r"<script( type=.text/plain.[^>]*)?>.*?</script>", "", text, flags=re.DOTALL)
    )


def test_one_file_of_bearable_size(page):
    assert page.name == "index.html"
    assert [path.name for path in page.parent.iterdir()] == ["index.html"]
    assert page.stat().st_size < 15e6


def test_nothing_is_fetched(tags):
    for tag, attributes in tags.found:
        for key in ("src", "href", "srcset", "data"):
            value = attributes.get(key)
            if value is not None:
                assert value.startswith(("data:", "#")), (tag, value)
    policy = next(a["content"] for t, a in tags.found if "content-security" in str(a).lower())
    assert policy.startswith("default-src 'none'")


def test_names_cannot_break_out(text, tags, three_runs):
    assert three_runs[2].name not in text
    assert ("b", {}) not in tags.found
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL).group(1))
    assert [method["name"] for method in data["methods"]] == [
        run.name for run in (*three_runs[1:], three_runs[0])
    ]


def test_protocol_is_said(tags, glyphs, three_runs):
    held_out = len({*glyphs.labels[~glyphs.test].tolist()}) - 1_000
    images = three_runs[0].result["test_images"]
    assert (
        f"Trained on 1,000 classes, epoch chosen by MAP@R on {held_out} validation classes, "
        f"tested once on 60 unseen classes ({images} images)."
    ) in tags.words


def test_gallery_shows_both_kinds_with_marks(tags):
    shots = [attributes["class"] for tag, attributes in tags.found if tag == "figure"]
    marks = [
        a["href"] for tag, a in tags.found if tag == "use" and a["href"] in ("#right", "#wrong")
    ]
    assert shots.count("shot right") > 0
    assert shots.count("shot wrong") > 0
    # One mark for each neighbour, and the two of the key.
    assert len(marks) == len([s for s in shots if s != "shot query"]) + 2
    assert all(a["alt"] for tag, a in tags.found if tag == "img")


def test_map_has_a_layout_for_each_run(text, three_runs):
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL).group(1))["map"]
    assert len(data["layouts"]) == len(three_runs)
    assert {len(layout["x"]) for layout in data["layouts"]} == {len(data["numbers"])}
    assert max(data["numbers"]) + 1 == len(data["classes"]) <= 36


def test_footer_tells_how_to_get_it_again(tags, three_runs):
    words = "".join(tags.words)
    assert "lookalike train a.yaml\nlookalike train b.yaml" in words
    assert f"torch {torch.__version__.partition('+')[0]}" in words
    assert three_runs[1].run.folder.name in words
    assert str(three_runs[1].run.folder.parent) not in words


def test_the_same_runs_give_the_same_page(three_runs, text, tmp_path):
    again = write_page(
        tmp_path,
        [ReportRun(run.name, run.run) for run in three_runs],
        "A title with <angles>",
        "A lead.",
        commands=["lookalike train a.yaml", "lookalike train b.yaml"],
    )
    assert again.read_text(encoding="utf-8") == text


def test_an_untrained_network_alone(make_run, tmp_path):
    text = write_page(tmp_path, [make_run("bare", epochs=0)], "T", "L").read_text()
    assert "Not trained at all; tested once on 60 unseen classes" in text
    assert 'id="training"' not in text


def test_no_validation_is_said(make_run, tmp_path):
    text = write_page(tmp_path, [make_run("a", chosen_epoch=None)], "T", "L").read_text()
    assert "Trained on 1,000 classes, no epoch chosen; tested once, after the last epoch" in text


def test_collapsed_embeddings_still_give_a_page(make_run, three_runs, tmp_path):
    same = torch.ones(three_runs[0].result["test_images"], 4)
    text = write_page(tmp_path, [make_run("a", embeddings=same)], "T", "L").read_text()
    assert "NaN" not in re.search(r'id="data">(.*?)</script>', text, re.DOTALL).group(1)


def test_runs_that_cannot_be_compared_are_refused(make_run, three_runs, tmp_path):
    with pytest.raises(BadInput, match="different data"):
        write_page(tmp_path, [three_runs[1], make_run("x", data_fingerprint="other")], "T", "L")
    with pytest.raises(LookalikeError, match="not those"):
        write_page(tmp_path, [make_run("x", data_fingerprint="other")], "T", "L")
    untested = make_run("x")
    (untested.run.folder / "test.safetensors").unlink()
    with pytest.raises(BadInput, match="was not tested"):
        write_page(tmp_path, [untested], "T", "L")
    with pytest.raises(BadInput, match="no config"):
        write_page(tmp_path, [ReportRun("x", Run(tmp_path))], "T", "L")
    assert not (tmp_path / "index.html").exists()
