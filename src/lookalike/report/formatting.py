"""How numbers and names are shown, and the templates that show them."""

from pathlib import Path

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template

from lookalike.study.intervals import Interval

NOTHING = "–"
_INITIALS = {"map", "mrr", "ndcg", "nmi", "ami"}


def metric_label(metric: str) -> str:
    """The name of a metric as papers print it.

    >>> metric_label("recall@1"), metric_label("map@r"), metric_label("r-precision")
    ('Recall@1', 'MAP@R', 'R-precision')
    """
    name, at, cut = metric.partition("@")
    shown = name.upper() if name in _INITIALS else name[:1].upper() + name[1:]
    return shown + at + cut.upper()


def percent(score: float | None) -> str:
    """A score between 0 and 1 in per cent with one decimal.

    >>> percent(0.8349)
    '83.5'
    """
    return NOTHING if score is None else f"{100 * score:.1f}"


def signed(difference: float | None) -> str:
    """A difference of scores in points, with its sign unless it is zero.

    >>> signed(0.4), signed(-0.001), signed(0.0)
    ('+40.0', '−0.1', '0.0')
    """
    if difference is None:
        return NOTHING
    points = round(100 * difference, 1)
    sign = "+" if points > 0 else "−" if points < 0 else ""
    return f"{sign}{abs(points):.1f}"


def plus_minus(score: Interval | None) -> str:
    """Half the interval in points, or the deviation over folds, where there is one.

    >>> plus_minus(Interval(0.5, 0.01, 0.49, 0.51, 4)), plus_minus(None)
    ('1.0', '')
    """
    return "" if score is None or score.half is None else f"{100 * score.half:.1f}"


def template(name: str, package: str = "lookalike.report") -> Template:
    """The template of a page, of another package too; an undefined variable is an error."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("lookalike.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (percent, signed, plus_minus, metric_label)
    environment.filters |= {function.__name__: function for function in filters}
    return environment.get_template(name)


def template_text(name: str) -> str:
    """The text of a style sheet or script in the templates' folder."""
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")
