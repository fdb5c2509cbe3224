"""``pytorch_metric_learning.reducers``: everything of ``lookalike.reducers``, called as PML's.

PML's losses and reducers talk in dictionaries, which are terms here:
``{name: {"losses": values, "indices": where they stand, "reduction_type": pair, triplet, ...}}``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from lookalike.pml.shipped import Shipped, chosen, dressed, ship
from lookalike.reducers import *
from lookalike.registry import REDUCERS
from lookalike.relations import Relations

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
    names = [part.name for part in parts]
    times = [names[: place + 1].count(name) for place, name in enumerate(names)]
    return {
        part.name if number == 1 else f"{part.name}_{number}": _entry(part)
        for part, number in zip(parts, times, strict=True)
    }


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


class _OfReducers(Shipped, Reducer):
    hooks = (
        "forward element_reduction pos_pair_reduction neg_pair_reduction triplet_reduction "
        "already_reduced_reduction element_reduction_helper tuple_reduction_helper sum_and_divide "
        "sub_loss_reduction reduce_the_loss unpack_loss_info get_reduction_func zero_loss "
        "input_is_zero_loss assert_sizes assert_sizes_already_reduced assert_sizes_element "
        "assert_sizes_neg_pair assert_sizes_pair assert_sizes_pos_pair assert_sizes_triplet "
        "reset_stats set_stats set_losses_size_stat"
    )
    instead = "write reduce(terms, relations), or subclass BaseReducer"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        adopted = {name: adopted_reducer(value) for name, value in kwargs.items()}
        super().__init__(*(adopted_reducer(value) for value in args), **adopted)

    def __call__(self, loss_dict: LossDict, embeddings: Tensor, labels: Tensor | None) -> Tensor:
        """One number of all entries of a dictionary."""
        return self.combine(*from_loss_dict(loss_dict, embeddings, labels))


class BaseReducer(Shipped, Reducer):
    """A reducer by ``element_reduction``, ``pos_pair_reduction``, ... as PML's subclasses write it.

    Each of them gets ``(losses, loss_indices, embeddings, labels)`` and returns one number.

    >>> import torch
    >>> class Largest(BaseReducer):
    ...     def element_reduction(self, losses, loss_indices, embeddings, labels):
    ...         return losses.max()
    >>> from lookalike.pml.losses import FastAPLoss
    >>> FastAPLoss(reducer=Largest())(torch.eye(2), torch.tensor([0, 0]))
    tensor(0.)
    """

    def reduce(self, terms: Terms, relations: Relations) -> Tensor:
        """What it makes of these elements."""
        return self.combine([terms], relations)  # type: ignore[no-any-return]

    def combine(self, parts: Sequence[Terms], relations: Relations) -> Any:
        """What it makes of the dictionary of all parts."""
        return self(as_loss_dict(parts), relations.embeddings, relations.labels)

    def __call__(self, loss_dict: LossDict, embeddings: Any, labels: Tensor | None) -> Any:
        """Each entry by its method, added up; the number 0 has a gradient, which is 0."""
        found = []
        for entry in loss_dict.values():
            losses, method = entry["losses"], getattr(self, f"{entry['reduction_type']}_reduction")
            if not isinstance(losses, Tensor):
                losses = self.zero_loss(embeddings) + losses
            found.append(method(losses, entry["indices"], embeddings, labels))
        return sum(found[1:], found[0])

    def element_reduction(
        self, losses: Tensor, loss_indices: Any, embeddings: Tensor, labels: Tensor | None
    ) -> Tensor:
        """Of one value per anchor or image."""
        raise NotImplementedError

    pos_pair_reduction = neg_pair_reduction = triplet_reduction = element_reduction

    def already_reduced_reduction(self, losses: Tensor, *_: Any) -> Tensor:
        """Of a number."""
        return losses

    def zero_loss(self, embeddings: Tensor) -> Tensor:
        """0, with a gradient of 0."""
        return (embeddings * 0).sum()


class DoNothingReducer(BaseReducer):
    """No reduction: the loss returns PML's dictionary of values and indices.

    ``{"loss": {"losses": values, "indices": where, "reduction_type": "pos_pair"}}``, an entry for
    each kind of elements. For a look at the values; a training step needs one number.
    """

    def __call__(self, loss_dict: LossDict, embeddings: Any, labels: Tensor | None) -> Any:  # noqa: ARG002
        """The dictionary itself."""
        return loss_dict


class _Adopted(BaseReducer):
    """A reducer of another package, called with a dictionary."""

    def __init__(self, other: Any) -> None:
        self.other = other

    def __call__(self, loss_dict: LossDict, embeddings: Any, labels: Tensor | None) -> Any:
        """Each entry by itself: not all of PML's take several."""
        found = [self.other({name: entry}, embeddings, labels) for name, entry in loss_dict.items()]
        if all(isinstance(each, dict) for each in found):  # its reducer that does nothing
            return {name: entry for each in found for name, entry in each.items()}
        return sum(found[1:], found[0])


def adopted_reducer(given: Any) -> Any:
    """A reducer of another package in an adapter, alone or by name; anything else as it is."""
    if isinstance(given, Mapping):
        return {name: adopted_reducer(each) for name, each in given.items()}
    if hasattr(given, "reduce_the_loss") or hasattr(given, "sub_loss_reduction"):
        return _Adopted(given)
    return given


_PARTS = ship(globals(), Reducer, _OfReducers)


def reducer_of(part: Any, given: Any) -> Reducer:
    """The reducer of a loss, called as PML's: what was given, or its default."""
    given = adopted_reducer(chosen(part, given, "reducer"))
    found: Reducer = dressed(REDUCERS.build(given, Reducer), _PARTS)
    return found
