"""Operations of a step on a device that is not the CPU, and their largest array.

    python benchmarks/operations.py            # writes docs/benchmarks/operations.md too
    python benchmarks/operations.py --print    # writes nothing

A small step on a GPU costs what its operations cost to launch, whatever they compute. torch's
``meta`` device has shapes and no numbers: it takes the branches of every device that is not the
CPU, forwards and backwards, and fails where one would wait for a number. So what a step launches
can be counted without a GPU. Views and empty arrays launch nothing, and are not counted.
"""

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lookalike import losses, miners
from lookalike.registry import LOSSES
from lookalike.training.objective import sized

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks" / "operations.md"
N, DIM, CLASSES = 512, 128, 100
MOST_OPERATIONS = 400
MOST_BYTES = 8 * N * N * 4

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("triplet", {"smooth_loss": True}),
    ("triplet", {"swap": True}),
    ("triplet", {"direction": 0.3}),
    ("triplet", {"triplets_per_anchor": 4}),
    ("margin", {"triplets_per_anchor": 4}),
    ("multi-similarity", {"direction": 0.3}),
    ("proxy-nca", {"direction": 0.3}),
    ("contrastive", {"distance": "cosine"}),
]
"""Settings that take another way than the default ones."""

COMBINED: list[tuple[dict[str, Any], str | None]] = [
    ({"smooth_loss": True, "swap": True}, None),
    ({"smooth_loss": True, "swap": True, "direction": 0.3}, None),
    ({"swap": True}, "triplet-margin"),
    ({"smooth_loss": True, "swap": True, "direction": 0.3}, "angular"),
    ({"smooth_loss": True, "swap": True, "direction": 0.3}, "semi-hard"),
    ({"smooth_loss": True, "swap": True, "direction": 0.3, "triplets_per_anchor": 4}, None),
]
"""Several settings of the triplet loss at a time, with a miner.

Over all triplets they are above the bar: those of N = 512 are 32 blocks of the largest array that
is allowed, even with the smaller side of each anchor only (``ops/sides.py``), so that 400
operations are twelve a block, forwards and backwards. Each setting alone has a sweep that does
with so few.
"""

_WITHOUT_LAUNCH = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided")


class Counted(NamedTuple):
    """What a step launched."""

    operations: int
    largest: int
    """Bytes of the largest array that an operation wrote."""


class OperationCounter(TorchDispatchMode):  # type: ignore[misc]
    """Counts operations that launch something, and the largest array that one of them writes."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0
        self.largest = 0
        self.shapes: dict[tuple[int, ...], int] = {}

    def __torch_dispatch__(
        self, function: Any, types: Any, arguments: Any = (), settings: Any = None
    ) -> Any:
        found = function(*arguments, **(settings or {}))
        name = function.overloadpacket.__name__
        if function.is_view or name == "_unsafe_view":
            return found
        # an array that is only reserved launches nothing, but takes its memory
        self.operations += name not in _WITHOUT_LAUNCH
        known = {id(each) for each in tree_leaves((arguments, settings)) if _is_tensor(each)}
        for each in tree_leaves(found):
            if _is_tensor(each) and id(each) not in known:
                self.largest = max(self.largest, each.numel() * each.element_size())
                shape = tuple(each.shape)
                self.shapes[shape] = self.shapes.get(shape, 0) + 1
        return found

    def counted(self) -> Counted:
        """What was launched up to now."""
        return Counted(self.operations, self.largest)


def _is_tensor(value: object) -> bool:
    return isinstance(value, Tensor)


def step(
    loss: str,
    settings: dict[str, Any] | None = None,
    miner: str | None = None,
    *,
    n: int = N,
    dim: int = DIM,
    classes: int = CLASSES,
) -> OperationCounter:
    """The forward and backward pass of a loss on the ``meta`` device, counted."""
    made = losses.create(loss, **sized(loss, settings or {}, classes, dim)).to("meta")
    chosen = None if miner is None else miners.create(miner)
    rows = torch.empty(n, dim, device="meta", requires_grad=True)
    labels = torch.empty(n, dtype=torch.long, device="meta")
    with OperationCounter() as counter:
        found = None if chosen is None else chosen(rows, labels)
        made(rows, labels, found).backward()
    return counter


def mining(miner: str, *, n: int = N, dim: int = DIM) -> OperationCounter:
    """A miner alone on the ``meta`` device, counted."""
    rows = torch.empty(n, dim, device="meta")
    labels = torch.empty(n, dtype=torch.long, device="meta")
    made = miners.create(miner)
    with OperationCounter() as counter:
        made(rows, labels)
    return counter


def own_losses() -> list[str]:
    """The losses of this package, by name."""
    ours = (e for e in LOSSES.entries() if e.build.__module__.startswith("lookalike."))
    return sorted(entry.name for entry in ours)


def table() -> Iterator[tuple[str, str, Counted]]:
    """A loss, its settings or miner, and what a step of it launches."""
    for name in own_losses():
        yield name, "", step(name).counted()
        for _, settings in (each for each in VARIANTS if each[0] == name):
            text = ", ".join(f"{key}: {value}" for key, value in settings.items())
            yield name, text, step(name, settings).counted()
    for settings, miner in COMBINED:
        parts = [f"{key}: {value}" for key, value in settings.items()]
        text = ", ".join([*parts, *([f"miner {miner}"] if miner else [])])
        yield "triplet", text, step("triplet", settings, miner).counted()
    for name in sorted(miners.names()):
        yield "", f"miner {name}", mining(name).counted()
        yield "triplet", f"miner {name}", step("triplet", miner=name).counted()


def lines(rows: Iterable[tuple[str, str, Counted]]) -> Iterator[str]:
    """The table as Markdown."""
    yield "| loss | with | operations | largest array, in N x N float32 |"
    yield "|---|---|---:|---:|"
    for loss, setting, (operations, largest) in rows:
        yield f"| {loss} | {setting} | {operations:,} | {largest / (4 * N * N):.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="Operations of a step on another device.")
    parser.add_argument("--print", action="store_true", help="write no page")
    only_print = parser.parse_args().print
    text = []
    for line in lines(table()):
        print(line, flush=True)
        text.append(line)
    if only_print:
        return
    head = [
        "# Operations of a step on a GPU",
        "",
        "Written by `python benchmarks/operations.py`. What the forward and backward pass of each",
        f"loss launch on a device that is not the CPU, for N = {N} images, {DIM} dimensions and",
        f"{CLASSES} classes, counted on torch's `meta` device, which has no numbers: nothing here",
        "waits for the device. Views and empty arrays launch nothing and are not counted. The last",
        "column is the largest array that any operation writes; an array over all triplets would",
        f"be {N}. A loss with a miner includes the miner; a miner without a loss stands alone.",
        "",
        f"`tests/test_operations.py` holds each loss to {MOST_OPERATIONS} operations and an array",
        "of 8. Several settings of the triplet loss at a time are held to the array only: all",
        "triplets are 32 such arrays, which leaves twelve operations for each. With a miner that",
        "lists its triplets, or `triplets_per_anchor`, they need few.",
        "",
    ]
    PAGE.write_text("\n".join([*head, *text]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
