"""Embeddings of mixed images, maps or embeddings, in bounded memory."""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from lookalike.autocast import autocast, autocast_enabled
from lookalike.errors import BadInput
from lookalike.mixing.pairs import MixedPairs
from lookalike.ops.rows import in_full_precision, unit

__all__ = ["Embed", "Make", "embedded_mixes", "mixed_embeddings", "refuse_too_many"]

Embed: TypeAlias = Callable[[Tensor], Tensor]
Make: TypeAlias = Callable[[MixedPairs], Tensor]

AT_ONCE = 1 << 24
"""Numbers in the maps that are mixed and pooled at a time (64 MB in float32)."""
MOST = 1 << 28
"""Numbers that a step may keep of its mixes in one tensor (1 GB in float32)."""


def refuse_too_many(rows: int, columns: int, what: str) -> None:
    """Refuse what would not fit in memory.

    Args:
        rows: The height of a tensor.
        columns: Its width.
        what: What it holds.

    Raises:
        BadInput: It has more than ``MOST`` numbers.
    """
    if rows * columns > MOST:
        raise BadInput(
            f"mixing would make {what}: {rows:,} x {columns:,} numbers; set mix.negatives, "
            "for example to 3, or take smaller batches"
        )


def mixed_embeddings(embeddings: Tensor, *, normalize: bool) -> Make:
    """Mixes of embeddings: back at unit length, or as they are for a loss that reads lengths."""
    rows = unit(embeddings) if normalize else embeddings

    def make(pairs: MixedPairs) -> Tensor:
        refuse_too_many(len(pairs.first), rows.shape[1], "embeddings of mixes")
        mixed = pairs.of(rows)
        return unit(mixed) if normalize else mixed

    return make


def embedded_mixes(
    source: Tensor, embed: Embed, pool: Embed | None, distribute: Callable[[Embed], Embed] | None
) -> Make:
    """Embeddings of mixes of images or of maps.

    Args:
        source: [N, ...] what is mixed.
        embed: From mixes to embeddings; with ``pool``, from pooled mixes.
        pool: From maps to vectors, each for itself. Where it is linear (``pool.linear``), the
            maps are pooled first and the vectors mixed, which comes to the same. Otherwise large
            numbers of mixed maps are pooled piece by piece, and once more in the backward pass.
        distribute: Turns a function of rows into one that shares the rows among processes.

    Returns:
        A function from pairs to embeddings.
    """
    device = source.device
    embed = _as_called(embed, device)
    linear = bool(getattr(pool, "linear", False))
    pool = None if pool is None else _as_called(pool, device)
    if pool is not None and linear:
        source, pool = pool(source), None

    def make(pairs: MixedPairs) -> Tensor:
        number = len(pairs.first)

        def of_rows(rows: Tensor) -> Tensor:
            part = pairs.part(rows)
            return embed(part.of(source) if pool is None else _pooled(source, part, pool))

        kept = source[0].numel() if pool is None else source.shape[1]
        refuse_too_many(number, kept, "mixes of images or maps")
        embed_rows = of_rows if distribute is None else distribute(of_rows)
        return in_full_precision(embed_rows(torch.arange(number, device=source.device)))

    return make


def _pooled(source: Tensor, pairs: MixedPairs, pool: Embed) -> Tensor:
    """``pool`` of all mixes; only ``AT_ONCE`` numbers of mixed maps exist at a time."""
    size = max(1, AT_ONCE // source[0].numel())
    if len(pairs.first) <= size:
        return pool(pairs.of(source))

    def pooled(source: Tensor, first: Tensor, second: Tensor, share: Tensor) -> Tensor:
        return pool(MixedPairs(first, second, share).of(source))

    parts = zip(*(torch.split(values, size) for values in pairs), strict=True)
    return torch.cat(
        [
            checkpoint(pooled, source, *part, use_reentrant=False, preserve_rng_state=False)
            for part in parts
        ]
    )


def _as_called(function: Embed, device: torch.device) -> Embed:
    """``function`` with the autocast that is on now; the rest of the work is done without."""
    enabled = autocast_enabled(device)

    def run(source: Tensor) -> Tensor:
        with autocast(device, enabled=enabled):
            return function(source)

    return run
