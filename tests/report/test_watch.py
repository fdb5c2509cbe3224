"""The live page of a study."""

import socket
import sqlite3
import struct
import threading
import urllib.error
import urllib.parse
import urllib.request
from contextlib import closing

import pytest

from lookalike.errors import BadInput
from lookalike.report.watch import LivePage, serve_page


def forget(folder, rows):
    """Take the tasks of some rows out of a study."""
    with closing(sqlite3.connect(folder / "study.db")) as study, study:
        study.execute("PRAGMA foreign_keys = ON")
        study.execute(f"DELETE FROM tasks WHERE row IN (SELECT id FROM rows WHERE {rows})")


def test_the_page_is_served_and_made_again_when_results_change(make_study, tmp_path):
    folder = make_study(tmp_path / "s")
    ready, address = threading.Event(), []

    def told(where):
        address.append(where)
        ready.set()

    def page():
        return urllib.request.urlopen(address[0], timeout=60).read().decode()

    served = LivePage(folder, seconds=7)
    threading.Thread(target=serve_page, args=(served, 0, told), daemon=True).start()
    assert ready.wait(10)
    text = page()
    assert '<meta http-equiv="refresh" content="7">' in text
    assert "Study: " in text
    assert ">triplet<" in text
    assert page() == text
    forget(folder, "label = 'triplet'")
    assert ">triplet<" not in page()
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(address[0] + "etc/passwd", timeout=10)


def test_before_the_first_score_the_status_is_shown(make_study, tmp_path):
    folder = make_study(tmp_path / "s")
    forget(folder, "true")
    text = LivePage(folder).html().decode()
    assert "No scores yet" in text
    assert "trials" in text
    assert 'http-equiv="refresh"' in text


def test_a_folder_without_a_study_is_refused(tmp_path):
    with pytest.raises(BadInput, match="does not hold a study yet"):
        LivePage(tmp_path)


def test_only_names_of_this_machine_are_answered(make_study, tmp_path):
    page = LivePage(make_study(tmp_path / "study"))
    told = []
    threading.Thread(target=serve_page, args=(page, 0, told.append), daemon=True).start()
    while not told:
        pass
    request = urllib.request.Request(told[0], headers={"Host": "evil.example"})
    with pytest.raises(urllib.error.HTTPError, match="400"):
        urllib.request.urlopen(request)
    with urllib.request.urlopen(told[0]) as answer:
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_a_browser_that_leaves_is_no_news(make_study, tmp_path, capfd):
    """It resets its connection: that is no traceback."""
    page = LivePage(make_study(tmp_path / "study"))
    ready, told = threading.Event(), []
    thread = threading.Thread(
        target=serve_page, args=(page, 0, lambda at: (told.append(at), ready.set())), daemon=True
    )
    thread.start()
    assert ready.wait(10)
    at = urllib.parse.urlsplit(told[0])
    for _ in range(3):
        left = socket.create_connection((at.hostname, at.port), 10)
        left.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        left.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        left.close()  # with a reset
    assert urllib.request.urlopen(told[0], timeout=60).status == 200
    assert capfd.readouterr().err == ""
