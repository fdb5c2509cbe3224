"""The diagram of average ranks, with bars over methods that cannot be told apart.

Demšar, JMLR 2006, figure 1. Over data sets the bars are those of Nemenyi's test, with its critical
difference; over test classes those of the rule for pairs. Not by scikit-posthocs, whose Matplotlib
picture has fixed fonts and colours: this SVG follows the page's in light and dark, without pandas,
seaborn and statsmodels.
"""

import math

from lookalike.compare.comparison import Tournament
from lookalike.report.formatting import template

AXIS = 360
LETTER = 7.9
"""The width of a letter of a label, at most."""
TOP = 66
ROW = 24
BAR = 11


def critical_difference_diagram(tournament: Tournament, *, alone: bool = False) -> str:
    """The diagram as SVG; ``alone``: a file of its own, which contains its style."""
    standings, high = tournament.standings, max(2, len(tournament.standings))
    margin = 24 + LETTER * max(len(f"{one.rank:.2f}  {one.name}") for one in standings)
    width = AXIS + 2 * margin

    def x(rank: float) -> float:
        return round(margin + AXIS * (rank - 1) / (high - 1), 1)

    rank_of = {one.name: one.rank for one in standings}
    bars = [
        {"start": x(rank_of[group[0]]), "end": x(rank_of[group[-1]]), "y": TOP + 14 + BAR * number}
        for number, group in enumerate(tournament.groups)
    ]
    first_row = TOP + 26 + BAR * len(bars)
    left = math.ceil(len(standings) / 2)
    labels = []
    for place, one in enumerate(standings):
        row, edge, shift, anchor = place, margin - 14, -6, "end"
        text = f"{one.name}  {one.rank:.2f}"
        if place >= left:
            row, edge, shift, anchor = len(standings) - 1 - place, width - margin + 14, 6, "start"
            text = f"{one.rank:.2f}  {one.name}"
        label = {"x": x(one.rank), "y": first_row + ROW * row, "edge": round(edge, 1)}
        labels.append(label | {"shift": shift, "anchor": anchor, "text": text})
    distance = tournament.distance
    end, step = 1 + (distance or 0.0), max(1, math.ceil((high - 1) / 14))
    return template("critical_difference.svg.j2").render(
        width=width,
        height=first_row + ROW * left,
        about=tournament.about,
        alone=alone,
        top=TOP,
        ticks=[{"x": x(rank), "rank": rank} for rank in range(1, high + 1, step)],
        axis_end=x(high),
        distance=distance,
        distance_end=x(min(end, high)),
        longer=end > high,
        bars=bars,
        labels=labels,
    )
