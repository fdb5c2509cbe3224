"""Libraries that must not be imported just like that: torch and numba, and FAISS on macOS.

The current folder may be a stranger's. A wheel that torch loads has an empty entry in its search
path (cuSPARSELt, ``$ORIGIN:``), so that a ``libcuda.so.1`` beside the data would be executed, and a
``.numba_config.yaml`` can name a folder of pickles, which numba would take for its cache. They are
imported from the root folder.

On macOS torch, numba and FAISS each bring an OpenMP, and two that work at the same time crash the
process (github.com/faiss-wheels/faiss-wheels/issues/73): FAISS gets one thread there.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

__all__ = ["faiss_threads", "guard_imports"]

SETTINGS_OF_NUMBA = "_config_fname"
"""What names the file that numba reads again whenever it compiles."""


def faiss_threads(wanted: int) -> int:
    """How many threads FAISS may have."""
    return 1 if sys.platform == "darwin" else wanted


def _settle_numba() -> None:
    setattr(sys.modules["numba.core.config"], SETTINGS_OF_NUMBA, os.devnull)


def _settle_faiss() -> None:
    if sys.platform == "darwin":
        sys.modules["faiss"].omp_set_num_threads(1)


LIBRARIES: dict[str, Callable[[], object]] = {
    "torch": lambda: None,
    "numba": _settle_numba,
    "faiss": _settle_faiss,
}
"""What is guarded, and what is done once it is imported."""


class _Guard(MetaPathFinder):
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
                LIBRARIES[fullname]()

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


def guard_imports() -> None:
    """Let the libraries that are imported from now on be imported safely."""
    if sys.platform == "darwin":  # else the second OpenMP that is loaded ends the process
        os.environ.setdefault("KMP_DUPLICATE_LIB_OK", "TRUE")
    sys.meta_path.insert(0, _Guard())
