"""How numbers and names are shown, and the templates that show them."""

import base64
import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from lookalike.study.intervals import Interval

NOTHING = "–"
ROUNDING = 1e-9
"""A smaller width is that of equal scores, such as of the raw features in every study."""
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
    half = None if score is None else score.half
    return "" if half is None or half < ROUNDING else spread(half)


def spread(value: float) -> str:
    """A width in points: one decimal, or two where one would show "0.0".

    >>> spread(0.012), spread(0.0002), spread(0.00001)
    ('1.2', '0.02', '<0.01')
    """
    points = 100 * value
    if points >= 0.05:
        return f"{points:.1f}"
    return f"{points:.2f}" if points >= 0.005 else "<0.01"


def models_spread(score: Interval | None) -> str:
    """The deviation of single models in brackets, where ± is an interval of their mean."""
    if score is None or score.over == "folds" or math.isnan(score.models) or score.half is None:
        return ""
    return f" ({spread(score.models)})"


def work(trainings: int, trials: int, classes: int) -> str:
    """How much work is behind scores.

    >>> work(60, 0, 1140)
    '60 training runs, 1,140 test classes'
    """
    counts = ((trainings, "training runs"), (trials, "trials"), (classes, "test classes"))
    return ", ".join(f"{count:,} {what}" for count, what in counts if count)


def p_value(p: float) -> str:
    """A p-value with its sign; a small one is a bound, never "0".

    >>> p_value(0.0312), p_value(1e-16)
    ('p = 0.031', 'p < 0.0001')
    """
    return "p < 0.0001" if p < 0.0001 else f"p = {p:.2g}"


def data_link(kind: str, text: str) -> str:
    """The address of a text that is in the page itself, to be downloaded.

    >>> data_link("text/csv", "a b")
    'data:text/csv;charset=utf-8,a%20b'
    """
    return f"data:{kind};charset=utf-8,{quote(text, errors='replace')}"


def policy(styles: Sequence[str] = (), scripts: Sequence[str] = ()) -> Markup:
    """The Content-Security-Policy of a page that is one file: these texts, and nothing else.

    A style sheet or script is known by its hash, so that nothing that came from data can run. An
    empty style sheet is what Plotly adds its rules to.
    """
    parts = ["default-src 'none'", "img-src data: blob:", "base-uri 'none'", "form-action 'none'"]
    for directive, texts in (("style-src", styles), ("script-src", scripts)):
        hashes = [
            base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts
        ]
        if hashes:
            parts.append(" ".join([directive, *(f"'sha256-{one}'" for one in hashes)]))
    return Markup("; ".join(parts))


def template(name: str, package: str = "lookalike.report") -> Template:
    """The template of a page, of another package too; an undefined variable is an error."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("lookalike.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (percent, signed, p_value, metric_label)
    environment.filters |= {function.__name__: function for function in filters}
    environment.globals["policy"] = policy
    return environment.get_template(name)


def template_text(name: str) -> str:
    """The text of a style sheet or script in the templates' folder."""
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")
