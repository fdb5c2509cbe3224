"""The password of a database is in nothing that any command prints, by success or by failure."""

import json

import pytest
import typer

from lookalike.cli.commands import app
from tests.conftest import PLAIN, SECRET


def leaves(command=None, path=()):
    """The names of every command."""
    command = command or typer.main.get_command(app)
    for name, one in getattr(command, "commands", {}).items():
        found = list(leaves(one, (*path, name)))
        yield from found or [(*path, name)]


def clean(done):
    """What a command printed, after a look for the password and its parts."""
    shown = done.stdout + done.stderr
    for part in (SECRET, PLAIN, "hunter2"):
        assert part not in shown, shown
    return done


@pytest.mark.parametrize("form", [0, 1])
def test_commands_that_use_the_database_work_and_show_no_password(
    lookalike, keyed, photos, trained, tmp_path, form
):
    place = f"{keyed[form]}#secret{form}"
    query = next(photos.rglob("*.png"))
    done = clean(lookalike("index", trained, photos, "--store", place))
    assert done.returncode == 0, done.stderr
    assert "next: lookalike search postgresql://" in done.stderr
    done = clean(lookalike("index", "add", place, photos, "--json"))
    assert json.loads(done.stdout)["index"].startswith("postgresql://")
    for arguments in (
        ("index", "show", place),
        ("index", "show", place, "--json"),
        ("index", "check", place, "--files"),
        ("index", "check", place, "--json"),
        ("index", "compact", place),
        ("index", "remove", place, query.name, "--json"),
        ("index", "remove", place, "--missing"),
        ("search", place, query),
        ("search", place, query, "--json"),
        ("duplicates", place),
        ("mislabelled", place),
        ("embed", trained, photos, "-o", f"{keyed[form]}#other{form}"),
        ("index", trained, photos, "--store", place),  # it is there already
        ("index", "show", f"{keyed[form]}#nothing"),
        ("search", place, query, "--where", "nonsense"),
    ):
        clean(lookalike(*arguments))


@pytest.mark.parametrize("command", leaves(), ids=" ".join)
def test_every_command_that_is_given_an_address_shows_no_password(
    lookalike, command, tmp_path, monkeypatch
):
    """Where it belongs and where it does not: the server is not there."""
    monkeypatch.chdir(tmp_path)
    for place in (
        f"postgresql://me:{SECRET}@127.0.0.1:1/shop#photos",
        "postgresql://me:hunter2@hunter2/@127.0.0.1:1/shop",
        f"postgresql://127.0.0.1:1/shop?password={SECRET}",
    ):
        for arguments in (
            [place],
            [place, place, place],
            ["--no-such-option", place],
            [f"--storage={place}"],
            [f"--store={place}", "x"],
            [f"data.root={place}"],
        ):
            clean(lookalike(*command, *arguments))
