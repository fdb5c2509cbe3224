"""The live page of a study."""

import os
import threading
import urllib.error
import urllib.request

import pytest

from lookalike.errors import BadInput
from lookalike.report import watch
from lookalike.report.watch import LivePage, serve_page


@pytest.fixture
def made(monkeypatch):
    """How often a page was made; a whole one takes seconds."""
    calls = []

    def write(path, gathered, title, lead, **_):
        calls.append(title)
        path.write_text(f"<html><head>{watch.HEAD}</head>{title}</html>")

    monkeypatch.setattr(watch, "write_page", write)
    return calls


def test_the_page_is_served_and_made_again_when_results_change(make_study, tmp_path, made):
    folder = make_study(tmp_path / "s")
    ready, address = threading.Event(), []

    def told(where):
        address.append(where)
        ready.set()

    page = LivePage(folder, seconds=7)
    threading.Thread(target=serve_page, args=(page, 0, told), daemon=True).start()
    assert ready.wait(10)
    text = urllib.request.urlopen(address[0], timeout=60).read().decode()
    assert '<meta http-equiv="refresh" content="7">' in text
    assert "Study: " in text
    urllib.request.urlopen(address[0], timeout=60).read()
    assert len(made) == 1
    os.utime(folder / "study.json", ns=(1, 1))
    urllib.request.urlopen(address[0], timeout=60).read()
    assert len(made) == 2
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(address[0] + "etc/passwd", timeout=10)


def test_before_the_first_score_the_status_is_shown(make_study, tmp_path, monkeypatch):
    folder = make_study(tmp_path / "s")

    def nothing(_):
        raise BadInput("there is nothing with test scores to compare")

    monkeypatch.setattr(watch, "gather", nothing)
    text = LivePage(folder).html().decode()
    assert "No scores yet" in text
    assert "trials" in text
    assert 'http-equiv="refresh"' in text


def test_a_folder_without_a_study_is_refused(tmp_path):
    with pytest.raises(BadInput, match="does not hold a study yet"):
        LivePage(tmp_path)
