"""The files of a recommendation: the page, and the recipes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from lookalike.choose.candidates import METRIC
from lookalike.choose.chooser import Recommendation
from lookalike.choose.decision import Decision
from lookalike.choose.recipe import recipe_text
from lookalike.choose.words import as_dict, headline, limits, minus, name_of, plus_minus, reasons
from lookalike.compare.uncertainty import Difference
from lookalike.files import atomically, write_json
from lookalike.report.formatting import metric_label, template, template_text
from lookalike.report.page import write_page


@dataclass(frozen=True)
class Written:
    """The files that were written.

    Attributes:
        page: The HTML page.
        recipe: What is recommended, for ``lookalike train``.
        alternative: The trained method, where an untrained one is recommended.
    """

    page: Path
    recipe: Path
    alternative: Path | None


def write_outcome(outcome: Recommendation, command: str) -> Written:
    """Write the page, the recipes and ``recommendation.json`` into the folder of the results.

    Args:
        outcome: What the command found.
        command: The command that found it.

    Returns:
        The files.
    """
    folder = outcome.folder
    recipe = folder / "recipe.yaml"
    about = (f"Written by: {command}", headline(outcome), *reasons(outcome))
    _write(recipe, recipe_text(outcome.recipe, about))
    alternative = None
    decision = outcome.decision
    if outcome.alternative is not None and decision is not None and decision.trained is not None:
        alternative = folder / "trained.yaml"
        chosen = f"{decision.trained.name}, the best trained method on validation classes"
        _write(alternative, recipe_text(outcome.alternative, (about[0], chosen, *reasons(outcome))))
    page = folder / "page.html"
    written = Written(page, recipe, alternative)
    title = f"Which method for {outcome.label}?"
    summary = _summary(outcome, written)
    if decision is None or decision.trained is None or outcome.gathered is None:
        css = Markup(template_text("page.css") + own_css())
        alone = template("alone.html.j2", "lookalike.choose")
        _write(page, alone.render(title=title, lead=headline(outcome), summary=summary, css=css))
    else:
        write_page(
            page,
            outcome.gathered,
            title,
            headline(outcome),
            commands=[command],
            metric=decision.metric,
            summary=summary,
            css=own_css(),
        )
    write_json(folder / "recommendation.json", as_dict(outcome))
    return written


def own_css() -> str:
    """The style sheet of the summary."""
    return (Path(__file__).parent / "templates" / "summary.css").read_text(encoding="utf-8")


def _summary(outcome: Recommendation, written: Written) -> Markup:
    """The section of the page that says what to do, and why."""
    decision = outcome.decision
    text = template("summary.html.j2", "lookalike.choose").render(
        survey=outcome.survey,
        reasons=reasons(outcome),
        limits=limits(outcome),
        commands=next_commands(written),
        rows=_rows(decision) if decision else [],
        metric=metric_label(decision.metric) if decision else "",
        validation=metric_label(METRIC),
        decision=decision,
        seconds=outcome.seconds,
    )
    return Markup(text)


def _rows(decision: Decision) -> list[dict[str, Any]]:
    """The candidates, the recommended one first, then by their validation scores."""
    to_others = {decision.other(one): one for one in decision.to_others}
    rows = []
    for one in sorted(decision.candidates, key=lambda c: c is not decision.chosen):
        gap = to_others.get(one.name)
        rows.append(
            {
                "name": name_of(one.name),
                "chosen": one is decision.chosen,
                "dim": one.dim,
                "validation": f"{100 * one.validation:.1f}",
                "score": plus_minus(one.score, one.bounds),
                "gap": minus(gap, one.name) if gap else None,
                "kind": "open" if not gap or not gap.holds else _kind(gap, one.name),
            }
        )
    return rows


def _kind(gap: Difference, name: str) -> str:
    return "better" if gap.better == name else "worse"


def next_commands(written: Written) -> list[str]:
    """What to do next.

    Args:
        written: The files of the recommendation.

    Returns:
        Commands.
    """
    found = [f"lookalike train {written.recipe}"]
    if written.alternative is not None:
        found.append(f"lookalike train {written.alternative}  # to train anyway")
    return found


def _write(path: Path, text: str) -> None:
    with atomically(path) as draft:
        draft.write_text(text, encoding="utf-8")
