"""Logarithms of sums of exponents, with weights."""

from collections.abc import Sequence

import torch
from torch import Tensor

from lookalike.ops.blocks import IN_CACHE, row_blocks
from lookalike.ops.fused import fused
from lookalike.ops.sync import can_sync

__all__ = [
    "NOTHING",
    "ends_of",
    "log1p_sum_exp",
    "log_sum_exp",
    "no_large_exponent",
    "soft_maximum",
    "soft_terms",
]

_FAR = 1e30  # beyond every logit; finite, because inf - inf is not a number
_PLAIN = 50.0  # exponents up to here need no care: e^50 times a million is 5e27
NOTHING = -80.0  # e^-80 adds nothing to a sum whose largest term is 1, and is no denormal


def log_sum_exp(values: Tensor, weights: Tensor) -> Tensor:
    """``log(sum_j w_j e^(v_j))`` per row; weight 0 leaves a term out.

    A row without terms is far below every logit (-1e30), as the log of nothing should be, with
    gradient 0.

    >>> log_sum_exp(torch.zeros(1, 3), torch.ones(1, 3)).exp().round(decimals=4)
    tensor([3.])
    """
    return _soft_sum(values, weights, plus_one=False)


def log1p_sum_exp(values: Tensor, weights: Tensor) -> Tensor:
    """``log(1 + sum_j w_j e^(v_j))`` per row; weight 0 leaves a term out, a row without terms is 0.

    >>> log1p_sum_exp(torch.zeros(1, 3), torch.tensor([[1.0, 0.0, 0.0]])).exp()
    tensor([2.])
    """
    return _soft_sum(values, weights, plus_one=True)


def _soft_sum(values: Tensor, weights: Tensor, *, plus_one: bool) -> Tensor:
    def formula(values: Tensor) -> Tensor:
        values = values.where(weights > 0, -_FAR)
        top = values.detach().amax(1, keepdim=True)  # e^(v - top) is at most 1
        if plus_one:
            top = top.clamp_min(0)
        total = (weights * (values - top).exp()).sum(1)
        top = top.squeeze(1)
        if plus_one:
            return (total + (-top).exp()).log() + top
        return total.clamp_min(torch.finfo(total.dtype).tiny).log() + top

    def fast(values: Tensor) -> tuple[Tensor, tuple[Tensor]]:
        total, share = soft_terms(values, weights, plus_one=plus_one)
        return total.squeeze(1), (share,)

    return fused(formula, fast, values)


def soft_terms(
    values: Tensor,
    weights: Tensor,
    *,
    scale: float = 1,
    shift: float = 0,
    plus_one: bool = False,
    ends: tuple[float, float] | None = None,
) -> tuple[Tensor, Tensor]:
    """``log_sum_exp`` [rows, 1] and each term's share of the sum, without gradient.

    The shares, times ``scale``, are the gradients of the logarithm. Where no exponent is large (on
    the CPU one look tells) the sum is taken as it stands, else relative to a row's largest term.
    ``ends`` are the least and the largest of ``values``, where they are known.
    """
    if no_large_exponent(ends or ends_of(values), scale, shift):
        return _plain_soft_terms(values, weights, scale, shift, plus_one)
    terms = torch.empty(values.shape, dtype=values.dtype, device=values.device)
    tops, totals = values.new_empty(2, values.shape[0], 1)
    size = max(1, IN_CACHE // max(1, values.shape[1]))
    if size >= values.shape[0] or not can_sync(values):
        _soft_block(values, weights, terms, tops, totals, scale, shift, plus_one)
    else:
        for at in range(0, values.shape[0], size):
            rows = slice(at, at + size)
            outputs = terms[rows], tops[rows], totals[rows]
            _soft_block(values[rows], weights[rows], *outputs, scale, shift, plus_one)
    return totals.log_().add_(tops), terms


def ends_of(values: Tensor) -> tuple[float, float] | None:
    """The least and the largest value; None where looking would wait for the device."""
    if not can_sync(values) or values.numel() == 0:
        return None
    least, most = values.aminmax()
    return least.item(), most.item()


def no_large_exponent(ends: tuple[float, float] | None, scale: float, shift: float) -> bool:
    """Whether e^(scale (v - shift)) and the sum of a row are far from the ends of the numbers.

    For all values between ``ends``, and for minus ``scale`` too.
    """
    if ends is None:
        return False
    least, most = ends
    return abs(scale * (least - shift)) < _PLAIN and abs(scale * (most - shift)) < _PLAIN


def _plain_soft_terms(
    values: Tensor, weights: Tensor, scale: float, shift: float, plus_one: bool
) -> tuple[Tensor, Tensor]:
    """``soft_terms`` without a look for the largest term of each row."""
    terms = values * scale
    if shift:
        terms.sub_(scale * shift)
    terms.exp_().mul_(weights)
    total = terms.sum(1, keepdim=True)
    if plus_one:
        logarithm = total.log1p()
        total.add_(1)
    else:
        logarithm = total.log().clamp_min_(-_FAR)
    terms.div_(total.clamp_min_(torch.finfo(total.dtype).tiny))
    return logarithm, terms


def _soft_block(
    values: Tensor,
    weights: Tensor,
    terms: Tensor,
    top: Tensor,
    total: Tensor,
    scale: float,
    shift: float,
    plus_one: bool,
) -> None:
    """Fill ``terms`` with shares, ``top`` and ``total`` with what the logarithm is made of."""
    torch.mul(values, scale, out=terms)
    # pushed out of sight where the weight is 0; cheaper than masks, and never log(0)
    terms.add_(weights.sign().sub_(1), alpha=_FAR)
    torch.amax(terms, 1, keepdim=True, out=top)
    one = scale * shift  # where the exponents are 0
    if plus_one:
        top.clamp_min_(one)
    terms.sub_(top).clamp_min_(NOTHING).exp_().mul_(weights)
    torch.sum(terms, 1, keepdim=True, out=total)
    if plus_one:
        total.add_((one - top).clamp_min_(NOTHING).exp_())
    terms.div_(total.clamp_min_(torch.finfo(total.dtype).tiny))
    if one:
        top.sub_(one)


def soft_maximum(values: Tensor, gamma: float) -> Tensor:
    """``sum_k softmax_k(v_k / gamma) v_k`` of [rows, k, columns]; ``gamma`` may be a tensor."""

    def formula(values: Tensor) -> Tensor:
        return ((values / gamma).softmax(1) * values).sum(1)

    def fast(values: Tensor) -> tuple[Tensor, tuple[Tensor]]:
        blocks = row_blocks(values)
        if len(blocks) == 1:
            summed, gradient = of(values)
            return summed, (gradient,)
        summed = values.new_empty(values.shape[0], values.shape[2])
        gradient = torch.empty_like(values)
        for rows in blocks:
            summed[rows], gradient[rows] = of(values[rows])
        return summed, (gradient,)

    def of(values: Tensor) -> tuple[Tensor, Tensor]:
        chance = (values / gamma).softmax(1)
        summed = (chance * values).sum(1)
        above = (values - summed.unsqueeze(1)).div_(gamma).add_(1)
        return summed, above.mul_(chance)

    if isinstance(gamma, Tensor):
        return formula(values)
    return fused(formula, fast, values, backward=_over_columns)


def _over_columns(
    gradient: Tensor, kept: tuple[Tensor | None, ...], _: Sequence[bool]
) -> tuple[Tensor]:
    (known,) = kept
    assert known is not None
    return (known * gradient.unsqueeze(1),)
