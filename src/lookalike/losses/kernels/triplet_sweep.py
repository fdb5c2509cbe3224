"""Value and gradient of the variants of the triplet loss in few operations, for other devices.

All triplets are gone through a block at a time; ``ops/sides.py`` says why half of the comparisons
are enough. An entry that is no triplet is pushed out of sight, so that nothing has to be masked.
Numbers of the smaller side are called ``near``, [anchors, h, 1], those of all candidates ``far``,
[anchors, 1, candidates].
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from lookalike.ops.sides import FAR, Sides, smaller_sides
from lookalike.ops.triplets import count_triplets
from lookalike.relations import Relations

__all__ = ["direction_sweep", "smooth_sweep", "swap_sweep"]

_HUGE = 1e20
"""A factor that lifts every number above 0 over every other one."""
_OUT_OF_SIGHT = -1e15
"""Below every violation, and times ``_HUGE`` still a number."""


def smooth_sweep(loss: Any, relations: Relations) -> tuple[Tensor, tuple[Tensor]]:
    """``log(1 + e^x)`` of ``x = s_an - s_ap + margin``, mean over the values above zero."""
    r, sides = relations, smaller_sides(relations.positives, relations.negatives)
    signed = sides.signed(r.similarity)
    near, far = sides.masked(loss.margin - sides.of_smaller(signed), signed, -FAR)
    by_near, by_far = torch.empty_like(near), torch.empty_like(far)
    totals, numbers = [], []
    room = sides.room(r.similarity.dtype)
    for rows, shape in sides.blocks():
        violation = torch.add(near[rows], far[rows], out=room[: shape.numel()].view(shape))
        values = softplus(violation)
        totals.append(values.sum())
        numbers.append(values.count_nonzero())
        slopes = violation.sigmoid_()
        torch.sum(slopes, 2, keepdim=True, out=by_near[rows])
        torch.sum(slopes, 1, keepdim=True, out=by_far[rows])
    gradient = sides.signed(sides.added(-by_near.squeeze(2), by_far.squeeze(1)))
    scale = torch.stack(numbers).sum().clamp_min(1).to(gradient.dtype).reciprocal()
    return torch.stack(totals).sum() * scale, (gradient.mul_(scale),)


def swap_sweep(loss: Any, relations: Relations) -> tuple[Tensor, tuple[Tensor | None, ...]]:
    """``[max(s_an, s_pn) - s_ap + margin]+``, mean over the triplets above zero.

    Those with ``s_an > s_ap - margin`` are counted by sorting, as without swap. What swap changes
    are the triplets with ``s_pn > max(s_an, s_ap - margin)``: ``s_pn`` takes the place of ``s_an``
    where that was above the bound, else the triplet is a further one.
    """
    r, margin = relations, loss.margin
    similarity, between = r.similarity, r.between_candidates()
    plain = count_triplets(r.positives, r.negatives, hinge=(similarity, margin))
    sides = smaller_sides(r.positives, r.negatives)
    bound = similarity - margin
    near, far = sides.masked(
        sides.of_smaller(torch.where(sides.positive, bound, similarity)),
        torch.where(sides.positive, similarity, bound),
        FAR,
    )
    # where s_an equals the bound the triplet was not counted: then the bound is replaced
    least_near = torch.where(
        sides.positive.unsqueeze(2), far, far.nextafter(torch.full_like(far, torch.inf))
    )
    # rows (positive, all), or (all, negative) where the smaller side holds the negatives
    table = torch.cat([between, between.T])
    places = torch.where(sides.positive, sides.members, sides.members + len(between))
    swapped = torch.zeros_like(table)
    by_near, by_far = torch.empty_like(near), torch.empty_like(far)
    first, second = (sides.room(similarity.dtype) for _ in range(2))
    for rows, shape in sides.blocks():
        limits = torch.maximum(near[rows], far[rows], out=first[: shape.numel()].view(shape))
        index, flat = places[rows].reshape(-1), second[: shape.numel()].view(-1, shape[2])
        above = torch.index_select(table, 0, index, out=flat).view(shape).gt_(limits)
        swapped.index_add_(0, index, flat)
        of_near = torch.ge(near[rows], least_near[rows], out=limits).mul_(above)
        torch.sum(of_near, 2, keepdim=True, out=by_near[rows])
        torch.sum(above.sub_(of_near), 1, keepdim=True, out=by_far[rows])
    less_near, less_far = by_near.squeeze(2), by_far.squeeze(1)
    gradient = plain[1] - plain[0] - sides.added(less_near, less_far)
    more = torch.where(sides.positive, less_near.sum(1, True), less_far.sum(1, True)).sum()
    straight, turned = swapped.chunk(2)
    return _mean(r, gradient, straight + turned.T, between, plain[0].sum() + more, margin)


def _mean(
    relations: Relations,
    gradient: Tensor,
    of_between: Tensor,
    between: Tensor,
    number: Tensor,
    margin: float,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The mean of a hinge that is linear in the similarities, from its gradients."""
    value = (gradient * relations.similarity).sum() + (of_between * between).sum() + margin * number
    scale = number.clamp_min(torch.finfo(number.dtype).tiny).reciprocal()
    if relations.self_comparison:
        return value * scale, (gradient.add_(of_between).mul_(scale),)
    return value * scale, (gradient.mul_(scale), of_between.mul_(scale))


