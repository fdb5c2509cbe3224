"""Ctrl-C, SIGTERM and SIGHUP at any moment: one sentence, exit code 130, nothing half-written."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lookalike.cli import app
from tests.chaos.works import findings
from tests.commands import Command, handles_signals

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SENTENCES = (
    "lookalike: stopped; the same command",
    "lookalike: stopped; 'lookalike index add ",
    "lookalike: stopped at step ",
)
TINY = (
    *("model.network=small-cnn", "model.weights=none", "model.dim=8", "data.transform=small"),
    *("sampler.name=random", "sampler.batch_size=4", "train.epochs=500", "protocol.name=paper"),
)


def start(arguments, folder, ignored=()):
    """The command in a process that heeds signals, as a terminal starts it."""
    cache = str(folder / "cache")
    return Command(*arguments, cwd=folder, ignored=ignored, LOOKALIKE_CACHE=cache)


def assert_stopped(process, told):
    assert process.returncode == 130, told
    lines = [line for line in told.splitlines() if line.startswith(SENTENCES)]
    assert len(lines) == 1, told
    assert "Traceback" not in told
    assert "Exception ignored" not in told


def drafts(folder):
    """What was begun and not finished."""
    names = (path.name for path in folder.rglob(".*") if path.is_file())
    return [name for name in names if name != ".lock"]


def commands(photos, trained, shop):
    return {
        "list": ["list", "losses"],
        "search": ["search", shop, photos / "red" / "0.png"],
        "duplicates": ["duplicates", shop],
        "mislabelled": ["mislabelled", shop],
        "index": ["index", trained, photos, "-o", "new.index"],
        "evaluate": ["evaluate", trained],
        "train": ["train", *TINY, "data.name=folder", f"data.root={photos}", "runs_dir=runs"],
        "serve": ["serve", shop, "--port", "0"],
        "study": ["study", "run", "recipe:studies/tiny", "--results", "study", "--workers", "2"],
        "reproduce": ["reproduce", "list"],
        "compare": ["compare", trained],
        "report": ["report", trained, "-o", "page.html"],
        "choose": ["choose", photos, "--minutes", "2"],
        "demo": ["demo"],
        "export": ["export", trained, "--to", "onnx", "-o", "model.onnx"],
        "audit": ["audit", "docs/audits/every-flaw.yaml"],
        "embed": ["embed", trained, photos, "-o", "vectors", "--per-shard", "4"],
        "data": ["data", "check", "folder", "--root", photos],
    }


def test_no_command_is_left_out():
    found = {command.name or command.callback.__name__ for command in app.registered_commands}
    found |= {group.name for group in app.registered_groups}
    assert found == set(NAMES)


NAMES = sorted(commands(Path(), Path(), Path()))


def test_ctrl_c_while_images_are_drawn(tmp_path):
    process = start(["train", "data.name=glyphs", "runs_dir=runs"], tmp_path)
    told = process.stop(signal.SIGINT, until=(tmp_path / "cache").exists)
    assert_stopped(process, told)
    assert told.splitlines() == ["lookalike: stopped; the same command starts again"]


@pytest.mark.parametrize("number", SIGNALS)
def test_during_the_imports(tmp_path, number):
    """In a Python of its own: the others have imported everything."""
    usual = "default_int_handler" if number == signal.SIGINT else "SIG_DFL"
    heed = f"import signal; signal.signal({number:d}, signal.{usual}); "
    program = heed + "from lookalike.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", program, "list", "losses"], stderr=subprocess.PIPE, text=True,
        stdout=subprocess.DEVNULL, cwd=tmp_path,
    ) as process:  # fmt: skip
        while not handles_signals(process.pid):
            time.sleep(0.001)
        time.sleep(0.05)
        process.send_signal(number)
        told = process.stderr.read()
    assert_stopped(process, told)


def test_an_index_that_was_begun_is_completed_by_add(tmp_path, photos, monkeypatch):
    """The same command would refuse the index that is there."""
    from lookalike.cli.index import create
    from lookalike.search import Index, ingest
    from lookalike.signals import Interrupted

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    place = tmp_path / "new.index"
    with monkeypatch.context() as patch:
        patch.setattr(ingest, "embed_into", interrupt)
        with pytest.raises(Interrupted, match=f"index add {place} {photos}' completes"):
            create([str(photos)], str(place), network="small-cnn", weights="none")
    index = Index.open(place)
    index.add(photos)
    assert len(index) > 0


def test_a_closed_terminal_saves_a_training_and_nohup_does_not_stop_it(tmp_path, photos):
    command = commands(photos, photos, photos)["train"]

    def logged():
        return any((tmp_path / "runs").glob("*/metrics.jsonl"))

    kept = start(command, tmp_path, ignored=(signal.SIGHUP,))
    while not logged():
        assert kept.returncode is None
        time.sleep(0.01)
    kept.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert kept.returncode is None
    told = kept.stop(signal.SIGTERM)
    assert "the same command resumes from there" in told
    assert_stopped(kept, told)
    assert list((tmp_path / "runs").glob("*/checkpoints/last.pt"))
    assert drafts(tmp_path / "runs") == []


def test_a_server_ends_as_other_commands(tmp_path, shop):
    process = start(["serve", shop, "--port", "0"], tmp_path)
    assert "http://" in process.stdout.readline()
    assert_stopped(process, process.stop(signal.SIGTERM, 0.2))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(4))
def test_at_any_moment(tmp_path, photos, trained, shop, name, seed):
    chosen = random.Random(f"{name} {seed}")
    process = start(commands(photos, trained, shop)[name], tmp_path)
    told = process.stop(chosen.choice(SIGNALS), chosen.uniform(0, chosen.choice((0.5, 3, 10))))
    finished = 1 if name == "audit" else 0  # an audit that finds flaws ends with 1
    said = any(line.startswith(SENTENCES) for line in told.splitlines())
    if process.returncode != finished or said:
        assert_stopped(process, told)
    assert "Traceback" not in told
    assert drafts(tmp_path) == []


@pytest.mark.slow
def test_a_study_that_was_stopped_resumes_and_loses_nothing(tmp_path):
    command = ["study", "run", "recipe:studies/tiny", "--workers", "2", "--results"]
    assert start([*command, "whole"], tmp_path).wait(600) == 0
    stopped = 0
    for seed, number in enumerate(SIGNALS):
        process = start([*command, "study"], tmp_path)
        told = process.stop(number, random.Random(seed).uniform(0, 4))
        if process.returncode:
            assert_stopped(process, told)
            stopped += 1
    assert stopped
    assert start([*command, "study"], tmp_path).wait(600) == 0
    assert findings(tmp_path / "study") == findings(tmp_path / "whole")
