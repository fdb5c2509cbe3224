"""The templates of the pages, and the words that they may use."""

from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from lookalike.report.tables import metric_label, percent, plus_minus, signed

__all__ = ["template", "template_text"]


def template(name: str) -> Template:
    """The template of a page; a word that it does not know is an error."""
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
    """A file beside the templates as it is: styles, scripts."""
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")
