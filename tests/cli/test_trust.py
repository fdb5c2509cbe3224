"""A stranger's run, study, model or folder: no command imports what it names."""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from lookalike.config import load_trusted
from lookalike.runs.run import RUN_MARK, Run
from lookalike.training import train

STRANGER = """
from pathlib import Path
Path(__file__).with_name("executed").touch()
def f(*_, **__): ...
"""
NAMING: dict[str, dict[str, object]] = {
    "data": {"data.name": "stranger:f"},
    "transform": {"data.transform": "stranger:f"},
    "preset": {"data.transform.preset": "stranger:f"},
    "network": {"model.network": "stranger:f"},
    "parts": {
        "loss.label_comparison": "stranger:f",
        "loss.reducer": {"name": "stranger:f"},
        "miner.name": "stranger:f",
        "sampler.name": "stranger:f",
        "protocol.metrics": ["stranger:f"],
    },
}
READING = (
    ["report", "RUN", "-o", "OUT/page.html"],
    ["compare", "RUN", "COPY"],
    ["evaluate", "RUN"],
    ["export", "RUN", "-o", "OUT/model"],
    ["embed", "RUN", "PICTURES", "-o", "OUT/vectors"],
    ["index", "RUN", "PICTURES", "-o", "OUT/my.index"],
    ["train", "--all-classes", "RUN"],
    ["train", "RUN/config.yaml", "train.epochs=2"],
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run."""
    folder = tmp_path_factory.mktemp("runs")
    settings = ["model.dim=8", "train.epochs=1", "train.batches_per_epoch=1", "train.device=cpu"]
    return train(load_trusted(None, [*settings, f"runs_dir={folder}"]))


def set_key(run: Run, key: str, value: object) -> None:
    """Change a setting of a run."""
    path = run.folder / "config.yaml"
    settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    *sections, last = key.split(".")
    place = settings
    for name in sections:
        place[name] = place[name] if isinstance(place.get(name), dict) else {}
        place = place[name]
    place[last] = value
    text = yaml.safe_dump(settings, sort_keys=False)
    path.write_text(f"{RUN_MARK}\n{text}", encoding="utf-8")


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """A current folder with a module that shows that it was imported."""
    (tmp_path / "stranger.py").write_text(STRANGER, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("stranger", None)


@pytest.mark.parametrize("settings", NAMING.values(), ids=NAMING)
def test_no_command_imports_what_a_run_names(stranger, finished, lookalike, pictures, settings):
    run = Run(stranger / "runs" / finished.folder.name)
    shutil.copytree(finished.folder, run.folder)
    copy = stranger / "runs" / "copy"
    shutil.copytree(finished.folder, copy)
    for key, value in settings.items():
        set_key(run, key, value)
        set_key(Run(copy), key, value)
    places = {"RUN": run.folder, "COPY": copy, "PICTURES": pictures, "OUT": stranger / "out"}
    for command in READING:
        typed = command
        for name, path in places.items():
            typed = [part.replace(name, str(path)) for part in typed]
        done = lookalike(*typed)
        assert not (stranger / "executed").exists(), command
        if done.returncode:
            assert done.returncode in (1, 2), done.stderr
            assert done.stderr.count("lookalike: ") == 1


def test_what_needs_the_code_says_how_to_go_on(stranger, finished, lookalike):
    run = Run(stranger / "runs" / finished.folder.name)
    shutil.copytree(finished.folder, run.folder)
    set_key(run, "data.name", "stranger:f")
    for command in (["evaluate", run.folder], ["train", run.folder / "config.yaml"]):
        done = lookalike(*command)
        assert done.returncode == 2
        assert "add '--trust stranger:f'" in done.stderr
    assert not (stranger / "executed").exists()
    lookalike("evaluate", run.folder, "--trust", "stranger:f")
    assert (stranger / "executed").exists()


def test_a_name_that_is_typed_or_in_a_recipe_is_imported(stranger, lookalike):
    lookalike("train", "loss.name=stranger:f")
    assert (stranger / "executed").exists()
    (stranger / "executed").unlink()
    sys.modules.pop("stranger")
    (stranger / "mine.yaml").write_text("loss: {name: 'stranger:f'}", encoding="utf-8")
    os.environ["LOOKALIKE_TRUST"] = ""
    lookalike("train", "mine.yaml")
    assert (stranger / "executed").exists()


def test_a_run_that_extends_a_file_elsewhere_does_not_read_it(stranger, finished, lookalike):
    run = Run(stranger / "runs" / finished.folder.name)
    shutil.copytree(finished.folder, run.folder)
    (stranger / "secret.yaml").write_text("password: rosebud", encoding="utf-8")
    set_key(run, "extends", str(stranger / "secret.yaml"))
    done = lookalike("export", run.folder, "-o", stranger / "model")
    assert done.returncode == 2
    assert "rosebud" not in done.stderr
    assert "there is no key 'extends'" in done.stderr


@pytest.mark.parametrize("row", [{"data": {"name": "stranger:f"}}, {"transform": "stranger:f"}])
def test_no_command_imports_what_a_study_names(stranger, lookalike, row):
    shipped = Path(__file__).parents[2] / "results" / "cub-last-stage"
    study = stranger / "study"
    shutil.copytree(shipped, study)
    with closing(sqlite3.connect(study / "study.db")) as database, database:
        for key, value in row.get("data", row).items():
            change = f"UPDATE rows SET settings = json_set(settings, '$.config.data.{key}', ?)"
            database.execute(change, (value,))
    for command in (["report", study, "-o", stranger / "page.html"], ["compare", study]):
        lookalike(*command)
        assert not (stranger / "executed").exists()


@pytest.mark.parametrize(
    "start", [["-m", "lookalike"], ["-c", "from lookalike.cli import main; main()"]]
)
def test_a_module_in_the_current_folder_replaces_no_library(tmp_path, start):
    for name in ("torch", "typer", "rich", "stranger"):
        (tmp_path / f"{name}.py").write_text(STRANGER, encoding="utf-8")
    flags = ["-P"] if start[0] == "-c" else []  # as for an installed script
    for arguments in (["list", "losses"], ["train", "loss.name=stranger:f"]):
        done = subprocess.run(
            [sys.executable, *flags, *start, *arguments],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        assert (tmp_path / "executed").exists() is (arguments[0] == "train")
        assert done.returncode == (2 if arguments[0] == "train" else 0)


STARTER = """
import multiprocessing
from lookalike.cli import main

if __name__ == "__main__":
    try:
        main()
    except SystemExit:
        pass
    process = multiprocessing.get_context("spawn").Process(target=print)
    process.start()
    process.join()
"""


def test_a_module_in_the_current_folder_replaces_none_in_processes_that_are_started(tmp_path):
    """Those of a server's workers and of libraries begin by ``python -c``."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "start.py").write_text(STARTER, encoding="utf-8")
    for name in ("multiprocessing", "pickle", "socket", "struct"):
        (tmp_path / f"{name}.py").write_text(STRANGER, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, tmp_path / "bin" / "start.py", "--version"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("config.yaml", "pipe"),
        ("config.yaml", "holes"),
        ("result.json", "pipe"),
        ("result.json", "holes"),
        ("metrics.jsonl", "pipe"),
        ("classes.csv", "pipe"),
    ],
)
def test_no_command_waits_for_a_pipe_in_a_run_or_reads_a_terabyte(
    tmp_path, finished, lookalike, name, kind
):
    run = tmp_path / finished.folder.name
    shutil.copytree(finished.folder, run)
    (run / name).unlink()
    if kind == "pipe":
        os.mkfifo(run / name)
    else:
        with (run / name).open("wb") as file:
            file.truncate(2**40)
    for command in (["compare", run], ["evaluate", run], ["train", run / "config.yaml"]):
        done = lookalike(*command)
        assert "Traceback" not in done.stderr
        assert done.returncode in (0, 1, 2)


