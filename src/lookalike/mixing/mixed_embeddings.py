"""Embeddings of mixed images, maps or embeddings, in bounded memory."""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from lookalike.errors import BadInput
from lookalike.mixing.pairs import MixedPairs
from lookalike.ops.autocast import autocast, autocast_enabled
from lookalike.ops.rows import in_full_precision, normalize_rows

__all__ = ["Embed", "Make", "embedded_mixes", "mixed_embeddings", "refuse_too_many"]

Embed: TypeAlias = Callable[[Tensor], Tensor]
Make: TypeAlias = Callable[[MixedPairs], Tensor]

AT_ONCE = 1 << 22
"""Numbers in the maps that are mixed and pooled at a time (16 MB in float32)."""
MOST = 1 << 28
"""Numbers that a step may keep of its mixes in one tensor (1 GB in float32)."""


def refuse_too_many(rows: int, columns: int, what: str) -> None:
    """Refuse a tensor of more than ``MOST`` numbers; ``what`` says what it holds."""
    if rows * columns > MOST:
        raise BadInput(
            f"mixing would make {what}: {rows:,} x {columns:,} numbers; set mix.negatives, "
            "for example to 3, or take smaller batches"
        )


def mixed_embeddings(embeddings: Tensor, *, normalize: bool) -> Make:
    """Mixes of embeddings: back at unit length, or as they are for a loss that reads lengths."""
    rows = normalize_rows(embeddings) if normalize else embeddings

    def make(pairs: MixedPairs) -> Tensor:
        refuse_too_many(len(pairs.first), rows.shape[1], "embeddings of mixes")
        mixed = pairs.of(rows)
        return normalize_rows(mixed) if normalize else mixed

    return make


def embedded_mixes(
    source: Tensor,
    embed: Embed,
    pool: nn.Module | None,
    distribute: Callable[[Embed], Embed] | None,
) -> Make:
    """Embeddings of mixes of images or of maps [N, ...].

    ``embed`` goes from mixes to embeddings; with ``pool`` from pooled mixes. Where ``pool`` is
    linear (``pool.linear``), the maps are pooled first and the vectors mixed, which comes to the
    same. Otherwise large numbers of mixed maps are pooled piece by piece, and once more in the
    backward pass. ``distribute`` turns a function of rows into one that shares the rows among
    processes.
    """
    device = source.device
    embed_mixes, pool_maps, weights = _as_called(embed, device), None, []
    if pool is not None and getattr(pool, "linear", False):
        source = _as_called(pool, device)(source)
    elif pool is not None:
        pool_maps = _as_called(pool, device)
        weights = [weight for weight in pool.parameters() if weight.requires_grad]

    def make(pairs: MixedPairs) -> Tensor:
        def of_rows(rows: Tensor) -> Tensor:
            part = pairs.part(rows)
            if pool_maps is None:
                return embed_mixes(part.of(source))
            return embed_mixes(_pooled(source, part, pool_maps, weights))

        number = len(pairs.first)
        kept = source[0].numel() if pool_maps is None else source.shape[1]
        refuse_too_many(number, kept, "mixes of images or maps")
        embed_rows = of_rows if distribute is None else distribute(of_rows)
        return in_full_precision(embed_rows(torch.arange(number, device=source.device)))

    return make


def _pooled(source: Tensor, pairs: MixedPairs, pool: Embed, weights: list[nn.Parameter]) -> Tensor:
    """``pool`` of all mixes; where they are many, only some exist at a time."""
    size = max(1, AT_ONCE // source[0].numel())
    if len(pairs.first) <= size:
        return pool(pairs.of(source))
    pooled: Tensor = _PooledMixes.apply(pool, size, pairs, source, *weights)
    return pooled


class _PooledMixes(torch.autograd.Function):
    """``pool`` of mixes, ``size`` at a time; the backward pass mixes and pools them once more."""

    @staticmethod
    def forward(
        ctx: Any, pool: Embed, size: int, pairs: MixedPairs, source: Tensor, *weights: Tensor
    ) -> Tensor:
        ctx.pool, ctx.size, ctx.pairs = pool, size, pairs
        ctx.save_for_backward(source, *weights)
        pooled = None
        # pieces kept one by one would lie between the large maps and scatter the free memory
        for number, part in enumerate(_parts(pairs, size)):
            piece = pool(part.of(source))
            if pooled is None:
                pooled = piece.new_empty(len(pairs.first), *piece.shape[1:])
            pooled[number * size : (number + 1) * size] = piece
        assert pooled is not None
        return pooled

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        source, *weights = ctx.saved_tensors
        of_source, *of_weights = (torch.zeros_like(values) for values in ctx.saved_tensors)
        of_parts = torch.split(gradient, ctx.size)
        for part, of_part in zip(_parts(ctx.pairs, ctx.size), of_parts, strict=True):
            mixed = part.of(source).requires_grad_()
            with torch.enable_grad():
                pooled = ctx.pool(mixed)
            of_mixed, *rest = torch.autograd.grad(pooled, (mixed, *weights), of_part)
            share = part.share.to(of_mixed.dtype).view(-1, *[1] * (of_mixed.ndim - 1))
            of_first = of_mixed * share
            of_source.index_add_(0, part.first, of_first)
            of_source.index_add_(0, part.second, of_mixed - of_first)
            for total, of_weight in zip(of_weights, rest, strict=True):
                total += of_weight
        return None, None, None, of_source, *of_weights


def _parts(pairs: MixedPairs, size: int) -> Iterator[MixedPairs]:
    for part in zip(*(torch.split(values, size) for values in pairs), strict=True):
        yield MixedPairs(*part)


def _as_called(function: Embed, device: torch.device) -> Embed:
    """``function`` with the autocast that is on now; the rest of the work is done without."""
    enabled = autocast_enabled(device)

    def run(source: Tensor) -> Tensor:
        with autocast(device, enabled=enabled):
            return function(source)

    return run
