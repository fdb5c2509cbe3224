"""A limit of the address space (``ulimit -v``) that is too small for our libraries is a sentence.

A large library that is loaded without room for all of it aborts the process, or leaves a part of
itself that fails later, in any way. So another process loads it first.
"""

import resource
import subprocess
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

from lookalike.errors import LookalikeError

__all__ = ["try_libraries_first"]

TRAINING = ("lookalike.training.runner", "numba", "sklearn", "pillow_heif")
SEARCH = (*TRAINING, "faiss", "pyarrow.dataset")
LOADED = {"torch": TRAINING, "faiss": SEARCH, "pyarrow": SEARCH}
"""By the module whose import begins it: what is loaded from then on."""
ROOM = 2**29
"""What there must be besides, for the work itself."""
TRY = """
import contextlib, importlib, mmap, sys
for name in sys.argv[2:]:
    with contextlib.suppress(ModuleNotFoundError):  # not all extras are installed
        importlib.import_module(name)
mmap.mmap(-1, int(sys.argv[1]))
"""


class _TryFirst(MetaPathFinder):
    """Finds no module; only notices that one is about to be imported."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left = dict(LOADED)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - of the interface
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> None:
        """Leave the module to the other finders, if there is room for it."""
        modules = self._left.pop(fullname, ())
        if not modules:
            return
        tried = subprocess.run(
            [sys.executable, "-P", "-c", TRY, str(ROOM), *modules], capture_output=True, check=False
        )
        if tried.returncode != 0:
            raise LookalikeError(
                "there is not enough memory: the libraries cannot be loaded within the "
                f"{self._limit / 2**30:.1f} GB of address space that a process may have here; "
                "raise the limit ('ulimit -v')"
            )


def try_libraries_first() -> None:
    """Where the address space is limited, refuse to import what does not fit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        sys.meta_path.insert(0, _TryFirst(limit))