PLANTED = """
#include <stdio.h>
__attribute__((constructor)) static void run(void) { fclose(fopen("executed", "w")); }
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a compiler")
def test_a_shared_library_in_the_current_folder_is_not_loaded(tmp_path):
    """A library of the wheels of torch looks for this one in the current folder, too."""
    source = tmp_path / "planted.c"
    source.write_text(PLANTED.replace("executed", str(tmp_path / "executed")), encoding="utf-8")
    command = ["gcc", "-shared", "-fPIC", "-o", tmp_path / "libcuda.so.1", source]
    subprocess.run(command, check=True)
    done = subprocess.run(
        [sys.executable, "-P", "-c", "import lookalike, torch, os; print(os.getcwd())"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == str(tmp_path)
    assert not (tmp_path / "executed").exists()


COMPILING = """
import lookalike
from lookalike.ops.compiled import compiled
import numba.core.config as config

@compiled
def double(x):
    return 2 * x

assert double(2) == 4
print(repr(config.CACHE_DIR), config.DISABLE_JIT)
"""


def test_settings_of_numba_in_the_current_folder_are_not_read(tmp_path):
    """They could name a folder of pickles as its cache."""
    settings = f"cache_dir: {tmp_path / 'cache'}\ndisable_jit: 1\n"
    (tmp_path / ".numba_config.yaml").write_text(settings, encoding="utf-8")
    (tmp_path / "code").mkdir()
    script = tmp_path / "code" / "script.py"
    script.write_text(COMPILING, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")},
    )  # fmt: skip
    assert done.stdout.strip() == "'' 0", done.stderr
    assert not (tmp_path / "cache").exists()
