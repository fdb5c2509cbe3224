"""Labels and names of strangers: a terminal shows their control characters and obeys none."""

import logging
import re
import sys
import warnings

import pytest
from PIL import Image

from lookalike.errors import LookalikeWarning, escaped
from lookalike.progress import ConsoleWatcher, EscapedStream
from lookalike.serve.monitoring import Formatter

HOSTILE = "cat\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


@pytest.fixture
def hostile(tmp_path):
    """Classes and files with names that a terminal would obey."""
    for label, colour in ((HOSTILE, "red"), ("dog\x1b[31m", "blue"), ("cow\r", "green")):
        (tmp_path / "photos" / label).mkdir(parents=True)
        for number in range(4):
            picture = Image.new("RGB", (32, 32), colour)
            picture.putpixel((number, 0), (1, 2, 3))
            picture.save(tmp_path / "photos" / label / f"{number}\x1b[2K.png")
        (tmp_path / "photos" / label / "broken\x1b[5m.png").write_bytes(b"no picture")
    return tmp_path


def test_no_command_prints_a_control_character(hostile, lookalike):
    photos, index = hostile / "photos", hostile / "my.index"
    network = ["--network", "small-cnn", "--weights", "none"]
    commands = (
        ["data", "check", "folder", "--root", photos],
        ["train", "data.name=folder", f"data.root={photos}"],
        ["index", *network, photos, "-o", index],
        ["search", index, photos / HOSTILE / "0\x1b[2K.png"],
        ["search", index, photos / "nothing\x1b[2J.png"],
        ["search", index, photos / HOSTILE / "0\x1b[2K.png", "--where", f"label={HOSTILE}"],
        ["duplicates", index],
        ["mislabelled", index],
        ["evaluate", hostile / "no\x1b[2Jrun"],
        ["report", hostile / "no\x1b[2Jrun"],
    )
    shown = ""
    for command in commands:
        done = lookalike(*command)
        assert not OBEYED.search(done.stdout + done.stderr), command
        assert "Traceback" not in done.stderr
        shown += done.stdout + done.stderr
    assert "\\x1b]0;owned\\x07" in shown


def test_line_ends_tabs_and_letters_stay():
    assert escaped("a\tb\nçé日本 👩\u200d🚀") == "a\tb\nçé日本 👩\u200d🚀"
    assert escaped(HOSTILE) == r"cat\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"


def test_a_command_calls_its_output_no_terminal(capsys):
    import sys

    stream = EscapedStream(sys.stdout)
    assert not stream.isatty()
    print(HOSTILE, file=stream)
    stream.writelines([HOSTILE])
    assert not OBEYED.search(capsys.readouterr().out)


def test_notes_and_warnings(capsys):
    with ConsoleWatcher() as watcher:
        watcher.note(HOSTILE)
    assert not OBEYED.search(capsys.readouterr().err)
    from lookalike.cli.console import safely

    safely(lambda: warnings.showwarning(LookalikeWarning(HOSTILE), LookalikeWarning, "f", 1))(
        trusted=None
    )
    assert not OBEYED.search(capsys.readouterr().err)


@pytest.mark.parametrize("kind", ["human", "json"])
def test_a_line_of_the_servers_log_shows_control_characters(kind):
    """Workers write to standard error themselves, and errors repeat names of an index."""
    record = logging.LogRecord("x", logging.ERROR, "x", 1, HOSTILE, None, None)
    record.fields = {"route": HOSTILE, "status": 1, "method": HOSTILE, "ms": 1, "request": HOSTILE}
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        record.exc_info = sys.exc_info()
    line = Formatter(kind).format(record)
    assert "owned" in line
    assert not OBEYED.search(line)
