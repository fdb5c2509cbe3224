"""Memory that one step frees is kept for the next."""

import ctypes
import os
import sys

__all__ = ["keep_freed_memory"]

TRIM_THRESHOLD, MMAP_MAX = -1, -4  # of glibc's <malloc.h>


def keep_freed_memory() -> bool:
    """Have glibc keep what is freed for this process; False where there is no glibc to ask.

    A step on the CPU needs the same large tensors as the one before. glibc gives those above 32 MB
    back to the system at once, and the kernel hands them out anew page by page, each filled with
    zeros, which can take as long as the arithmetic. The process stays as large as it ever was.
    Who has set glibc's own variables (``MALLOC_MMAP_MAX_``, ...) is left alone.
    """
    if any(name.startswith("MALLOC_") for name in os.environ):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    return mallopt is not None and bool(mallopt(MMAP_MAX, 0)) and bool(mallopt(TRIM_THRESHOLD, -1))
