"""Values and gradients of losses that are logarithms of sums of exponents."""

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from lookalike.ops.pairs import at_places, listed_pairs
from lookalike.ops.soft import ends_of, no_large_exponent, soft_terms
from lookalike.relations import Relations, in_row_blocks

__all__ = [
    "generalized_lifted_structure_kernel",
    "multi_similarity_kernel",
    "ntxent_kernel",
    "proxy_anchor_kernel",
    "supcon_kernel",
]


def multi_similarity_kernel(loss: Any, relations: Relations) -> tuple[Tensor, tuple[Tensor]]:
    """The mean over anchors; each exponent is computed once."""
    base, number = loss.distance.level(loss.base), relations.similarity.shape[0]
    scales = loss.alpha, loss.beta

    def terms(r: Relations) -> tuple[Tensor, Tensor]:
        weights = r.positives, r.negatives
        (pull, near), (push, far) = _both_sums(r.similarity, weights, scales, (base, base))
        return pull.div_(loss.alpha).add_(push.div_(loss.beta)), far.sub_(near).div_(number)

    values, gradient = in_row_blocks(relations, terms)
    return values.mean(), (gradient,)


def generalized_lifted_structure_kernel(
    loss: Any, relations: Relations
) -> tuple[Tensor, tuple[Tensor]]:
    """The mean over anchors; each exponent is computed once."""
    level, number = loss.distance.level, relations.similarity.shape[0]
    ends = level(loss.pos_margin), level(loss.neg_margin)

    def terms(r: Relations) -> tuple[Tensor, Tensor]:
        weights = r.positives, r.negatives
        (pull, near), (push, far) = _both_sums(r.similarity, weights, (1, 1), ends, plus_one=False)
        pull.mul_(weights[0].sum(1, keepdim=True).sign_())
        push.mul_(weights[1].sum(1, keepdim=True).sign_())
        total = pull.add_(push).relu_()
        return total, far.sub_(near).mul_(total.sign().div_(number))

    values, gradient = in_row_blocks(relations, terms)
    return values.mean(), (gradient,)


def supcon_kernel(loss: Any, relations: Relations) -> tuple[Tensor, tuple[Tensor]]:
    """The mean over the anchors above zero; one softmax of the valid candidates."""
    r, scale = relations, 1 / loss.temperature
    total, share = soft_terms(r.similarity, r.valid, scale=scale)
    weights = r.positives / r.positive_counts.sum(1, keepdim=True).clamp_min_(1e-30)
    whole = weights.sum(1, keepdim=True)
    values = (r.similarity * weights).sum(1, keepdim=True).mul_(-scale).addcmul_(total, whole)
    above = values.relu_().sign()
    number = above.sum().clamp_min_(1)
    gradient = share.mul_(whole).sub_(weights).mul_(above.mul_(scale / number))
    return values.sum() / number, (gradient,)


def ntxent_kernel(loss: Any, relations: Relations) -> tuple[Tensor, tuple[Tensor]]:
    """The mean over positive pairs; each exponent is computed once."""
    r, scale = relations, 1 / loss.temperature
    pairs = listed_pairs(r.positives)
    push, share = soft_terms(r.similarity, r.negatives, scale=scale)
    lead = at_places(r.similarity, pairs.places).mul_(scale)
    lead.sub_(push.squeeze(1).index_select(0, pairs.rows))
    number = r.counts_of(pairs).sum().clamp_min_(torch.finfo(push.dtype).tiny)
    value = torch.dot(logsigmoid(lead), pairs.weights) / -number
    slope = lead.neg_().sigmoid_().mul_(pairs.weights).div_(number).mul_(scale)
    gradient = share.mul_(push.zero_().squeeze(1).index_add_(0, pairs.rows, slope).unsqueeze(1))
    gradient.view(-1).index_add_(0, pairs.places, slope, alpha=-1)
    return value, (gradient,)


def proxy_anchor_kernel(loss: Any, relations: Relations) -> tuple[Tensor, tuple[Tensor]]:
    """Pull and push; one exponent a pair where an image is either a positive or a negative."""
    alpha, margin = loss.alpha, loss.distance.level(loss.margin)
    found = ends_of(relations.similarity) if relations.binary else None
    if no_large_exponent(found, alpha, margin) and no_large_exponent(found, alpha, -margin):
        return _one_exponent(relations, alpha, margin)
    weights, ends = (relations.positives, relations.negatives), (margin, -margin)
    (pull, near), (push, far) = _both_sums(relations.similarity, weights, (alpha, alpha), ends)
    with_images = weights[0].amax(1).sign_().sum().clamp_min_(1)
    value = pull.sum() / with_images + push.mean()
    return value, (far.mul_(alpha / len(push)).sub_(near.mul_(alpha / with_images)),)


def _one_exponent(
    relations: Relations, alpha: float, margin: float
) -> tuple[Tensor, tuple[Tensor]]:
    """Where an image is a positive or a negative of a proxy: ``e^(a(m -+ s))``, half the work."""
    similarity, same = relations.similarity, relations.same
    far = similarity.addcmul(similarity, same, value=-2)
    far.mul_(alpha).add_(alpha * margin).exp_()
    if not relations.all_valid:
        far.mul_(relations.valid)
    near = far * same
    far.sub_(near)
    pull, push = near.sum(1, keepdim=True), far.sum(1, keepdim=True)
    with_images = pull.sign().sum().clamp_min_(1)
    value = pull.log1p().sum() / with_images + push.log1p().sum() / len(push)
    pull.add_(1).mul_(with_images / alpha)
    push.add_(1).mul_(len(push) / alpha)
    return value, (far.div_(push).sub_(near.div_(pull)),)


def _both_sums(
    similarity: Tensor,
    weights: tuple[Tensor, Tensor],
    scales: tuple[float, float],
    ends: tuple[float, float],
    *,
    plus_one: bool = True,
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """``soft_terms`` of positives, with ``e^(scale (end - s))``, and of negatives."""
    (positives, negatives), (alpha, beta), (pull_to, push_to) = weights, scales, ends
    found = ends_of(similarity)
    sums = partial(soft_terms, similarity, plus_one=plus_one, ends=found)
    return (
        sums(positives, scale=-alpha, shift=pull_to),
        sums(negatives, scale=beta, shift=push_to),
    )
