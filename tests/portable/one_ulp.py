"""A pytest plugin (``-p one_ulp``): every matrix product on the CPU is off by up to one ulp.

As another processor, or another BLAS, might compute it: the change follows from the position in the
result and its size, so that the same computation gives the same numbers again, and the same pair of
rows in another batch gives other ones. The unit is that of the terms' magnitudes, ``ulp(|a| |b|)``,
because that is how far sums in another order lie apart (where terms cancel, that is far more than
one ulp of the result). Sums that are exact in any order stay as they are: those with one term only,
and those of numbers with so few digits (whole numbers, say) that nothing is ever rounded.
"""

import warnings
from collections.abc import Callable
from math import inf
from typing import Any

import torch
from torch import Tensor

PRODUCTS = ["mm", "mv", "dot", "bmm", "addmm", "addmv", "baddbmm"]
"""What torch.matmul, linear layers, einsum and cdist are made of."""


def pytest_configure() -> None:
    """Put changed products in the place of torch's, in this process."""
    global library  # the changes last as long as it does
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings(action="ignore"):  # that there are other kernels already
        for name in PRODUCTS:
            kernel = torch.library.get_kernel(f"aten::{name}", "CPU")
            product = _changed(kernel.call_boxed)
            library.impl(name, product, "CPU", with_keyset=True)
            library.impl(f"{name}.out", _into(product), "CPU", with_keyset=True)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say that products were changed, and by how much."""
    rows = torch.arange(1, 1001, dtype=torch.float32).view(50, 20) / 1000
    off = (rows @ rows.T - (rows.double() @ rows.T.double())).abs().max().item()
    terminalreporter.write_line(f"matrix products were changed: up to {off:.1e} off, of about 1")


def _changed(product: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def changed(keys: Any, *operands: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
        def with_each(
            function: Callable[[Tensor], Tensor], beta: float = beta, alpha: float = alpha
        ) -> Tensor:
            settings = {"beta": beta, "alpha": alpha} if len(operands) == 3 else {}
            return product(keys, *map(function, operands), **settings)

        result = with_each(lambda operand: operand)
        if result.dtype not in (torch.float32, torch.float64):
            return result
        eps = torch.finfo(result.dtype).eps
        magnitude = with_each(torch.abs, abs(beta), abs(alpha))
        number = with_each(lambda operand: (operand != 0).to(operand.dtype), abs(beta) > 0, 1)
        *added, left, right = (_grain(operand) for operand in operands)
        grain = min(left * right * abs(alpha), *(each * abs(beta) or inf for each in added), inf)
        rounded = (number > 1) & (magnitude.double() > grain * (2 / eps))
        _, exponent = torch.frexp(magnitude)
        ulp = torch.ldexp(torch.full_like(result, eps), exponent - 1)
        # -1, 0 or 1 for each place, as if by chance
        places = torch.arange(result.numel()).view(result.shape)
        size = sum(operand.numel() for operand in operands)
        direction = ((places + size * 40503) * 2654435761 >> 13) % 3 - 1
        return result + direction * ulp.where(rounded, 0)

    return changed


def _grain(values: Tensor) -> float:
    """The largest power of two that all these numbers are whole multiples of."""
    mantissa, exponent = torch.frexp(values[(values != 0) & values.isfinite()].double())
    if not mantissa.numel():
        return inf
    digits = (mantissa * 2.0**53).long()
    return torch.ldexp((digits & -digits).double(), exponent - 53).min().item()


def _into(product: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def with_out(keys: Any, *operands: Tensor, out: Tensor, **settings: float) -> Tensor:
        return out.copy_(product(keys, *operands, **settings))

    return with_out
