"""PML's dictionaries of losses, in which its losses and reducers talk, as terms and back.

``{name: {"losses": values, "indices": where they stand, "reduction_type": pair, triplet, ...}}``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from lookalike.reducers.terms import Batch, Listed, Terms

__all__ = ["LossDict", "as_loss_dict", "from_loss_dict"]

LossDict: TypeAlias = Mapping[str, Mapping[str, Any]]


def from_loss_dict(loss_dict: LossDict, embeddings: Tensor) -> list[Terms]:
    """The terms that a dictionary holds; a loss that is the number 0 has a gradient, which is 0."""
    parts = []
    for name, entry in loss_dict.items():
        losses, indices = entry["losses"], entry["indices"]
        if not isinstance(losses, Tensor):
            losses = embeddings.sum() * 0 + losses
        if entry["reduction_type"] == "already_reduced" or losses.numel() == 0:
            parts.append(Terms(losses.sum(), name=name))
            continue
        listed = Listed(indices) if isinstance(indices, Tensor) else Listed(indices[0], indices[1:])
        divisor = entry.get("divisor")
        if divisor is not None:
            divisor = torch.as_tensor(divisor, device=losses.device)
        parts.append(Terms(losses, name=name, places=listed, divisor=divisor))
    return parts


def as_loss_dict(parts: Sequence[Terms], batch: Batch) -> dict[str, dict[str, Any]]:
    """The dictionary of these terms, an element that counts several times as often as it counts.

    A label between 0 and 1 is a factor of its value. Reading it may wait for the device.
    """
    return {part.name: _entry(part, batch) for part in parts}


def _entry(terms: Terms, batch: Batch) -> dict[str, Any]:
    kind = terms.kind
    if kind == "already_reduced":
        return {"losses": terms.values, "indices": None, "reduction_type": kind}
    values, indices = terms.values, _indices(terms, batch)
    if terms.weights is not None:
        counts = terms.weights if terms.counts is None else terms.counts
        values = values * (terms.weights / counts.clamp_min(torch.finfo(counts.dtype).tiny))
        times = counts.round().long().flatten()
        indices = tuple(each.expand(counts.shape).flatten() for each in indices)
        indices = tuple(each.repeat_interleave(times) for each in indices)
        values = values.flatten().repeat_interleave(times)
    else:
        indices = tuple(each.expand(values.shape).flatten() for each in indices)
        values = values.flatten()
    entry = {
        "losses": values,
        "indices": indices[0] if kind == "element" else indices,
        "reduction_type": kind,
    }
    return entry if terms.divisor is None else entry | {"divisor": terms.divisor}


def _indices(terms: Terms, batch: Batch) -> tuple[Tensor, ...]:
    """Index tensors that can be expanded to the shape of the values."""
    anchors, listed = terms.anchors(), terms.places
    if isinstance(listed, Listed):
        return anchors, *listed.others
    pairs = () if listed is None else (listed.places - listed.rows * batch.candidates,)
    free = [torch.arange(size, device=anchors.device) for size in terms.values.shape[1:]]
    return (
        *(terms.along_values(each) for each in (anchors, *pairs)),
        *(each.view(-1, *[1] * (len(free) - at - 1)) for at, each in enumerate(free)),
    )
