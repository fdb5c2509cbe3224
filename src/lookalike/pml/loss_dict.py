"""PML's dictionaries of losses, in which its losses and reducers talk, as terms and back.

``{name: {"losses": values, "indices": where they stand, "reduction_type": pair, triplet, ...}}``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from lookalike.reducers import Terms
from lookalike.relations import Relations

__all__ = ["LossDict", "as_loss_dict", "as_pmls", "from_loss_dict"]

LossDict: TypeAlias = Mapping[str, Mapping[str, Any]]


def from_loss_dict(
    loss_dict: LossDict, embeddings: Tensor, labels: Tensor | None
) -> tuple[list[Terms], Relations]:
    """The terms that a dictionary holds, and what a reducer asks of the batch.

    A loss that is the number 0 has a gradient, which is 0.
    """
    parts = []
    for name, entry in loss_dict.items():
        losses, indices, divisor = entry["losses"], entry["indices"], entry.get("divisor")
        if not isinstance(losses, Tensor):
            losses = embeddings.sum() * 0 + losses
        if entry["reduction_type"] == "already_reduced" or losses.numel() == 0:
            parts.append(Terms(losses.sum(), name=name))
            continue
        images = (indices,) if isinstance(indices, Tensor) else tuple(indices)
        if divisor is not None:
            divisor = torch.as_tensor(divisor, device=losses.device)
        parts.append(Terms(losses.reshape(-1), name=name, images=images, divisor=divisor))
    blank = embeddings.new_zeros(()).expand(len(embeddings), len(embeddings))
    return parts, Relations(blank, blank, blank, embeddings=embeddings, labels=labels)


def as_loss_dict(parts: Sequence[Terms]) -> dict[str, dict[str, Any]]:
    """The dictionary of these terms, an element that counts several times as often as it counts.

    A label between 0 and 1 is a factor of its value. Reading it may wait for the device. Of terms
    of one name the second is ``name_2``.
    """
    found: dict[str, dict[str, Any]] = {}
    for part in parts:
        name, number = part.name, 1
        while name in found:
            number += 1
            name = f"{part.name}_{number}"
        found[name] = _entry(part)
    return found


def as_pmls(relations: Relations) -> tuple[Tensor, Tensor | None, Tensor, Tensor | None]:
    """The embeddings, labels, ``ref_emb`` and ``ref_labels`` that PML's parts take."""
    r = relations
    assert r.embeddings is not None
    labels, of_others = (
        None if each is None else each.to(r.embeddings.device) for each in (r.labels, r.ref_labels)
    )
    if r.ref_emb is None:
        return r.embeddings, labels, r.embeddings, labels
    return r.embeddings, labels, r.ref_emb, of_others


def _entry(terms: Terms) -> dict[str, Any]:
    values, images = terms.values, terms.images
    if values.ndim == 0:
        return {"losses": values, "indices": None, "reduction_type": "already_reduced"}
    if not images:
        sizes = (torch.arange(size, device=values.device) for size in values.shape)
        images = torch.meshgrid(*sizes, indexing="ij")
    images = tuple(each.expand(values.shape).flatten() for each in images)
    if terms.weights is not None:
        counts = terms.weights if terms.counts is None else terms.counts
        times = counts.expand(values.shape).round().long().flatten()
        values = values * (terms.weights / counts.clamp_min(torch.finfo(counts.dtype).tiny))
        images = tuple(each.repeat_interleave(times) for each in images)
        values = values.flatten().repeat_interleave(times)
    if not values.numel():  # a mean of nothing is no number
        return {"losses": values.sum(), "indices": None, "reduction_type": "already_reduced"}
    pair = "neg_pair" if terms.negative else "pos_pair"
    entry = {
        "losses": values.flatten(),
        "indices": images[0] if len(images) == 1 else images,
        "reduction_type": {1: "element", 2: pair, 3: "triplet"}[len(images)],
    }
    return entry if terms.divisor is None else entry | {"divisor": terms.divisor}
