"""Commands whose address space is limited: they end in a sentence."""

import resource
import subprocess
import sys

import pytest

TRAIN = ["train", "data.name=glyphs", "train.epochs=0", "model.dim=8"]


def limited(megabytes, *arguments, cwd):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (megabytes * 2**20, resource.RLIM_INFINITY))

    return subprocess.run(
        [sys.executable, "-m", "lookalike", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        preexec_fn=limit,
        check=False,
    )


@pytest.mark.parametrize("megabytes", [400, 1500, 2900, 2950, 3100])
def test_libraries_without_room_are_a_sentence(megabytes, tmp_path):
    done = limited(megabytes, *TRAIN, f"runs_dir={tmp_path / 'runs'}", cwd=tmp_path)
    if done.returncode == 0:  # libraries that need less
        return
    assert done.returncode == 1
    assert done.stderr.startswith("lookalike: there is not enough memory: the libraries")
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_what_needs_no_libraries_is_not_refused(tmp_path):
    done = limited(500, "list", "recipes", "metrix", "cub", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_with_room_it_trains(tmp_path):
    done = limited(60_000, *TRAIN, f"runs_dir={tmp_path / 'runs'}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
