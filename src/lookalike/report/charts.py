"""The one place that builds charts: figures of plotly in the page's colours.

A :class:`Chart` is a plotly figure with a title, a note and a legend. Its colours are those of the
style sheet in light; a page replaces them by the dark ones. :mod:`lookalike.report.static` writes
the same figure as SVG, for which plotly itself would start a browser.
"""

import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
ROW = 40
"""The height of a row that has its label above, in pixels."""


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
    """The style of a method: colour (None: grey, for baselines), and line where colours repeat."""

    name: str
    colour: int | None
    line: int = 0

    @property
    def ink(self) -> str:
        """Its colour in light."""
        return colour("bare" if self.colour is None else f"c{self.colour}")

    @property
    def symbol(self) -> str:
        """The shape of its points."""
        return SYMBOLS[((self.colour or 0) + self.line) % len(SYMBOLS)]


def styles(names: Iterable[str]) -> list[Style]:
    """One style for each name, in their order."""
    found = enumerate(dict.fromkeys(names))
    return [Style(name, at % METHOD_COLOURS, at // METHOD_COLOURS) for at, name in found]


def plain_style(name: str) -> Style:
    """The style of the only series of a chart."""
    return Style(name, 0)


def method_styles(contenders: Iterable[MethodResult]) -> list[Style]:
    """One style for each name, the same on every data set; baselines come last."""
    everyone = sorted(contenders, key=lambda one: one.baseline)
    trained = styles(one.name for one in everyone if not one.baseline)
    names = {style.name for style in trained}
    bare = dict.fromkeys(one.name for one in everyone if one.baseline)
    return trained + [Style(name, None, at) for at, name in enumerate(bare) if name not in names]


@dataclass(frozen=True)
class Chart:
    """A figure with what stands round it."""

    title: str
    figure: go.Figure
    note: str = ""
    legend: tuple[Style, ...] = ()
    wide: bool = False
    """Whether it takes the whole width of a page."""


def escaped(text: str) -> str:
    """A text of data in a figure, where plotly would read markup."""
    return html.escape(text, quote=False)


def points(
    x: Sequence[Any],
    y: Sequence[Any],
    style: Style,
    *,
    half: Sequence[float | None] = (),
    across: bool = False,
    lines: bool = False,
    texts: Sequence[str] = (),
    hollow: bool = False,
    limits: tuple[float, float] | None = SCORES,
    hover: str = "%{x}: %{y:.4~g}",
) -> go.Scatter:
    """Points of one style, with lines between them or intervals round them.

    Args:
        x: From left to right.
        y: From below.
        style: Its name is that of the series.
        half: Half an interval, or a deviation, of each point.
        across: Whether intervals lie across; else they stand upright.
        lines: Whether points are joined.
        texts: What is told of each point, besides its values.
        hollow: Whether points are rings.
        limits: What a score can be at least and at most; intervals end there.
        hover: What is told of every point, in the language of plotly.

    Returns:
        The trace.
    """
    marker: dict[str, Any] = {
        "symbol": style.symbol,
        "size": 8 if lines else 10,
        "color": style.ink,
    }
    if hollow:
        marker |= {"symbol": "circle-open", "line": {"width": 2}}
    told = [f"<br>{escaped(text)}" if text else "" for text in texts]
    trace = go.Scatter(
        x=list(x),
        y=list(y),
        name=escaped(style.name),
        mode="lines+markers" if lines else "markers",
        line={"color": style.ink, "width": 2, "dash": DASHES[style.line % len(DASHES)]},
        marker=marker,
        text=told or None,
        cliponaxis=False,
        hovertemplate=f"%{{fullData.name}}<br>{hover}{'%{text}' if told else ''}<extra></extra>",
    )
    if any(half):
        low, high = limits or (float("-inf"), float("inf"))
        pairs = [(float(v), h or 0.0) for v, h in zip(x if across else y, half, strict=True)]
        trace[f"error_{'x' if across else 'y'}"] = {
            "type": "data",
            "symmetric": False,
            "array": [max(0.0, min(h, high - value)) for value, h in pairs],
            "arrayminus": [max(0.0, min(h, value - low)) for value, h in pairs],
            "color": style.ink,
            "thickness": 1.2,
            "width": 3,
        }
    return trace


def chart(
    title: str,
    traces: Sequence[Any],
    *,
    x: str = "",
    y: str = "",
    xaxis: Mapping[str, Any] | None = None,
    yaxis: Mapping[str, Any] | None = None,
    note: str = "",
    legend: Sequence[Style] = (),
    height: int | None = 340,
    wide: bool = False,
    **layout: Any,
) -> Chart:
    """A chart of traces.

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
    shape = {"xaxis": named[0] | dict(xaxis or {}), "yaxis": named[1] | dict(yaxis or {})}
    figure = go.Figure(list(traces), {"template": THEME, "height": height, **shape, **layout})
    return Chart(title, figure, note, tuple(legend), wide)


def year_axis(years: Iterable[float]) -> dict[str, Any]:
    """An axis of whole years."""
    known = list(years)
    few = max(known) - min(known) < 8
    return {"tickformat": "d", **({"dtick": 1} if few else {"nticks": 8})}


def labelled_rows(
    title: str,
    labels: Sequence[str],
    traces: Sequence[Any],
    *,
    inks: Sequence[str] = (),
    above: float = 1,
    **more: Any,
) -> Chart:
    """A chart of rows whose labels stand above them, so that it is as readable on a phone.

    Args:
        title: What stands above.
        labels: From the top; row ``n`` is at ``y = n``.
        traces: Of plotly.
        inks: The colours of labels; none: that of text.
        above: How many rows are left free at the top.
        **more: As of :func:`chart`.

    Returns:
        The chart.
    """
    notes = [
        {
            "text": escaped(label),
            "x": 0,
            "xref": "paper",
            "xanchor": "left",
            "y": number,
            "yshift": 15,
            "showarrow": False,
            "font": {"size": 13, "color": ink},
        }
        for number, (label, ink) in enumerate(
            zip(labels, inks or [colour("ink")] * len(labels), strict=True)
        )
    ]
    upright = {"visible": False, "range": [len(labels) - 0.3, -0.1 - above]}
    xaxis = {"showgrid": True, "nticks": 6} | more.pop("xaxis", {})
    height = 60 + ROW * (len(labels) + above)
    shape: dict[str, Any] = {"yaxis": upright, "height": height, "wide": True} | more
    return chart(title, traces, xaxis=xaxis, annotations=notes, **shape)


def json_of(figure: go.Figure) -> dict[str, Any]:
    """A figure as JSON values, without the theme, which a page has once."""
    values: dict[str, Any] = json.loads(figure.to_json(engine="json"))
    values["layout"].pop("template", None)
    return values
