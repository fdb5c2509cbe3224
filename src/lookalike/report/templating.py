"""The templates of the pages and their filters."""

from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from lookalike.report.tables import metric_label, percent, plus_minus, signed

__all__ = ["template", "template_text"]


def template(name: str) -> Template:
    """The template of a page; an undefined variable in it is an error."""
    environment = Environment(
        loader=PackageLoader("lookalike.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "percent": percent,
        "signed": signed,
        "plus_minus": plus_minus,
        "metric_label": metric_label,
    }
    return environment.get_template(name)


def template_text(name: str) -> str:
    """The text of a style sheet or script in the templates' folder."""
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")
