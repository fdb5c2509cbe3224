"""One process at a time works on a run, however many take its lock and leave without writing."""

import multiprocessing
import os
from contextlib import suppress

import pytest

from lookalike.errors import BadInput
from lookalike.runs.run import Run, RunIsBusy

ENTRIES = 150


def enter_often(folder, together):
    """Enter and leave; a second process inside at the same time leaves a note."""
    inside = folder.parent / "inside"
    entered = 0
    while entered < ENTRIES:
        with suppress(RunIsBusy), Run(folder).locked():
            entered += 1
            try:
                os.close(os.open(inside, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                together.set()
                return
            os.unlink(inside)


def test_processes_that_write_nothing_are_never_together(tmp_path):
    (tmp_path / "runs").mkdir()
    fork = multiprocessing.get_context("fork")
    together = fork.Event()
    folder = tmp_path / "runs" / "a-run"
    workers = [fork.Process(target=enter_often, args=(folder, together)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert not together.is_set()
    assert not folder.exists()


def test_a_run_with_a_link_inside_is_not_written_to(tmp_path):
    precious = tmp_path / "home" / "documents"
    precious.mkdir(parents=True)
    run = Run(tmp_path / "runs" / "stranger")
    run.folder.mkdir(parents=True)
    run.checkpoints.symlink_to(precious.parent)
    with pytest.raises(BadInput, match="checkpoints' is a symbolic link"), run.locked():
        pass
    assert precious.is_dir()
