"""Compiled inner loops. Importing this module imports numba."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile at the first call, keep the result on disk, and release the interpreter lock."""
    compile_it: Any = numba.njit(nogil=True, cache=True, error_model="numpy")
    fast: Function = compile_it(function)
    return fast
