"""A formula with a faster way to its value and gradient.

A formula in plain torch is the definition. Where a hand-written pass pays, ``fused`` takes value
and gradient from it, and the formula stays what is differentiated a second time
(``create_graph=True``), compiled, and tested against.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch import Tensor

from lookalike.ops.sync import can_sync

__all__ = ["Backward", "Fast", "formulas_only", "fused", "uses_formulas"]

Fast: TypeAlias = Callable[..., tuple[Tensor, tuple[Tensor | None, ...]]]
"""Inputs in; the value, and what ``Backward`` needs: by default the gradient of each input."""
Backward: TypeAlias = Callable[
    [Tensor, tuple[Tensor | None, ...], Sequence[bool]], tuple[Tensor | None, ...]
]
"""Gradient of the value, what ``Fast`` kept, which inputs need theirs; the gradients of inputs."""

_formulas_only = False


def uses_formulas() -> bool:
    """Whether formulas are computed as they stand: while compiling, and in ``formulas_only``."""
    return _formulas_only or torch.compiler.is_compiling()


@contextmanager
def formulas_only() -> Iterator[None]:
    """Compute every formula as it stands, without hand-written passes: for tests and benchmarks."""
    global _formulas_only
    before, _formulas_only = _formulas_only, True
    try:
        yield
    finally:
        _formulas_only = before


def fused(
    formula: Callable[..., Tensor], fast: Fast, *inputs: Tensor, backward: Backward | None = None
) -> Tensor:
    """``formula(*inputs)``, by way of ``fast``, which gives the same value without gradient.

    Differentiable once by ``fast``, any number of times by ``formula``. ``backward`` makes
    gradients of what ``fast`` kept; None: it kept the gradient of each input, of a value that is
    one number, or one for each row.
    """
    if uses_formulas():
        return formula(*inputs)
    value: Tensor = _Fused.apply(formula, fast, backward or _times, *inputs)
    return value


def _times(
    gradient: Tensor, known: tuple[Tensor | None, ...], needed: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    """The chain rule for a value that is one number, or one for each row."""
    if gradient.ndim:
        gradient = gradient.unsqueeze(1)
    elif can_sync(gradient) and gradient.item() == 1:  # as it is at the end of a step
        return known
    return tuple(
        each * gradient if each is not None and wanted else None
        for each, wanted in zip(known, needed, strict=True)
    )


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, formula: Callable[..., Tensor], fast: Fast, backward: Backward, *inputs: Tensor
    ) -> Tensor:
        value, kept = fast(*inputs)
        ctx.formula, ctx.vector_jacobian, ctx.number = formula, backward, len(inputs)
        ctx.save_for_backward(*inputs, *kept)
        return value

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        saved = ctx.saved_tensors
        inputs, kept, needed = saved[: ctx.number], saved[ctx.number :], ctx.needs_input_grad[3:]
        if not torch.is_grad_enabled():
            return None, None, None, *ctx.vector_jacobian(gradient, kept, needed)
        # create_graph: the gradient itself will be differentiated, so it comes from the formula
        wanted = [each for each, need in zip(inputs, needed, strict=True) if need]
        found = iter(
            torch.autograd.grad(
                ctx.formula(*inputs), wanted, gradient, create_graph=True, allow_unused=True
            )
        )
        return None, None, None, *(next(found) if need else None for need in needed)
