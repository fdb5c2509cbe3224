"""The picture of a loss: its value and gradient as one positive or one negative moves."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call

from lookalike.losses import IntraPairVarianceLoss, Loss, NPairsLoss, ProxyLoss
from lookalike.registry import LOSSES
from website.figures import BLUE, GREY, RED, new_figure, save

SIMILARITIES = torch.linspace(-0.99, 0.99, 81, dtype=torch.float64)
POSITIVE, NEGATIVE = 0.5, 0.2
"""Where the positive stays while the negative moves, and the negative while the positive moves."""
WITHOUT_PICTURE = {"hist": "it depends on the weights of its graph network"}

Value = Callable[[Tensor, Tensor], Tensor]
"""The loss as a function of the cosine of the positive and that of the negative."""


def default_loss(name: str) -> Loss:
    """A loss with its defaults; of two classes where it learns a vector per class."""
    arguments = LOSSES.arguments(name) or {}
    required = {one for one, p in arguments.items() if p.default is p.empty}
    sizes = {"num_classes": 2, "embedding_size": 4}
    loss: Loss = LOSSES.create(name, **{key: sizes[key] for key in required})
    return loss.double()


def value_of(loss: Loss) -> Value:
    """One anchor with a positive and a negative; proxies are these two where there are proxies."""
    anchor = torch.tensor([[1.0, 0, 0, 0]], dtype=torch.float64)
    first, both = torch.tensor([0]), torch.tensor([0, 1])
    if isinstance(loss, ProxyLoss):
        ((name, weights),) = loss.named_parameters()

        def of_proxies(positive: Tensor, negative: Tensor) -> Tensor:
            rows = _candidates(positive, negative)
            if weights.shape[0] == anchor.shape[1] and name != "proxies":  # columns, K of a class
                rows = rows.repeat_interleave(weights.shape[1] // 2, 0).T
            value: Tensor = functional_call(loss, {name: rows}, (anchor, first))
            return value

        return of_proxies
    if isinstance(loss, NPairsLoss):  # a pair of each of two classes

        def of_pairs(positive: Tensor, negative: Tensor) -> Tensor:
            p, n = _candidates(positive, negative)
            images = torch.stack([anchor[0], p, anchor[0].roll(3), n])
            value: Tensor = loss(images, torch.tensor([0, 0, 1, 1]))
            return value

        return of_pairs
    several = isinstance(loss, IntraPairVarianceLoss)  # compares positives with one another
    fixed = _candidates(torch.tensor(0.6), torch.tensor(0.3)).to(anchor) if several else anchor[:0]
    labels = torch.cat([both, both]) if several else both

    def of_images(positive: Tensor, negative: Tensor) -> Tensor:
        rows = torch.cat([_candidates(positive, negative), fixed])
        value: Tensor = loss(anchor, first, ref_emb=rows, ref_labels=labels)
        return value

    return of_images


def _candidates(positive: Tensor, negative: Tensor) -> Tensor:
    """Unit vectors with these cosines to (1, 0, 0, 0), in planes of their own."""
    zero = torch.zeros_like(positive)
    rows = [positive, (1 - positive**2).sqrt(), zero, zero]
    others = [negative, zero, (1 - negative**2).sqrt(), zero]
    return torch.stack([torch.stack(rows), torch.stack(others)])


def curve(value: Value, moving: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Value and gradient of the loss at each similarity of the positive or the negative."""
    values, gradients = [], []
    for similarity in SIMILARITIES:
        moved = similarity.clone().requires_grad_()
        other = torch.tensor(NEGATIVE if moving == "positive" else POSITIVE, dtype=torch.float64)
        found = value(moved, other) if moving == "positive" else value(other, moved)
        values.append(found.item())
        gradient = (
            torch.autograd.grad(found, moved, allow_unused=True)[0] if found.requires_grad else None
        )
        gradients.append(0.0 if gradient is None else gradient.item())
    return np.array(values), np.array(gradients)


def draw(name: str, stem: Path) -> None:
    """Write the pictures of a loss: ``STEM.svg`` of its value and ``STEM-gradient.svg``."""
    value = value_of(default_loss(name))
    curves = {moving: curve(value, moving) for moving in ("positive", "negative")}
    for number, (title, ending) in enumerate({"loss": "", "gradient": "-gradient"}.items()):
        figure, (axis,) = new_figure()
        for moving, colour, style in (("positive", BLUE, "-"), ("negative", RED, "--")):
            numbers = curves[moving][number]
            axis.plot(SIMILARITIES, numbers, style, color=colour, label=f"the {moving} moves")
        axis.set(xlabel="cosine similarity to the anchor", ylabel=title)
        if title == "loss":
            axis.legend(frameon=False, labelcolor=GREY)
        save(figure, stem.parent / f"{stem.name}{ending}.svg")
