"""The examples run, and the pages of the gallery show them as they are."""

import pytest

from website import gallery

EXAMPLES = sorted(gallery.EXAMPLES.glob("*.py"))
LONG = {"compare_three_losses", "fine_tune_a_folder", "two_processes"}


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in LONG else [])
        for path in EXAMPLES
    ],
)
def test_the_example_runs_and_its_page_is_up_to_date(example, tmp_path):
    page = gallery.run(example, tmp_path)
    stored = gallery.PAGES / f"{example.stem}.md"
    assert stored.is_file(), "make gallery"
    text = stored.read_text(encoding="utf-8")
    assert gallery.without_output(text) == gallery.without_output(page), "make gallery"
    pictures = {path.name for path in gallery.PAGES.glob(f"{example.stem}-*.png")}
    assert {path.name for path in tmp_path.iterdir()} == pictures


def test_every_page_has_an_example():
    assert len(EXAMPLES) >= 8
    assert {path.stem for path in gallery.PAGES.glob("*.md")} == {path.stem for path in EXAMPLES}


def test_a_page_begins_with_a_heading_and_a_sentence():
    for path in gallery.PAGES.glob("*.md"):
        title, about = gallery.title_of(path.read_text(encoding="utf-8"))
        assert len(title) < 60
        assert len(about) < 200
        assert about.endswith(".")
