"""What every page shares: figures that are drawn when near, swatches, style sheet, policy."""

from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from lookalike.report.charts import COLOURS, THEME, Chart, Style, json_of
from lookalike.report.formatting import template, template_text
from lookalike.report.tables import Table, as_html

SCRIPTS = ("base", "map")
WIDTH = 130
"""Characters of a table's line at a width of 1280 px; wider tables are cut between groups."""
SHAPES = (
    "M13 2a4 4 0 1 0 .01 0Z",
    "M9.5 2.5h7v7h-7Z",
    "M13 1l5 5-5 5-5-5Z",
    "M13 1.5l5 9H8Z",
    "M13 10.5l5-9H8Z",
    "M11.5 1.5h3v3h3v3h-3v3h-3v-3h-3v-3h3Z",
)
"""The symbols of charts, in their order."""


def swatch(style: Style) -> Markup:
    """The line and the symbol of a method."""
    ink = "bare" if style.colour is None else f"c{style.colour}"
    shape = SHAPES[((style.colour or 0) + style.line) % len(SHAPES)]
    return Markup(
        '<svg class="swatch {} line{}" viewBox="0 0 26 12" aria-hidden="true">'
        '<path class="stroke" d="M1 6H25"/><path class="fill" d="{}"/></svg>'
    ).format(ink, style.line % 3, shape)


class Shell:
    """One page while it is written: templates draw charts and tables through it.

    Args:
        methods: The styles of methods, which tables show beside their names.
        css: A style sheet besides that of all pages.
    """

    def __init__(self, methods: Sequence[Style] = (), css: str = "") -> None:
        self.methods = list(methods)
        self.swatches = {style.name: swatch(style) for style in methods}
        self.css = Markup(template_text("page.css") + css)
        self.figures: dict[str, Any] = {}
        self.maps: dict[str, Any] = {}

    def draw(self, chart: Chart, key: str = "") -> Markup:
        """The place of a chart, which the page's script fills; ``key`` is its id."""
        key = key or f"chart-{len(self.figures)}"
        self.figures[key] = json_of(chart.figure)
        note = Markup('<figcaption class="note">{}</figcaption>').format(chart.note)
        return Markup(
            '<figure class="drawn{}"><h3>{}</h3>'
            '<div id="{}" class="chart" role="img" aria-label="{}"></div>{}{}</figure>'
        ).format(
            " whole" if chart.wide else "",
            chart.title,
            key,
            chart.title,
            self.legend(chart.legend) if len(chart.legend) > 1 else "",
            note if chart.note else "",
        )

    def legend(self, styles: Iterable[Style]) -> Markup:
        """The styles of a chart, explained."""
        item = Markup("<li>{}{}</li>")
        items = Markup("").join(item.format(swatch(one), one.name) for one in styles)
        return Markup('<ul class="legend">{}</ul>').format(items)

    def table(self, table: Table, anchor: str = "note") -> Markup:
        """A table with swatches beside methods; its marks link to ``#{anchor}-{number}``."""
        return as_html(table.parts(WIDTH, page=True), self.swatches, anchor)

    def map(self, values: dict[str, Any], key: str) -> Markup:
        """Hand the values of a map to the page's script."""
        self.maps[key] = values
        return Markup("")

    def render(self, name: str, package: str = "lookalike.report", **values: Any) -> str:
        """The page of a template."""
        program = Markup("\n".join(template_text(f"script/{one}.js") for one in SCRIPTS))
        data = {
            "figures": self.figures,
            "maps": self.maps,
            "theme": THEME.to_plotly_json(),
            "dark": dict(COLOURS.values()),
        }
        rendered: str = template(name, package).render(
            shell=self,
            css=self.css,
            script=program,
            script_data=data,
            plotly=Markup(get_plotlyjs()),
            **values,
        )
        return rendered
