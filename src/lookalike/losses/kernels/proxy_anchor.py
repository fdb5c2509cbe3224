"""Value and gradient of the proxy-anchor loss."""

from typing import Any

from torch import Tensor

from lookalike.ops.soft import no_large_exponent, soft_terms
from lookalike.relations import Relations

__all__ = ["proxy_anchor_kernel"]


def proxy_anchor_kernel(loss: Any, relations: Relations) -> tuple[Tensor, tuple[Tensor]]:
    """Pull and push; one exponent a pair where an image is either a positive or a negative."""
    alpha, margin = loss.alpha, loss.distance.level(loss.margin)
    if relations.binary and no_large_exponent(relations.similarity, alpha, margin, -margin):
        return _one_exponent(relations, alpha, margin)
    return _two_exponents(relations, alpha, margin)


def _two_exponents(
    relations: Relations, alpha: float, margin: float
) -> tuple[Tensor, tuple[Tensor]]:
    """Where an image may be a positive and a negative of a proxy at once, or exponents large."""
    similarity, positives = relations.similarity, relations.positives
    pull, near = soft_terms(similarity, positives, scale=-alpha, shift=margin, plus_one=True)
    push, far = soft_terms(
        similarity, relations.negatives, scale=alpha, shift=-margin, plus_one=True
    )
    with_images = positives.amax(1).sign_().sum().clamp_min_(1)
    value = pull.sum() / with_images + push.mean()
    gradient = far.mul_(alpha / len(push)).sub_(near.mul_(alpha / with_images))
    return value, (gradient,)


def _one_exponent(
    relations: Relations, alpha: float, margin: float
) -> tuple[Tensor, tuple[Tensor]]:
    """The same where it is one or the other: ``e^(a(m -+ s))``, half the work."""
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
