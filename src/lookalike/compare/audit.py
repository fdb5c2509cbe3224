"""The fairness audit: how experiments that stand in one table differ beyond the method.

An :class:`Experiment` is a row of a table with its conditions: network, size, crop, budget, choice
of epoch. It may be a real run or one that a paper describes. Rows may be ranked only where nothing
but the method differs (Musgrave, Belongie and Lim, ECCV 2020, section 2).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["CONDITIONS", "Audit", "Experiment", "Flaw", "audit", "listed"]

CONDITIONS = {
    "data": "data set",
    "network": "network",
    "weights": "starting weights",
    "dim": "embedding size",
    "pooling": "pooling",
    "transform": "crop and augmentation",
    "image_size": "image size",
    "bn_frozen": "frozen batch normalisation",
    "epochs": "epochs",
    "steps": "training steps",
    "batch_size": "batch size",
    "optimizer": "optimiser",
    "lr": "learning rate",
    "weight_decay": "weight decay",
    "schedule": "schedule of the learning rate",
    "protocol": "protocol",
    "selection": "what chose the epoch and the settings",
    "trials": "tuning trials",
    "seeds": "trainings behind the score",
    "extra_data": "extra training data",
    "ensemble": "models joined into one embedding",
}
"""What must be equal, by its key in a description; real runs may differ in further keys."""

BEFORE_TRAINING = ("data", "network", "weights", "transform", "image_size", "extra_data")
"""What concerns a baseline that is not trained."""

MAY_STAY_UNSAID = {
    "steps": "epochs",
    "weight_decay": "optimizer",
    "lr": "optimizer",
    "schedule": "optimizer",
    "protocol": "selection",
}
"""Details that need not be told where the other condition is: few papers do, and few flaws hide."""

SELECTED_ON_TEST = "test"
NO_VALIDATION = "last epoch"

Kind = Literal[
    "differs", "selected on test", "undisclosed", "omitted", "not said", "weak", "outdated"
]
Verdict = Literal["fair", "unfair", "cannot be told"]


@dataclass(frozen=True)
class Experiment:
    """One row of a comparison.

    ``claims`` is what its paper says where that is not what was done, ``omits`` what the paper
    leaves out though it was done, ``tuned`` the conditions that its own tuning chose.
    """

    name: str
    conditions: Mapping[str, Any]
    claims: Mapping[str, Any] = field(default_factory=dict)
    omits: tuple[str, ...] = ()
    tuned: frozenset[str] = frozenset()
    trained: bool = True
    folds: int = 1
    """Models behind the score for each seed, one for each fold."""
    outdated: str = ""
    """Why the score is not what the present version of the code would find."""
    score: float | None = None


@dataclass(frozen=True)
class Flaw:
    """One thing that is wrong with a comparison, and the rows that it concerns."""

    kind: Kind
    condition: str
    rows: tuple[str, ...]
    sentence: str


@dataclass(frozen=True)
class Audit:
    """What was found about some rows."""

    rows: tuple[str, ...]
    flaws: tuple[Flaw, ...]

    @property
    def verdict(self) -> Verdict:
        """Whether a ranking would be fair. Weak or outdated evidence does not make it unfair."""
        kinds = {flaw.kind for flaw in self.flaws}
        if kinds & {"differs", "selected on test", "undisclosed", "omitted"}:
            return "unfair"
        return "cannot be told" if "not said" in kinds else "fair"

    @property
    def fair(self) -> bool:
        """Whether the rows may be ranked."""
        return self.verdict == "fair"

    def marks(self, row: str) -> list[int]:
        """The numbers, from 1, of the flaws that concern ``row``."""
        return [number for number, flaw in enumerate(self.flaws, 1) if row in flaw.rows]


def audit(experiments: Sequence[Experiment]) -> Audit:
    """Find every way in which ``experiments`` differ beyond the method, or cannot be trusted."""
    rows = tuple(one.name for one in experiments)
    trained = [one for one in experiments if one.trained]
    flaws = [*_differences(experiments, BEFORE_TRAINING)]
    flaws += _differences(trained, [key for key in _keys(trained) if key not in BEFORE_TRAINING])
    flaws += _selections(trained)
    flaws += [flaw for one in experiments for flaw in _disclosure(one)]
    flaws += _weakness(trained)
    flaws += _outdated(experiments)
    return Audit(rows, tuple(flaws))


def _keys(experiments: Iterable[Experiment]) -> list[str]:
    """Every condition: the known ones in their order, then what else the rows have."""
    others = dict.fromkeys(key for one in experiments for key in one.conditions)
    return [*CONDITIONS, *(key for key in others if key not in CONDITIONS)]


def _differences(experiments: Sequence[Experiment], keys: Iterable[str]) -> Iterable[Flaw]:
    for key in keys:
        fixed = [one for one in experiments if key not in one.tuned]
        if 0 < len(fixed) < len(experiments):
            yield _partly_tuned(key, experiments, fixed)
        said: dict[str, list[str]] = {}
        shown: dict[str, str] = {}
        for one in fixed:
            if one.conditions.get(key) is not None:
                same = _same(one.conditions[key])
                said.setdefault(same, []).append(one.name)
                shown.setdefault(same, _shown(one.conditions[key]))
        if len(said) > 1:
            groups = "; ".join(f"{shown[same]} ({listed(who)})" for same, who in said.items())
            yield Flaw("differs", key, _odd(said), f"{_title(key)}: {groups}.")
        yield from _unsaid(key, fixed)


def _odd(said: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The rows that are not as most are; all of them where no value is the most common."""
    most = max(map(len, said.values()))
    usual = [value for value, who in said.items() if len(who) == most]
    kept = set(usual) if len(usual) == 1 else set()
    return tuple(name for value, who in said.items() if value not in kept for name in who)