def direction_sweep(loss: Any, relations: Relations) -> tuple[Tensor, tuple[Tensor | None, ...]]:
    """``[x]+`` with ``x = s_an - s_ap + margin - direction cos``, mean over all triplets.

    With squared distances q to the anchor and Q between candidates, r = sqrt(q) and v = 1 / r,
    ``cos = v_p v_n (q_p + q_n - Q_pn) / 2``. ``r_p r_n x`` has the sign of x and is a sum of four
    products of a number of p and one of n, and of Q: one matrix product makes a whole block.
    """
    r = relations
    with torch.enable_grad():
        similarity = r.similarity.detach().requires_grad_()
        squared = loss.distance.squared_euclidean(similarity)
        between = similarity
        if not r.self_comparison:
            between = r.between_candidates().detach().requires_grad_()
        of_between = squared if r.self_comparison else loss.distance.squared_euclidean(between)
    positives, negatives = r.positives, r.negatives
    sides = smaller_sides(positives, negatives)
    sums, of_pairs = _direction_sums(
        loss, r.similarity, squared.detach(), of_between.detach(), sides
    )
    inverse, count, of_inverse, of_similarity, violations = sums
    # each violation was added for its positive and for its negative
    value = violations.sum() / 2
    turn = negatives - positives  # x grows with the similarity of a negative
    # minus direction times the cosines, from x
    cosines = torch.addcmul(of_similarity, r.similarity, count, value=-1).mul_(turn)
    cosines.add_(violations).sub_(count, alpha=loss.margin)
    of_squared = cosines.mul_(inverse).add_(of_inverse, alpha=loss.direction).mul_(inverse)
    scale = sides.triplets.clamp_min(torch.finfo(inverse.dtype).tiny).reciprocal()
    if r.self_comparison:
        of_squared = of_pairs.add_(of_squared, alpha=-0.5)
        (chained,) = torch.autograd.grad(squared, similarity, of_squared)
        return value * scale, (torch.addcmul(chained, turn, count).mul_(scale),)
    (chained,) = torch.autograd.grad(squared, similarity, of_squared.mul_(-0.5))
    (other,) = torch.autograd.grad(of_between, between, of_pairs)
    return value * scale, (torch.addcmul(chained, turn, count).mul_(scale), other * scale)


def _direction_sums(
    loss: Any, similarity: Tensor, squared: Tensor, between: Tensor, sides: Sides
) -> tuple[tuple[Tensor, ...], Tensor]:
    """Of the triplets above zero, what the gradients are made of, and the gradient by Q.

    For each pair v, how many they are, and their sums of v, of s and of x over the pair's partners.
    """
    half, signed = -loss.direction / 2, sides.signed(similarity)
    # no direction where a distance is 0: there v is next to nothing
    nowhere = squared <= torch.finfo(squared.dtype).eps ** 2
    root = squared.masked_fill(nowhere, 1e10).sqrt_()
    inverse = root.reciprocal()
    of_distance, ones = half * squared, torch.ones_like(root)
    columns = [root * (loss.margin - signed), root, of_distance, ones, inverse, similarity]
    number = len(columns)
    at_sides = torch.stack(columns, 2).gather(1, sides.members.unsqueeze(2).expand(-1, -1, number))
    far = of_distance.masked_fill_(sides.not_larger, _OUT_OF_SIGHT)
    at_sides[..., 2].masked_fill_(sides.not_smaller, _OUT_OF_SIGHT)
    left, of_near, v = at_sides[..., :4], at_sides[..., 3:], at_sides[..., 4:5]
    right = torch.stack([root, root * signed, ones, far], 1)
    of_far = torch.stack([root, ones, root * similarity], 2)
    pulled = torch.zeros_like(between)
    room = sides.room(similarity.dtype)
    near_sums = similarity.new_empty(*sides.members.shape, 3)
    far_sums, far_total = torch.empty_like(of_far), torch.empty_like(inverse).unsqueeze(2)
    near_total = torch.empty_like(near_sums[..., :1])
    lower, far_v = {"beta": 0, "alpha": 1 / _HUGE}, inverse.unsqueeze(2)
    for rows, shape in sides.blocks():
        index, flat = sides.members[rows].view(-1), room[: shape.numel()].view(-1, shape[2])
        lifted = torch.index_select(between, 0, index, out=flat).view(shape)
        lifted.baddbmm_(left[rows], right[rows], beta=-half * _HUGE, alpha=_HUGE).relu_()
        near_total[rows].baddbmm_(lifted, far_v[rows], **lower)
        far_total[rows].baddbmm_(lifted.mT, v[rows], **lower)
        active = lifted.clamp_max_(far_v[rows].mT)  # v_far above zero, else 0
        torch.bmm(active, of_far[rows], out=near_sums[rows])
        torch.bmm(active.mT, of_near[rows], out=far_sums[rows])
        active.mul_(v[rows])
        pulled.index_add_(0, index, flat)
    sums = sides.added(near_sums, far_sums.mul_(root.unsqueeze(2)))
    violations = sides.added(near_total, far_total).squeeze(2).mul_(inverse)
    return (inverse, *sums.unbind(2), violations), pulled.mul_(-half)
