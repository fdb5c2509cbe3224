"""Hand-written gradients, and the one place that chooses between them and the formula.

A kernel computes what ``loss.formula(relations)`` defines, with its gradient, in fewer passes over
the matrix. It is tested against the formula on every branch; ``benchmarks/kernels.py`` shows what
each one buys. A loss names its own by ``kernel(relations)``.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from torch import Tensor

from lookalike.ops.fused import fused, uses_formulas
from lookalike.relations import Relations

if TYPE_CHECKING:
    from lookalike.losses.base import Loss

__all__ = ["Kernel", "compute"]

Kernel: TypeAlias = Callable[[Any, Relations], tuple[Tensor, tuple[Tensor | None, ...]]]
"""A loss and its relations, without gradient; the value, the gradient of the similarity and, where
candidates are compared with one another, that of their similarity."""


def compute(loss: "Loss", relations: Relations) -> Tensor:
    """``loss.formula(relations)``, by the kernel of the loss where it has one and that one fits."""
    plain = (
        uses_formulas()
        or relations.anchor_weights is not None
        or loss.reducer is not loss.usual_reducer
        or _learns_a_setting(loss)
    )
    kernel = None if plain else loss.kernel(relations)
    if kernel is None:
        return loss.formula(relations)
    inputs = [relations.similarity]
    if loss.between_candidates and not relations.self_comparison:
        inputs.append(relations.between_candidates())

    rest = relations[1:]  # the graph is not to hold the similarity for longer than it needs it

    def formula(*matrices: Tensor) -> Tensor:
        return loss.formula(Relations(matrices[0], *rest).with_similarity(*matrices))

    def fast(*matrices: Tensor) -> tuple[Tensor, tuple[Tensor | None, ...]]:
        known = relations if len(matrices) == 1 else relations.with_similarity(*matrices)
        value, gradients = kernel(loss, known)
        return value, gradients[: len(inputs)] + (None,) * (len(inputs) - len(gradients))

    return fused(formula, fast, *inputs)


def _learns_a_setting(loss: "Loss") -> bool:
    """Whether an argument of the loss is a tensor that gets a gradient of its own."""
    for name in loss.setting_names:
        value = getattr(loss, name, None)
        if isinstance(value, Tensor) and value.requires_grad:
            return True
    return False
