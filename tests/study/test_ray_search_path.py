"""Where the processes of Ray search for modules."""

import sys

import ray

from lookalike.study.ray import RayExecutor


def test_actors_do_not_search_the_current_folder_first(monkeypatch, tmp_path):
    """A module beside the data must not replace a library in the processes of Ray either."""
    monkeypatch.chdir(tmp_path)
    with RayExecutor(workers=1) as executor:

        def searched():
            return sys.path

        found = executor.ray.get(executor.ray.remote(searched).remote())
    assert not ray.is_initialized()
    assert str(tmp_path) not in found
    assert "" not in found
