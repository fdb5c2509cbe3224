"""The recommendation in sentences: for the terminal, the page and the head of the recipe."""

import shlex
from collections.abc import Sequence
from typing import Any

from lookalike.choose.budget import Extraction
from lookalike.choose.candidates import METRIC
from lookalike.choose.chooser import Recommendation
from lookalike.choose.decision import Decision
from lookalike.compare.uncertainty import Bounds, Difference
from lookalike.config import RunConfig
from lookalike.config.schema import SPLIT_DATASETS
from lookalike.report.formatting import metric_label, signed

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
        f"{metric_label(decision.metric)} {plus_minus(chosen.score, chosen.bounds)} on "
        f"{decision.test_classes:,} classes it has not seen."
    )


def reasons(outcome: Recommendation) -> list[str]:
    """Why: whether training is worth it, and what cannot be told apart.

    Args:
        outcome: What the command found.

    Returns:
        Sentences.
    """
    if outcome.decision is None:
        return [*_untrained(outcome), *(f"Cannot be known: {one}." for one in outcome.unknown)]
    decision = outcome.decision
    found, mine = [_verdict(decision)], name_of(decision.chosen.name)
    if decision.tied:
        found.append(f"No difference can be shown between {mine} and {_listed(decision.tied)}.")
    if decision.beaten:
        found.append(f"{mine[0].upper()}{mine[1:]} is better than {_listed(decision.beaten)}.")
    return found


def _untrained(outcome: Recommendation) -> list[str]:
    one = outcome.untrained
    if one is None:
        return []
    unsure = "" if one.bounds else " How it does on other classes is not known from so few."
    return [
        f"{metric_label(one.metric)} of the network's own features, {one.dim:,} numbers an image: "
        f"{plus_minus(one.score, one.bounds)} over all {one.classes:,} classes, of which it has "
        f"seen none.{unsure}"
    ]


def _verdict(decision: Decision) -> str:
    trained, gain, plain = decision.trained, decision.gain, name_of(decision.untrained.name)
    if trained is None or gain is None:
        return "No training was finished in the time, so whether training helps is not known."
    score = plus_minus(trained.score, trained.bounds)
    untrained = plus_minus(decision.untrained.score, decision.untrained.bounds)
    gap = minus(gain, trained.name).replace(" (", " points, ").rstrip(")")
    tested = (
        f"Tested once, {plain} has {untrained} and {trained.name} {score} ({gap}, which "
        f"{_scope(gain)})."
    )
    return f"{_validated(decision)} {tested}"


def _validated(decision: Decision) -> str:
    """What the validation classes decided."""
    trained, found = decision.trained, decision.validated
    if trained is None or found is None:
        return "Whether training helps is not known: there are too few classes to validate."
    words = "Training is worth it" if decision.training_helps else "Training is not shown to be"
    words += "" if decision.training_helps else " worth it"
    return (
        f"{words}: on validation classes it gains {signed(found.mean)} points of "
        f"{metric_label(METRIC)} over {found.count} folds, at least {signed(found.low)} with 95 % "
        "confidence."
    )


def _scope(gain: Difference) -> str:
    """For what the difference on the test classes holds."""
    if gain.holds:
        return "holds for other classes too"
    if gain.scope == "open":
        return "may be chance"
    return f"holds for {gain.scope} only"


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


def meaning(decision: Decision) -> str:
    """What the number after ± is.

    Args:
        decision: The recommendation.

    Returns:
        A sentence.
    """
    times = f"{decision.trainings} trainings and " if decision.trainings > 1 else ""
    return (
        f"± is half the 95 % interval over {times}{decision.test_classes:,} test classes: what to "
        "expect of other classes like these, in a gallery like this one, with this split and these "
        "searched settings."
    )


def limits(outcome: Recommendation) -> list[str]:
    """What was left out, and what the numbers do not say.

    Args:
        outcome: What the command found.

    Returns:
        Sentences.
    """
    found = _extraction(outcome.extraction, outcome.wanted_views)
    if outcome.decision is not None and outcome.not_tried:
        found.append(
            f"Not tried for lack of time: {', '.join(outcome.not_tried)}; the same command with "
            "more --minutes goes on where this one ended."
        )
    found += [f"Failed: {one}." for one in outcome.failed]
    found.append(
        f"Only heads on the frozen features of {outcome.recipe.model.network} were compared; "
        f"fine-tuning the network was not tried{_fine_tuning(outcome.recipe)}."
    )
    return found


def _fine_tuning(recipe: RunConfig) -> str:
    """The command that would fine-tune, where there is a recipe for such data."""
    if recipe.data.name in SPLIT_DATASETS:
        return ""
    root = shlex.quote(str(recipe.data.root))
    return f" (lookalike train data.name={recipe.data.name} data.root={root})"


def _extraction(extraction: Extraction, wanted: int) -> list[str]:
    found = []
    if extraction.per_class is not None:
        found.append(
            f"To keep the time, {extraction.per_class} images of each class at most were used."
        )
    if extraction.views < wanted:
        found.append(
            f"To keep the time, {extraction.views} augmented views of each image were computed "
            f"instead of {wanted}."
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
    decision = outcome.decision
    found: dict[str, Any] = {
        "recommendation": headline(outcome),
        "reasons": reasons(outcome),
        "limits": limits(outcome),
        "unknown": list(outcome.unknown),
        "not_tried": list(outcome.not_tried),
        "failed": list(outcome.failed),
        "data": {"name": outcome.label, **outcome.survey.as_dict()},
        "extraction": outcome.extraction.as_dict(),
        "seconds": round(outcome.seconds, 1),
        "folder": str(outcome.folder),
    }
    if outcome.untrained is not None:
        one = outcome.untrained
        found["untrained"] = vars(one) | {"bounds": _pair(one.bounds)}
    if decision is not None:
        gain = decision.gain
        found |= {
            "method": decision.chosen.name,
            "metric": decision.metric,
            "training_helps": decision.training_helps,
            "confirmed": decision.confirmed,
            "validated": decision.validated and decision.validated.as_mapping(),
            "test_classes": decision.test_classes,
            "trainings": decision.trainings,
            "gain": gain
            and {
                "better": gain.better,
                "worse": gain.worse,
                "mean": gain.mean,
                "over_trainings": _pair(gain.over_trainings),
                "over_classes": _pair(gain.over_classes),
                "p": gain.p,
                "scope": gain.scope,
            },
            "not_told_apart": list(decision.tied),
            "candidates": [
                {
                    "name": one.name,
                    "trained": one.trained,
                    "dim": one.dim,
                    "validation": one.validation,
                    "score": one.score,
                    "bounds": _pair(one.bounds),
                }
                for one in decision.candidates
            ],
        }
    return found


def _pair(bounds: Bounds | None) -> list[float] | None:
    return None if bounds is None else [bounds.low, bounds.high]
