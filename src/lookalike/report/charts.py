"""The one place that builds charts: a list of points and a kind become a figure of plotly.

A :class:`Chart` is a plotly figure with a title, a note and a legend. Its colours are those of the
style sheet in light; a page replaces them by the dark ones. :func:`as_svg` writes the same figure
by Matplotlib, as plotly itself would start a browser for it.
"""

import html
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import plotly.graph_objects as go

from lookalike.compare.contenders import MethodResult
from lookalike.report.formatting import template_text

COLOURS: dict[str, tuple[str, str]] = {
    name: (light, dark)
    for name, light, dark in re.findall(
        r"--([a-z0-9-]+): light-dark\((#\w+), (#\w+)\)", template_text("page.css")
    )
}
"""The colours of the style sheet by name: in light, in dark."""
METHOD_COLOURS = 6
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross")
DASHES = ("solid", "dash", "dot")
SCORES = (0.0, 100.0)
ROW_HEIGHT = 40
"""The height of a row that has its label above, in pixels."""
SVG_WIDTH, INCH = 760, 96
"""In pixels."""

Kind = Literal["dots", "lines", "curves", "areas", "rows"]
MODES: dict[Kind, str] = {
    "dots": "markers",
    "lines": "lines+markers",
    "curves": "lines",
    "areas": "lines",
    "rows": "markers",
}


def colour(name: str) -> str:
    """A colour of the style sheet, in light."""
    return COLOURS[name][0]


def _axis(**more: Any) -> dict[str, Any]:
    lines = {"gridcolor": colour("line"), "linecolor": colour("line"), "zeroline": False}
    return lines | {"ticks": "", "automargin": True, "fixedrange": True, "title_standoff": 6} | more


THEME = go.layout.Template(
    layout={
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": colour("soft")},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "colorway": [colour(f"c{number}") for number in range(METHOD_COLOURS)],
        "colorscale": {"sequential": [[0, colour("line")], [1, colour("c2")]]},
        "margin": {"l": 8, "r": 10, "t": 8, "b": 8},
        "dragmode": False,
        "hovermode": "closest",
        "showlegend": False,
        "hoverlabel": {
            "bgcolor": colour("raised"),
            "bordercolor": colour("soft"),
            "font": {"color": colour("ink")},
        },
        "xaxis": _axis(showgrid=False, nticks=8),
        "yaxis": _axis(nticks=6, tickformat="~g"),
    }
)


@dataclass(frozen=True)
class Style:
    """The style of a series: colour (None: grey, for baselines), line where colours repeat."""

    name: str
    colour: int | None
    line: int = 0
    hollow: bool = False

    @property
    def ink(self) -> str:
        """Its colour in light."""
        return colour("bare" if self.colour is None else f"c{self.colour}")

    @property
    def symbol(self) -> str:
        """The shape of its points."""
        own = SYMBOLS[((self.colour or 0) + self.line) % len(SYMBOLS)]
        return "circle-open" if self.hollow else own


class Point(NamedTuple):
    """A value of a series.

    Attributes:
        series: What the value belongs to.
        x: From left to right; of rows the value itself. None leaves a gap in a line.
        y: From below; of rows the label of the row.
        half: Half its interval, or its deviation.
        text: What is shown under the pointer, besides the values.
    """

    series: str
    x: Any
    y: Any
    half: float | None = None
    text: str = ""


@dataclass(frozen=True)
class Chart:
    """A figure with its title, note and legend; a wide one takes the whole width of a page."""

    title: str
    figure: go.Figure
    note: str = ""
    legend: tuple[Style, ...] = ()
    wide: bool = False


