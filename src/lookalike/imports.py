"""Libraries that look into the current folder are imported from another one.

The current folder may be a stranger's. A wheel that torch loads has an empty entry in its search
path (cuSPARSELt, ``$ORIGIN:``), so that a ``libcuda.so.1`` beside the data would be executed, and a
``.numba_config.yaml`` can name a folder of pickles, which numba would take for its cache.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

__all__ = ["import_libraries_elsewhere"]

LIBRARIES = ("torch", "numba")
SETTINGS_OF_NUMBA = "_config_fname"
"""What names the file that numba reads again whenever it compiles."""


class _Elsewhere(MetaPathFinder):
    """Finds what Python finds, and lets it be executed while the current folder is the root."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module, if it is one of these libraries."""
        if fullname not in LIBRARIES:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def execute_elsewhere(module: ModuleType) -> None:
                with _root_folder():
                    execute(module)
                if fullname == "numba":
                    setattr(sys.modules["numba.core.config"], SETTINGS_OF_NUMBA, os.devnull)

            loader.exec_module = execute_elsewhere
        return spec


@contextmanager
def _root_folder() -> Iterator[None]:
    try:
        here = os.open(".", getattr(os, "O_PATH", os.O_RDONLY))
    except OSError:  # it may not be entered: nothing is found in it
        yield
        return
    try:
        os.chdir("/")
        yield
    finally:
        os.fchdir(here)
        os.close(here)


def import_libraries_elsewhere() -> None:
    """Let the libraries that are imported from now on find nothing in the current folder."""
    sys.meta_path.insert(0, _Elsewhere())
