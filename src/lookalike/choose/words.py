"""The recommendation for a reader: sentences, the page, the recipes, and JSON for a program."""

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml
from markupsafe import Markup

from lookalike.choose.chooser import Decision, Recommendation
from lookalike.compare.uncertainty import Bounds, Difference
from lookalike.config import RunConfig
from lookalike.config.schema import SPLIT_DATASETS
from lookalike.files import write_json, write_texts
from lookalike.report.formatting import metric_label, signed, template, template_text
from lookalike.report.page import write_page

BASELINE_NAMES = {
    "LDA, shrunk": "LDA without training",
    "PCA": "PCA without training",
    "raw features": "the network's own features",
}


def name_of(name: str) -> str:
    """What a sentence calls a candidate.

    Args:
        name: Its name in tables.

    Returns:
        The same; of a baseline, a name that says that nothing is trained.
    """
    return BASELINE_NAMES.get(name, name)


def plus_minus(score: float, bounds: Bounds | None) -> str:
    """A score in per cent with half its interval.

    >>> plus_minus(0.7266, Bounds(0.64, 0.81))
    '72.7 ± 8.5'
    """
    half = "" if bounds is None else f" ± {50 * (bounds.high - bounds.low):.1f}"
    return f"{100 * score:.1f}{half}"


def headline(outcome: Recommendation) -> str:
    """The recommendation in one sentence.

    Args:
        outcome: What the command found.

    Returns:
        What to use, and how well it does.
    """
    if outcome.decision is None:
        return "Use the network's own features: with so few classes nothing better can be shown."
    decision, chosen = outcome.decision, outcome.decision.chosen
    return (
        f"Use {name_of(chosen.name)}, {chosen.dim:,} numbers an image: "
        f"{metric_label(decision.compared.metric)} {plus_minus(chosen.score, chosen.bounds)} on "
        f"{decision.compared.classes:,} classes it has not seen."
    )


def reasons(outcome: Recommendation) -> list[str]:
    """Why: whether training is worth it, and what cannot be told apart.

    Args:
        outcome: What the command found.

    Returns:
        Sentences.
    """
    if (one := outcome.untrained) is not None:
        unsure = "" if one.bounds else " How it does on other classes is not known from so few."
        scored = (
            f"{metric_label(one.metric)} of the network's own features, {one.dim:,} numbers an "
            f"image: {plus_minus(one.score, one.bounds)} over all {one.classes:,} classes, of "
            f"which it has seen none.{unsure}"
        )
        return [scored, *(f"Cannot be known: {reason}." for reason in outcome.unknown)]
    if (decision := outcome.decision) is None:
        return []
    found, mine = [_verdict(decision)], name_of(decision.chosen.name)
    if decision.tied:
        found.append(f"No difference can be shown between {mine} and {_listed(decision.tied)}.")
    if decision.beaten:
        found.append(f"{mine[0].upper()}{mine[1:]} is better than {_listed(decision.beaten)}.")
    return found


def _verdict(decision: Decision) -> str:
    """What the validation classes decided, and what the test shows of it."""
    trained, plain = decision.trained, decision.untrained
    gain, found = decision.gain, decision.validated
    if trained is None or gain is None:
        return "No training was finished in the time, so whether training helps is not known."
    validated = "Whether training helps is not known: there are too few classes to validate."
    if found is not None:
        shown = "worth it" if decision.training_helps else "not shown to be worth it"
        validated = (
            f"Training is {shown}: on validation classes it gains {signed(found.mean)} points of "
            f"{metric_label(decision.gathered.studies[0].metric)} over {found.count} folds, at "
            f"least {signed(found.low)} with 95 % confidence."
        )
    scope = "may be chance" if gain.scope == "open" else f"holds for {gain.scope} only"
    if gain.holds:
        scope = "holds for other classes too"
    gap = minus(gain, trained.name).replace(" (", " points, ").rstrip(")")
    return (
        f"{validated} Tested once, {name_of(plain.name)} has "
        f"{plus_minus(plain.score, plain.bounds)} and {trained.name} "
        f"{plus_minus(trained.score, trained.bounds)} ({gap}, which {scope})."
    )


def minus(difference: Difference, name: str) -> str:
    """One of a pair minus the other, with the interval over classes.

    Args:
        difference: The pair.
        name: The first.

    Returns:
        Points: "+0.6 (−0.9 to +2.3)".
    """
    mean, bounds = difference.mean, difference.over_classes
    if name != difference.better:
        mean, bounds = -mean, bounds and Bounds(-bounds.high, -bounds.low)
    interval = "" if bounds is None else f" ({signed(bounds.low)} to {signed(bounds.high)})"
    return signed(mean) + interval


