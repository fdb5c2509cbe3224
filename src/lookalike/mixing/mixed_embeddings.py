"""Embeddings of mixed images, maps or embeddings, in bounded memory; or only their cosines.

The one closed form of mixing is ``cosines_to_mixes``: with all negatives a batch of N images has
about ``N^2`` mixes, so that written out they are ``N^2 D`` numbers, and their similarities to all
anchors ``N^3``; an anchor's own are ``N`` times the images per class.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn

from lookalike.distances import Distance, LpDistance
from lookalike.errors import BadInput
from lookalike.mixing.pairs import MixedPairs
from lookalike.ops.blocks import in_blocks
from lookalike.ops.device import autocast, autocast_enabled
from lookalike.ops.rows import in_full_precision, normalize_rows, without_rounding

__all__ = [
    "Embed",
    "Make",
    "cosines_to_mixes",
    "embedded_mixes",
    "follows_from_cosine",
    "mixed_embeddings",
    "refuse_too_many",
    "rows_of",
    "similarity_of_cosine",
]

Embed: TypeAlias = Callable[[Tensor], Tensor]
Make: TypeAlias = Callable[[MixedPairs], Tensor]

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
    embed_mixes, pool_maps = _as_called(embed, device), None
    if pool is not None and getattr(pool, "linear", False):
        source = _as_called(pool, device)(source)
    elif pool is not None:
        pool_of = _as_called(pool, device)

        def pool_maps(source: Tensor, *pairs: Tensor) -> Tensor:
            return pool_of(MixedPairs(*pairs).of(source))

    def make(pairs: MixedPairs) -> Tensor:
        def of_rows(rows: Tensor) -> Tensor:
            part = pairs.part(rows)
            if pool_maps is None:
                return embed_mixes(part.of(source))
            pooled = in_blocks(pool_maps, source, *part, columns=source[0].numel())
            return embed_mixes(pooled)

        number = len(pairs.first)
        kept = source[0].numel() if pool_maps is None else source.shape[1]
        refuse_too_many(number, kept, "mixes of images or maps")
        embed_rows = of_rows if distribute is None else distribute(of_rows)
        return in_full_precision(embed_rows(torch.arange(number, device=source.device)))

    return make


def _as_called(function: Embed, device: torch.device) -> Embed:
    """``function`` with the autocast that is on now; the rest of the work is done without."""
    enabled = autocast_enabled(device)

    def run(source: Tensor) -> Tensor:
        with autocast(device, enabled=enabled):
            return function(source)

    return run


def follows_from_cosine(distance: Distance) -> bool:
    """Whether the cosine of two unit vectors tells their distance."""
    if not distance.ordered_by_cosine:
        return False
    return distance.is_inverted or isinstance(distance, LpDistance)


def cosines_to_mixes(
    to_first: Tensor, to_second: Tensor, first: Tensor, between: Tensor, share: Tensor
) -> Tensor:
    """``cos(a, v) = (y cos(a, x) + (1 - y) cos(a, z)) / |v|`` of ``v = y x + (1 - y) z``.

    Args:
        to_first: [A, F] the cosines of each anchor a and what comes first in its mixes.
        to_second: [A, N] the cosines of each anchor and the images z.
        first: [A, F] which x of the table come first in the mixes of each anchor.
        between: [T, N] the cosines of the x of a table and the images z.
        share: [T, N] how much of x is in each mix.

    Returns:
        [A, F * N].
    """
    rest = 1 - share
    squared = share.square() + rest.square() + 2 * share * rest * between
    inverse = squared.clamp_min(1e-12).rsqrt()
    of_first, of_second = rows_of(share * inverse, first), rows_of(rest * inverse, first)
    return (of_first * to_first.unsqueeze(2) + of_second * to_second.unsqueeze(1)).flatten(1)


def rows_of(table: Tensor, first: Tensor) -> Tensor:
    """[A, F, N] the rows of a table [T, N] by their numbers [A, F]."""
    return table.index_select(0, first.reshape(-1)).view(*first.shape, table.shape[1])


def similarity_of_cosine(cosine: Tensor, distance: Distance, dimension: int) -> Tensor:
    """What ``distance`` says of unit vectors with this cosine, which is off by rounding."""
    if distance.is_inverted:
        return cosine
    squared = without_rounding(2 - 2 * cosine, 2.0, dimension)
    if distance.power == 2:
        return -squared
    positive = squared > 0  # the root has no gradient at 0
    return -torch.where(positive, squared.where(positive, 1) ** (distance.power / 2), 0)