def styles(names: Iterable[str]) -> dict[str, Style]:
    """One style for each name, in their order."""
    return {
        name: Style(name, at % METHOD_COLOURS, at // METHOD_COLOURS)
        for at, name in enumerate(dict.fromkeys(names))
    }


def method_styles(contenders: Iterable[MethodResult]) -> dict[str, Style]:
    """One style for each method, the same on every data set; baselines are grey and come last."""
    everyone = list(contenders)
    trained = styles(one.name for one in everyone if not one.baseline)
    bare = dict.fromkeys(one.name for one in everyone if one.baseline)
    grey = {name: Style(name, None, at) for at, name in enumerate(bare)}
    return trained | {name: style for name, style in grey.items() if name not in trained}


def escaped(text: str) -> str:
    """A text of data in a figure, where plotly would read markup."""
    return html.escape(text, quote=False)


def chart(
    kind: Kind,
    title: str,
    points: Sequence[Point],
    *,
    styles_of: Mapping[str, Style] | None = None,
    limits: tuple[float, float] | None = SCORES,
    hover: str = "%{x}: %{y:.4~g}",
    legend: bool = True,
    extra: Sequence[Any] = (),
    **more: Any,
) -> Chart:
    """A chart of points.

    Args:
        kind: ``dots``, ``lines`` (with dots), ``curves`` (without), ``areas`` under curves, or
            ``rows``: a label on each row, and the values from left to right.
        title: What stands above.
        points: The values; each series gets a style.
        styles_of: The styles of series by name, where they are known.
        limits: What a score can be at least and at most; intervals end there.
        hover: What is shown of every point under the pointer, in the language of plotly.
        legend: Whether the series are explained beside the chart.
        extra: Traces of plotly besides; the rows of a chart are at 0, 1, ... from the top.
        **more: As of :func:`draw`, and for rows the colours of labels, ``inks``.

    Returns:
        The chart in the page's colours.

    >>> made = chart("lines", "Recall@1 by size", [Point("a", 64, 60.0), Point("a", 128, 61.5)])
    >>> list(made.figure.data[0].y)
    [60.0, 61.5]
    """
    series = dict.fromkeys(point.series for point in points)
    known = styles_of or styles(series)
    used = [known[name] for name in series]
    if kind == "rows":
        labels = list(dict.fromkeys(str(point.y) for point in points))
        points = [point._replace(y=labels.index(str(point.y))) for point in points]
        more = _row_layout(labels, **more)
    traces = [
        _trace(kind, style, [one for one in points if one.series == style.name], limits, hover)
        for style in used
    ]
    return draw(title, [*traces, *extra], legend=used if legend else (), **more)


def _trace(
    kind: Kind,
    style: Style,
    points: Sequence[Point],
    limits: tuple[float, float] | None,
    hover: str,
) -> go.Scatter:
    texts = [f"<br>{escaped(point.text)}" if point.text else "" for point in points]
    shown = "%{text}" if any(texts) else ""
    trace = go.Scatter(
        x=[escaped(point.x) if isinstance(point.x, str) else point.x for point in points],
        y=[point.y for point in points],
        name=escaped(style.name),
        mode=MODES[kind],
        line={"color": style.ink, "width": 2, "dash": DASHES[style.line % len(DASHES)]},
        marker={
            "symbol": style.symbol,
            "size": 8 if kind == "lines" else 10,
            "color": style.ink,
            "line": {"width": 2 if style.hollow else 0},
        },
        text=texts if shown else None,
        cliponaxis=False,
        hovertemplate=f"%{{fullData.name}}<br>{hover}{shown}<extra></extra>",
    )
    if kind == "areas":
        trace.update(fill="tozeroy", opacity=0.7)
    if any(point.half for point in points):
        low, high = limits or (float("-inf"), float("inf"))
        side = "x" if kind == "rows" else "y"
        pairs = [(float(getattr(point, side)), point.half or 0.0) for point in points]
        trace[f"error_{side}"] = {
            "type": "data",
            "symmetric": False,
            "array": [max(0.0, min(half, high - value)) for value, half in pairs],
            "arrayminus": [max(0.0, min(half, value - low)) for value, half in pairs],
            "color": style.ink,
            "thickness": 1.2,
            "width": 3,
        }
    return trace


def _row_layout(
    labels: Sequence[str], inks: Mapping[str, str] | None = None, above: float = 0.4, **more: Any
) -> dict[str, Any]:
    """Labels above their rows, so that a chart is as readable on a phone."""
    notes = [
        {
            "text": escaped(label),
            "x": 0,
            "xref": "paper",
            "xanchor": "left",
            "y": number,
            "yshift": 15,
            "showarrow": False,
            "font": {"size": 13, "color": (inks or {}).get(label, colour("ink"))},
        }
        for number, label in enumerate(labels)
    ]
    return {
        "annotations": notes,
        "yaxis": {"visible": False, "range": [len(labels) - 0.3, -0.1 - above]},
        "xaxis": {"showgrid": True, "nticks": 6},
        "height": 60 + ROW_HEIGHT * (len(labels) + above),
        "wide": True,
    } | more


def draw(
    title: str,
    traces: Sequence[Any],
    *,
    x: str = "",
    y: str = "",
    xaxis: Mapping[str, Any] | None = None,
    yaxis: Mapping[str, Any] | None = None,
    note: str = "",
    legend: Iterable[Style] = (),
    height: float | None = 340,
    wide: bool = False,
    **layout: Any,
) -> Chart:
    """A chart of traces of plotly.

    Args:
        title: What stands above.
        traces: Of plotly.
        x: The title of the axis across.
        y: The title of the axis upwards.
        xaxis: Other settings of the axis across.
        yaxis: Other settings of the axis upwards.
        note: What stands below.
        legend: The styles to explain.
        height: In pixels; None: that of its place.
        wide: Whether it takes the whole width of a page.
        **layout: Other settings of the figure.

    Returns:
        The chart in the page's colours.
    """
    named = [{"title": {"text": escaped(text)}} if text else {} for text in (x, y)]
    axes = {"xaxis": named[0] | dict(xaxis or {}), "yaxis": named[1] | dict(yaxis or {})}
    figure = go.Figure(list(traces), {"template": THEME, "height": height, **axes, **layout})
    return Chart(title, figure, note, tuple(legend), wide)


def year_axis(points: Iterable[Point]) -> dict[str, Any]:
    """An axis of whole years for points at years."""
    years = [point.x for point in points if point.x is not None]
    few = max(years) - min(years) < 8
    return {"tickformat": "d", **({"dtick": 1} if few else {"nticks": 8})}


def json_of(figure: go.Figure) -> dict[str, Any]:
    """A figure as JSON values, without the theme, which a page has once."""
    values: dict[str, Any] = json.loads(figure.to_json(engine="json"))
    values["layout"].pop("template", None)
    return values


def as_svg(chart: Chart) -> str:
    """A chart of rows as an SVG file: points, lines, intervals and labels, in light colours."""
    import matplotlib as mpl  # half a second, and only files need it
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    shape = json_of(chart.figure)["layout"]
    drawing = Figure((SVG_WIDTH / INCH, shape["height"] / INCH), layout="constrained")
    FigureCanvasSVG(drawing)
    axes: Any = drawing.add_subplot()
    for trace in chart.figure.data:
        x, y = list(trace.x), list(trace.y)
        if "lines" in trace.mode:
            width = 0.75 * (trace.line.width or 2)
            axes.plot(x, y, color=trace.line.color, linewidth=width, alpha=trace.opacity)
        if "markers" in trace.mode:
            axes.scatter(x, y, 36, trace.marker.color)
        if trace.error_x.array is not None:
            ends = [list(trace.error_x.arrayminus), list(trace.error_x.array)]
            axes.errorbar(x, y, xerr=ends, fmt="none", ecolor=trace.error_x.color)
    for one in shape.get("annotations", ()):
        style = {"color": one["font"]["color"], "size": 9, "va": "center", "parse_math": False}
        up = mpl.transforms.ScaledTranslation(0, one["yshift"] / INCH, drawing.dpi_scale_trans)
        where = axes.get_yaxis_transform() + up
        axes.text(one["x"], one["y"], html.unescape(one["text"]), transform=where, **style)
    for line in shape.get("shapes", ()):
        axes.axvline(line["x0"], color=line["line"]["color"], linewidth=0.8)
    axes.set_xlabel(html.unescape(shape["xaxis"]["title"]["text"]))
    axes.set_ylim(*shape["yaxis"]["range"])
    axes.yaxis.set_visible(False)
    axes.grid(axis="x", color=colour("line"))
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
    text = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "lookalike"}):
        drawing.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()