def _partly_tuned(key: str, every: Sequence[Experiment], fixed: Sequence[Experiment]) -> Flaw:
    tuned = [one.name for one in every if key in one.tuned]
    return Flaw(
        "differs",
        key,
        tuple(one.name for one in every),
        f"{_title(key)}: tuned for {listed(tuned)} "
        f"and fixed for {listed([one.name for one in fixed])}.",
    )


def _unsaid(key: str, experiments: Sequence[Experiment]) -> Iterable[Flaw]:
    """Conditions of the known list that a row does not tell."""
    if key not in CONDITIONS:
        return
    silent = [one.name for one in experiments if _is_silent(one, key)]
    if silent:
        every = len(silent) == len(experiments) > 1
        words = f"{_title(key)}: not said{'' if every else f' of {listed(silent)}'}."
        yield Flaw("not said", key, tuple(silent), words)


def _is_silent(one: Experiment, key: str) -> bool:
    if one.conditions.get(key) is not None or key in one.omits:
        return False
    other = MAY_STAY_UNSAID.get(key)
    return other is None or one.conditions.get(other) is None


def _selections(experiments: Sequence[Experiment]) -> Iterable[Flaw]:
    chosen = [one.name for one in experiments if _selection(one) == SELECTED_ON_TEST]
    if chosen:
        yield Flaw(
            "selected on test",
            "selection",
            tuple(chosen),
            f"The test set itself chose the epoch or the settings of {listed(chosen)}: "
            "the score is too high by an unknown amount.",
        )


def _disclosure(one: Experiment) -> Iterable[Flaw]:
    for key, claimed in one.claims.items():
        done = one.conditions.get(key)
        if done is not None and _same(done) != _same(claimed):
            words = f"{_title(key)}: {one.name} says {_shown(claimed)} and does {_shown(done)}."
            yield Flaw("undisclosed", key, (one.name,), words)
    for key in one.omits:
        done = one.conditions.get(key)
        shown = "" if done is None else f" ({_shown(done)})"
        words = f"{_title(key)}{shown} of {one.name}: not mentioned in the paper."
        yield Flaw("omitted", key, (one.name,), words)


def _weakness(experiments: Sequence[Experiment]) -> Iterable[Flaw]:
    blind = [one.name for one in experiments if _selection(one) == NO_VALIDATION]
    if blind:
        words = f"No validation set stands behind {_all(blind, experiments)}."
        yield Flaw("weak", "selection", tuple(blind), words)
    once = [one for one in experiments if one.conditions.get("seeds") == 1]
    single = [one.name for one in once if one.folds == 1]
    if single:
        words = f"One training only, so no interval, stands behind {_all(single, experiments)}."
        yield Flaw("weak", "seeds", tuple(single), words)
    folded = [one.name for one in once if one.folds > 1]
    if folded:
        words = (
            f"One seed only stands behind {_all(folded, experiments)}: ± is the standard deviation "
            "over the models of the folds, not a confidence interval over seeds."
        )
        yield Flaw("weak", "seeds", tuple(folded), words)


def _outdated(experiments: Sequence[Experiment]) -> Iterable[Flaw]:
    reasons: dict[str, list[str]] = {}
    for one in experiments:
        if one.outdated:
            reasons.setdefault(one.outdated, []).append(one.name)
    for reason, names in reasons.items():
        words = f"Outdated until trained again ({listed(names)}): {reason}."
        yield Flaw("outdated", "version", tuple(names), words)


def _all(names: list[str], experiments: Sequence[Experiment]) -> str:
    every = len(names) == len(experiments) > 1
    return "any row" if every else listed(names)


def _selection(one: Experiment) -> str | None:
    value = one.conditions.get("selection")
    return None if value is None else str(value)


def _same(value: Any) -> str:
    """Equal for spellings of one thing: GoogLeNet and googlenet, 1e-4 and 0.0001."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return repr(float(value))
    return re.sub(r"[^a-z0-9.+]", "", str(value).lower())


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _title(key: str) -> str:
    words = CONDITIONS.get(key, key)
    return words[:1].upper() + words[1:] if key in CONDITIONS else f"'{key}'"


def listed(names: Sequence[str]) -> str:
    """Names for people: all of a few, else the first ones and how many more."""
    if len(names) > 6:
        return f"{', '.join(names[:5])} and {len(names) - 5} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
