"""A chart as an SVG file, by Matplotlib: plotly itself would start a browser for it."""

import io
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from lookalike.report.charts import Chart, json_of

INCH = 96
"""Pixels."""
WIDTH = 760


def as_svg(chart: Chart) -> str:
    """The points, lines, intervals and labels of a chart, in the colours of its light theme."""
    figure = json_of(chart.figure)
    shape = figure["layout"]
    drawing = Figure((WIDTH / INCH, shape["height"] / INCH), layout="constrained")
    FigureCanvasSVG(drawing)
    axes = drawing.add_subplot()
    for trace in chart.figure.data:
        _draw(axes, trace)
    for one in shape.get("annotations", ()):
        where = axes.get_yaxis_transform() if one.get("xref") == "paper" else axes.transData
        style = {"color": one["font"]["color"], "size": 9, "va": "center", "parse_math": False}
        lifted = mpl.transforms.ScaledTranslation(
            0, one.get("yshift", 0) / INCH, drawing.dpi_scale_trans
        )
        axes.text(one["x"], one["y"], _plain(one["text"]), transform=where + lifted, **style)
    for line in shape.get("shapes", ()):
        axes.axvline(line["x0"], color=line["line"]["color"], linewidth=0.8)
    axes.set_xlabel(_plain(shape["xaxis"].get("title", {}).get("text", "")))
    if "range" in shape["yaxis"]:
        axes.set_ylim(*shape["yaxis"]["range"])
    axes.yaxis.set_visible(shape["yaxis"].get("visible", True))
    axes.grid(axis="x", color="#dedad2")
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
    text = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "lookalike"}):
        drawing.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


def _draw(axes: Any, trace: Any) -> None:
    """One series."""
    x, y, alpha = list(trace.x), list(trace.y), trace.opacity
    if "lines" in trace.mode:
        width = (trace.line.width or 2) * 0.75
        axes.plot(x, y, color=trace.line.color, linewidth=width, alpha=alpha)
    if "markers" in trace.mode:
        axes.plot(x, y, "o", color=trace.marker.color, markersize=6)
    if trace.error_x.array is not None:
        low, high = list(trace.error_x.arrayminus), list(trace.error_x.array)
        axes.errorbar(x, y, xerr=[low, high], fmt="none", ecolor=trace.error_x.color)


def _plain(text: str) -> str:
    """A label without the escapes of markup."""
    for escape, letter in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        text = text.replace(escape, letter)
    return text
