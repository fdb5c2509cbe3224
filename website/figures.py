"""Figures of the site, as SVG that can be read on a light and on a dark page."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

BLUE, RED, GREY = "#4c8dd6", "#e0683c", "#808080"
"""Colours with enough contrast on white and on dark grey, and for readers who confuse some."""
STYLE = {
    "axes.edgecolor": GREY,
    "axes.labelcolor": GREY,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "font.size": 10,
    "lines.linewidth": 2,
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
    "svg.hashsalt": "lookalike",
    "text.color": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
}


def new_figure(
    columns: int = 1, height: float = 2.8, width: float = 3.8
) -> tuple[Figure, Sequence[Axes]]:
    """An empty figure with some plots beside one another, each of that size in inches."""
    with mpl.rc_context(STYLE):  # type: ignore[arg-type]
        figure, axes = plt.subplots(1, columns, figsize=(width * columns, height), squeeze=False)
    return figure, list(axes[0])


def save(figure: Figure, path: Path) -> None:
    """Write a figure as SVG, without the date, and forget it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):  # type: ignore[arg-type]
        figure.tight_layout()
        figure.savefig(path, format="svg", metadata={"Date": None})
    plt.close(figure)
