"""Similarity mixup: virtual images between two of a class, from similarities alone."""

import torch
from torch import Tensor

from lookalike.relations import Relations

__all__ = ["drawn_partners", "with_virtual_images"]


def drawn_partners(relations: Relations, times: int) -> tuple[Tensor, Tensor]:
    """For each image, ``times`` over: another image of its class, and the share of the image.

    An image without another of its class is its own partner. Drawn on the CPU for any device.
    """
    positive = relations.positives > 0
    number = positive.sum(1).repeat(times)
    draws, shares = torch.rand(2, len(number)).to(relations.similarity, non_blocking=True)
    chosen = (draws * number).long().minimum((number - 1).clamp_min(0))
    upto = positive.cumsum(1).repeat(times, 1)
    partner = (upto <= chosen.unsqueeze(1)).sum(1)  # the place of the chosen positive
    own = torch.arange(len(positive), device=positive.device).repeat(times)
    return torch.where(number > 0, partner, own), shares


def with_virtual_images(relations: Relations, partner: Tensor, share: Tensor) -> Relations:
    """Images and virtual images against one another (SiMix of Patel et al., CVPR 2022).

    Virtual image v is ``share x_i + (1 - share) x_partner`` with i = v modulo the batch, not
    brought to unit length, so its similarities are the same mix of similarities. It has the class
    of i; one whose partner is i itself is left out.
    """
    r, size = relations, len(relations.similarity)
    image = torch.arange(size, device=partner.device)
    first = image.repeat(len(partner) // size)

    def mixed(rows: Tensor) -> Tensor:
        one, other = rows.index_select(0, first), rows.index_select(0, partner)
        return torch.lerp(other, one, share.unsqueeze(1))

    half = torch.cat([r.similarity, mixed(r.similarity)])
    owner = torch.cat([image, first])
    there = torch.cat([torch.ones_like(image), partner != first]).to(r.similarity.dtype)
    return r._replace(
        same=r.same.index_select(0, owner).index_select(1, owner),
        valid=torch.outer(there, there).fill_diagonal_(0),
        labels=None if r.labels is None else r.labels.index_select(0, owner),
    ).with_similarity(torch.cat([half, mixed(half.T).T], 1))
