"""The critical-difference diagram: average ranks, and bars over methods that do not differ.

Demšar, JMLR 2006, figure 1. Not by scikit-posthocs, whose Matplotlib picture has fixed fonts and
colours: this SVG follows the page's in light and dark, without pandas, seaborn and statsmodels.
"""

import math
from collections.abc import Callable
from xml.sax.saxutils import escape

from lookalike.compare.comparison import Tournament

__all__ = ["critical_difference_diagram"]

AXIS = 360
LETTER = 7.9
"""The width of a letter of a label, on the safe side."""
TOP = 66
ROW = 24
BAR = 11

STYLE = """
text { font: 14px system-ui, "Segoe UI", Roboto, Arial, sans-serif; fill: currentColor }
line, path { stroke: currentColor; fill: none }
.thin { stroke-width: 1 } .group { stroke-width: 5; stroke-linecap: round } .soft { opacity: .7 }
svg { color: #1d2126 }
@media (prefers-color-scheme: dark) { svg { color: #e8e6e1 } }
"""


def critical_difference_diagram(tournament: Tournament, *, alone: bool = False) -> str:
    """The diagram as SVG; ``alone``: a file of its own, which contains its style."""
    standings = tournament.standings
    count = len(standings)
    low, high = 1, max(2, count)
    labels = [(f"{one.rank:.2f}", one.name) for one in standings]
    margin = 24 + LETTER * max(len(rank) + 2 + len(name) for rank, name in labels)
    width = AXIS + 2 * margin

    def x(rank: float) -> float:
        return margin + AXIS * (rank - low) / (high - low)

    groups_end = TOP + 14 + BAR * len(tournament.groups)
    parts = [_axis(x, low, high), _distance(x, tournament.distance, low, high)]
    rank_of = {one.name: one.rank for one in standings}
    for number, group in enumerate(tournament.groups):
        y = TOP + 14 + BAR * number
        start, end = rank_of[group[0]], rank_of[group[-1]]
        parts.append(
            f'<line class="group" x1="{x(start) - 3:.1f}" x2="{x(end) + 3:.1f}" y1="{y}" y2="{y}"/>'
        )
    left = math.ceil(count / 2)
    for place, (one, (rank, name)) in enumerate(zip(standings, labels, strict=True)):
        on_left = place < left
        row = place if on_left else count - 1 - place
        y = groups_end + 12 + ROW * row
        edge = margin - 14 if on_left else width - margin + 14
        anchor, shift = ("end", -6) if on_left else ("start", 6)
        label = f"{name}  {rank}" if on_left else f"{rank}  {name}"
        parts.append(f'<path class="thin" d="M{x(one.rank):.1f} {TOP}V{y}H{edge:.1f}"/>')
        parts.append(
            f'<text x="{edge + shift:.1f}" y="{y + 5}" text-anchor="{anchor}">'
            f"{escape(label)}</text>"
        )
    height = groups_end + 12 + ROW * left
    title = f"Average ranks of {count} methods over {tournament.about}"
    style = f"<style>{STYLE}</style>" if alone else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="ranks" viewBox="0 0 {width:.0f} {height}" '
        f'role="img" aria-label="{escape(title)}">{style}{"".join(parts)}</svg>'
    )


def _axis(x: Callable[[float], float], low: int, high: int) -> str:
    step = max(1, math.ceil((high - low) / 14))
    ticks = range(low, high + 1, step)
    marks = "".join(
        f'<line class="thin" x1="{x(t):.1f}" x2="{x(t):.1f}" y1="{TOP - 6}" y2="{TOP}"/>'
        f'<text x="{x(t):.1f}" y="{TOP - 11}" text-anchor="middle">{t}</text>'
        for t in ticks
    )
    return f'<line class="thin" x1="{x(low):.1f}" x2="{x(high):.1f}" y1="{TOP}" y2="{TOP}"/>{marks}'


def _distance(x: Callable[[float], float], distance: float, low: int, high: int) -> str:
    """The critical difference as a length above the axis."""
    end = min(low + distance, high)
    start_x, end_x, y = x(low), x(end), 20
    broken = " (longer than the axis)" if low + distance > high else ""
    return (
        f'<path class="thin" d="M{start_x:.1f} {y - 5}V{y + 5}M{start_x:.1f} {y}H{end_x:.1f}'
        f'M{end_x:.1f} {y - 5}V{y + 5}"/>'
        f'<text class="soft" x="{end_x + 8:.1f}" y="{y + 5}">'
        f"critical difference {distance:.2f}{broken}</text>"
    )