def limits(outcome: Recommendation) -> list[str]:
    """What was left out, and what the numbers do not say.

    Args:
        outcome: What the command found.

    Returns:
        Sentences.
    """
    found, decision, extraction = [], outcome.decision, outcome.look.extraction
    if decision is not None:
        times = f"{decision.trainings} trainings and " if decision.trainings > 1 else ""
        found.append(
            f"± is half the 95 % interval over {times}{decision.compared.classes:,} test classes: "
            "what to expect of other classes like these, in a gallery like this one, with this "
            "split and these searched settings."
        )
    if extraction.per_class is not None:
        found.append(
            f"To keep the time, {extraction.per_class} images of each class at most were used."
        )
    if extraction.views < outcome.wanted_views:
        found.append(
            f"To keep the time, {extraction.views} augmented views of each image were computed "
            f"instead of {outcome.wanted_views}."
        )
    if decision is not None and outcome.not_tried:
        found.append(
            f"Not tried for lack of time: {', '.join(outcome.not_tried)}; the same command with "
            "more --minutes goes on where this one ended."
        )
    found += [f"Failed: {one}." for one in outcome.failed]
    given, command = outcome.recipe.data, ""
    if given.name not in SPLIT_DATASETS:  # there is a recipe for such data
        root = shlex.quote(str(given.root))
        command = f" (lookalike train data.name={given.name} data.root={root})"
    found.append(
        f"Only heads on the frozen features of {outcome.recipe.model.network} were compared; "
        f"fine-tuning the network was not tried{command}."
    )
    return found


def _listed(given: Sequence[str]) -> str:
    names = [name_of(name) for name in given]
    return ", ".join(names[:-1]) + " or " * (len(names) > 1) + names[-1]


def as_dict(outcome: Recommendation) -> dict[str, Any]:
    """The outcome for a program.

    Args:
        outcome: What the command found.

    Returns:
        Values that JSON has.
    """
    decision, untrained = outcome.decision, outcome.untrained
    found: dict[str, Any] = {
        "recommendation": headline(outcome),
        "reasons": reasons(outcome),
        "limits": limits(outcome),
        "unknown": outcome.unknown,
        "not_tried": outcome.not_tried,
        "failed": outcome.failed,
        "data": {"name": outcome.label, **asdict(outcome.look.survey)},
        "extraction": asdict(outcome.look.extraction),
        "seconds": round(outcome.seconds, 1),
        "folder": str(outcome.folder),
    }
    if untrained is not None:
        found["untrained"] = _plain(untrained)
    if decision is not None:
        gain = decision.gain
        found |= {
            "method": decision.chosen.name,
            "metric": decision.compared.metric,
            "training_helps": decision.training_helps,
            "confirmed": decision.confirmed,
            "validated": decision.validated and decision.validated.as_mapping(),
            "test_classes": decision.compared.classes,
            "trainings": decision.trainings,
            "gain": gain and _plain(gain) | {"scope": gain.scope},
            "not_told_apart": decision.tied,
            "candidates": [_plain(one) | {"trained": one.trained} for one in decision.candidates],
        }
    return found


def _plain(one: Any) -> dict[str, Any]:
    """The fields of a candidate or a difference; an interval as its two ends."""
    fields = {key: value for key, value in vars(one).items() if key != "row"}
    return {k: [v.low, v.high] if isinstance(v, Bounds) else v for k, v in fields.items()}


def recipe_text(config: RunConfig, about: Sequence[str]) -> str:
    """A configuration as a recipe, without what is the default.

    Args:
        config: The configuration.
        about: Lines of comment at its beginning.

    Returns:
        The YAML.
    """
    values = config.model_dump(mode="json", exclude_defaults=True)
    values.get("train", {}).pop("device", None)  # the best that there is
    if config.data.root is not None:
        values["data"]["root"] = str(config.data.root.expanduser().resolve())
    comment = "".join(f"# {line}\n" for line in about)
    return comment + yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def next_commands(outcome: Recommendation) -> list[str]:
    """What to do next: train what is recommended, or the trained one in any case."""
    found = [f"lookalike train {outcome.folder / 'recipe.yaml'}"]
    if outcome.alternative is not None:
        found.append(f"lookalike train {outcome.folder / 'trained.yaml'}  # to train anyway")
    return found


def write_outcome(outcome: Recommendation, command: str) -> tuple[Path, Path]:
    """Write the page, the recipes and ``recommendation.json`` into the folder of the results.

    Args:
        outcome: What the command found.
        command: The command that found it.

    Returns:
        The page, and the recipe of what is recommended.
    """
    folder, decision = outcome.folder, outcome.decision
    lead, why = headline(outcome), reasons(outcome)
    recipe, page = folder / "recipe.yaml", folder / "page.html"
    origin = f"Written by: {command}"
    write_texts(recipe, {".yaml": recipe_text(outcome.recipe, (origin, lead, *why))})
    if outcome.alternative is not None and decision and decision.trained:
        chosen = f"{decision.trained.name}, the best trained method on validation classes"
        text = recipe_text(outcome.alternative, (origin, chosen, *why))
        write_texts(folder / "trained.yaml", {".yaml": text})
    title = f"Which method for {outcome.label}?"
    css = (Path(__file__).parent / "templates" / "summary.css").read_text(encoding="utf-8")
    summary = Markup(
        template("summary.html.j2", "lookalike.choose").render(
            survey=outcome.look.survey,
            reasons=why,
            limits=limits(outcome),
            commands=next_commands(outcome),
            decision=decision,
            name_of=name_of,
            plus_minus=plus_minus,
            minus=minus,
        )
    )
    if decision is None or decision.trained is None:
        alone = template("alone.html.j2", "lookalike.choose")
        css = Markup(template_text("page.css") + css)
        text = alone.render(title=title, lead=lead, summary=summary, css=css)
        write_texts(page, {".html": text})
    else:
        write_page(
            page,
            decision.gathered,
            title,
            lead,
            commands=[command],
            metric=decision.compared.metric,
            summary=summary,
            css=css,
        )
    write_json(folder / "recommendation.json", as_dict(outcome))
    return page, recipe
