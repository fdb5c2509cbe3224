import json
import re
from html.parser import HTMLParser

import pytest
import torch

from lookalike.compare.contenders import gather
from lookalike.errors import BadInput
from lookalike.report import write_page
from lookalike.report.descriptions import software, study_file, training_commands
from lookalike.shipped import shipped_folder
from lookalike.study.config import load_study


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
    assert sorted(path.name for path in page.parent.iterdir()) == [
        "index.csv", "index.differences.svg", "index.html", "index.md", "index.svg", "index.tex",
    ]  # fmt: skip
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
    names = [trace.get("name") for trace in data["figures"]["validation-0"]["data"][:2]]
    assert set(names) == {"contrastive", "&lt;/script&gt;&lt;b&gt;proxy &amp; |anchor|"}


def test_protocol_is_said(tags, three_runs):
    images = three_runs[0].result["test_images"]
    assert (
        "Trained on 1,000 classes, epoch chosen by MAP@R on validation classes, "
        f"tested once on 60 unseen classes ({images} images)."
    ) in tags.words


def test_one_training_each_is_compared_by_classes_and_says_so(text, tags):
    words = " ".join("".join(tags.words).split())
    assert "over the 60 test classes alone: with one training run of each method" in words
    assert "lower, these runs only" in words
    assert 'id="differences-0"' in text
    assert "60 test classes of glyphs, each by one training run of every method" in words


def test_gallery_shows_both_kinds_with_marks(tags):
    figures = [attributes["class"] for tag, attributes in tags.found if tag == "figure"]
    shots = [kind for kind in figures if kind.startswith("shot")]
    marks = [
        a["href"] for tag, a in tags.found if tag == "use" and a["href"] in ("#right", "#wrong")
    ]
    assert shots.count("shot right") > 0
    assert shots.count("shot wrong") > 0
    # One mark for each neighbour, two of the key, one of the verdict.
    assert len(marks) == len([s for s in shots if s != "shot query"]) + 3
    assert all(a["alt"] for tag, a in tags.found if tag == "img")


def test_map_has_a_layout_for_each_run(text, three_runs):
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL).group(1))
    data = data["maps"]["0"]
    assert len(data["layouts"]) == len(three_runs)
    assert {len(layout["x"]) for layout in data["layouts"]} == {len(data["numbers"])}
    assert max(data["numbers"]) + 1 == len(data["classes"]) <= 36


def test_footer_tells_how_to_get_it_again(tags, three_runs):
    words = "".join(tags.words)
    assert "lookalike train a.yaml\nlookalike train b.yaml" in words
    assert f"torch {torch.__version__.partition('+')[0]}" in words
    assert three_runs[1].run.folder.name in words
    assert str(three_runs[1].run.folder.parent) not in words


def test_the_same_runs_give_the_same_page(three_runs, gathered, text, tmp_path):
    again, *_ = write_page(
        tmp_path / "again.html",
        gathered(three_runs),
        "A title with <angles>",
        "A lead.",
        commands=["lookalike train a.yaml", "lookalike train b.yaml"],
    )
    assert again.read_text(encoding="utf-8") == text


@pytest.fixture
def written(gathered, tmp_path):
    def write(*runs, **options):
        page = write_page(tmp_path / "p.html", gathered(runs), "T", "L", **options)[0]
        return page.read_text(encoding="utf-8")

    return write


def test_an_untrained_network_alone(make_run, written):
    text = written(make_run("bare", epochs=0))
    assert "Not trained at all; tested once on 60 unseen classes" in text
    assert 'id="training"' not in text
    assert 'id="better"' not in text
    assert 'id="published"' not in text


def test_no_validation_is_said(make_run, written):
    text = written(make_run("a", chosen_epoch=None))
    assert "Trained on 1,000 classes, no epoch chosen; tested once, after the last epoch" in text


def test_collapsed_embeddings_still_give_a_page(make_run, three_runs, written):
    same = torch.ones(three_runs[0].result["test_images"], 4)
    text = written(make_run("a", embeddings=same))
    assert "NaN" not in re.search(r'id="data">(.*?)</script>', text, re.DOTALL).group(1)


def test_other_images_are_flagged_and_not_pictured(make_run, three_runs, written):
    text = written(three_runs[1], make_run("x", data_fingerprint="other"))
    assert "Data set: glyphs (" in text
    assert "Not ranked: the rows differ beyond the method" in text
    assert "No pictures of x: the images of" in text


def test_a_page_without_pictures(make_run, written):
    untested = make_run("x")
    (untested.run.folder / "test.safetensors").unlink()
    text = written(untested)
    assert 'id="neighbours"' not in text
    assert 'id="map"' not in text
    assert 'id="training"' in text


def test_unfair_rows_say_how_they_differ(make_run, written):
    runs = [make_run("a"), make_run("b", overrides=["model.dim=512"])]
    text = written(*runs)
    assert "Embedding size: 128 (a); 512 (b)." in text
    assert "(best)" not in text
    assert "Ranked although it is not fair" in written(*runs, allow_unfair=True)


def test_only_html_is_written(gathered, make_run, tmp_path):
    with pytest.raises(BadInput, match="must end in"):
        write_page(tmp_path / "page.pdf", gathered([make_run("a")]), "T", "L")
    assert list(tmp_path.iterdir()) == []


def test_a_study_is_repeated_by_its_command_file_and_version(make_study, tmp_path):
    found = gather([make_study(tmp_path / "s")])
    (command,) = training_commands(found)
    assert command.startswith(f"lookalike study run {found.studies[0].name}.yaml")
    assert software().startswith("lookalike 0.")
    (kept,) = gather([shipped_folder("results") / "laptop-reality-check"]).studies
    (tmp_path / "again.yaml").write_text(study_file(kept))
    assert load_study(tmp_path / "again.yaml").name == "laptop-reality-check"
