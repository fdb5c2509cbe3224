"""The fairness audit: how the experiments of one table differ beyond the method.

An :class:`Experiment` is a row of a table with its conditions: network, size, crop, budget,
selection of the epoch. It is a run, or described by a paper. Rows may be ranked only where nothing
but the method differs (Musgrave, Belongie and Lim, ECCV 2020, section 2).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Condition:
    """What must be equal in all rows.

    Attributes:
        title: Its name in sentences.
        other_words: What papers and other toolkits call it, separated by spaces.
        number: Whether it is a whole number.
        before_training: Whether it is one of a baseline that is not trained, too.
        missing_with: The condition beside which this one may be missing: few papers give it.
        axes: Names of axes of a study that vary it, separated by spaces.
    """

    title: str
    other_words: str = ""
    number: bool = False
    before_training: bool = False
    missing_with: str = ""
    axes: str = ""


CONDITIONS = {
    "data": Condition("data set", "dataset", before_training=True, axes="dataset"),
    "network": Condition("network", "backbone model", before_training=True, axes="network"),
    "weights": Condition(
        "starting weights", "pretrained pretraining", before_training=True, axes="network"
    ),
    "dim": Condition(
        "embedding size", "dimension embedding_dim embedding_size", number=True, axes="size"
    ),
    "pooling": Condition("pooling"),
    "transform": Condition(
        "crop and augmentation", "augmentation crop", before_training=True, axes="crop"
    ),
    "image_size": Condition(
        "image size", "crop_size image input_size", number=True, before_training=True, axes="crop"
    ),
    "bn_frozen": Condition("frozen batch normalisation", "freeze_bn"),
    "epochs": Condition("epochs"),
    "steps": Condition("training steps", "iterations", number=True, missing_with="epochs"),
    "batch_size": Condition("batch size", "batch bs", number=True, axes="batch"),
    "optimizer": Condition("optimiser", "optimiser"),
    "lr": Condition("learning rate", "learning_rate", missing_with="optimizer"),
    "weight_decay": Condition("weight decay", "wd", missing_with="optimizer", axes="decay"),
    "schedule": Condition(
        "schedule of the learning rate", "lr_schedule scheduler", missing_with="optimizer"
    ),
    "protocol": Condition("protocol", "split", missing_with="selection", axes="ratio folds"),
    "selection": Condition(
        "what chose the epoch and the settings", "epoch_selection model_selection"
    ),
    "trials": Condition("tuning trials", number=True),
    "seeds": Condition("training runs behind the score", "repeats runs", number=True),
    "extra_data": Condition("extra training data", before_training=True),
    "ensemble": Condition("models joined into one embedding", "ensemble_size", number=True),
}
"""What must be equal, by key; runs may differ in further keys."""

SELECTED_ON_TEST = "test"
NO_VALIDATION = "last epoch"

Kind = Literal[
    "differs", "selected on test", "undisclosed", "omitted", "not said", "weak", "outdated"
]
Verdict = Literal["fair", "unfair", "cannot be told"]


@dataclass(frozen=True)
class Experiment:
    """One row of a comparison.

    ``claims`` is what its paper says where something else was done, ``omits`` what was done and the
    paper does not mention, ``tuned`` the conditions that were tuned, ``varied`` those that the
    comparison is about.
    """

    name: str
    conditions: Mapping[str, Any]
    claims: Mapping[str, Any] = field(default_factory=dict)
    omits: tuple[str, ...] = ()
    tuned: frozenset[str] = frozenset()
    varied: frozenset[str] = frozenset()
    trained: bool = True
    folds: int = 1
    """Models behind the score for each seed, one for each fold."""
    outdated: str = ""
    """Why the current version of the code would not reproduce the score."""
    read_again: str = ""
    """A sentence where the test set was read for more than one choice of settings."""
    score: float | None = None


@dataclass(frozen=True)
class Flaw:
    """One flaw of a comparison, and the rows that it concerns."""

    kind: Kind
    condition: str
    rows: tuple[str, ...]
    sentence: str


@dataclass(frozen=True)
class Audit:
    """The flaws of a comparison."""

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
    trained = [one for one in experiments if one.trained]
    others = dict.fromkeys(key for one in trained for key in one.conditions)
    before = [key for key, condition in CONDITIONS.items() if condition.before_training]
    later = [key for key in dict.fromkeys((*CONDITIONS, *others)) if key not in before]
    flaws = [
        *_differences(experiments, before),
        *_differences(trained, later),
        *_selected_on_test(trained),
        *(flaw for one in experiments for flaw in _disclosure(one)),
        *_weak_evidence(trained),
        *_outdated(experiments),
        *_read_again(trained),
    ]
    return Audit(tuple(one.name for one in experiments), tuple(flaws))


def _differences(experiments: Sequence[Experiment], keys: Iterable[str]) -> Iterable[Flaw]:
    every = tuple(one.name for one in experiments)
    varied = frozenset().union(*(one.varied for one in experiments))
    for key in keys:
        if key in varied:
            continue
        fixed = [one for one in experiments if key not in one.tuned]
        if 0 < len(fixed) < len(experiments):
            tuned = listed([one.name for one in experiments if key in one.tuned])
            words = f"tuned for {tuned} and fixed for {listed([one.name for one in fixed])}"
            yield Flaw("differs", key, every, f"{_title(key)}: {words}.")
        rows: dict[str, list[str]] = {}
        shown: dict[str, str] = {}
        for one in fixed:
            if one.conditions.get(key) is not None:
                value = _normalised(one.conditions[key])
                rows.setdefault(value, []).append(one.name)
                shown.setdefault(value, _shown(one.conditions[key]))
        if len(rows) > 1:
            groups = "; ".join(f"{shown[value]} ({listed(who)})" for value, who in rows.items())
            yield Flaw("differs", key, _minority(rows), f"{_title(key)}: {groups}.")
        missing = tuple(one.name for one in fixed if _is_missing(one, key))
        if missing:
            which = "" if len(missing) == len(fixed) > 1 else f" of {listed(missing)}"
            yield Flaw("not said", key, missing, f"{_title(key)}: not said{which}.")


def _minority(rows: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The rows without the most common value; all of them where there is no such value."""
    most = max(map(len, rows.values()))
    common = [value for value, who in rows.items() if len(who) == most]
    kept = common if len(common) == 1 else []
    return tuple(name for value, who in rows.items() if value not in kept for name in who)


def _is_missing(one: Experiment, key: str) -> bool:
    """Whether a row does not give a known condition, nor what makes it optional."""
    if key not in CONDITIONS or one.conditions.get(key) is not None or key in one.omits:
        return False
    return one.conditions.get(CONDITIONS[key].missing_with) is None


def _selected_on_test(experiments: Sequence[Experiment]) -> Iterable[Flaw]:
    names = _where(experiments, "selection", SELECTED_ON_TEST)
    if names:
        words = (
            f"The test set itself chose the epoch or the settings of {listed(names)}: "
            "the score is too high by an unknown amount."
        )
        yield Flaw("selected on test", "selection", tuple(names), words)


def _disclosure(one: Experiment) -> Iterable[Flaw]:
    for key, claimed in one.claims.items():
        done = one.conditions.get(key)
        if done is not None and _normalised(done) != _normalised(claimed):
            words = f"{_title(key)}: {one.name} says {_shown(claimed)} and does {_shown(done)}."
            yield Flaw("undisclosed", key, (one.name,), words)
    for key in one.omits:
        done = one.conditions.get(key)
        shown = "" if done is None else f" ({_shown(done)})"
        words = f"{_title(key)}{shown} of {one.name}: not mentioned in the paper."
        yield Flaw("omitted", key, (one.name,), words)


def _weak_evidence(experiments: Sequence[Experiment]) -> Iterable[Flaw]:
    blind = _where(experiments, "selection", NO_VALIDATION)
    single = _where([one for one in experiments if one.folds == 1], "seeds", 1)
    folds = _where([one for one in experiments if one.folds > 1], "seeds", 1)
    deviation = (
        "Only one seed for {}: ± is the standard deviation over the models of the folds, "
        "not a confidence interval over seeds."
    )
    for condition, names, words in (
        ("selection", blind, "No validation set was used for {}."),
        ("seeds", single, "Only one training run, so no interval, for {}."),
        ("seeds", folds, deviation),
    ):
        if names:
            who = "any row" if len(names) == len(experiments) > 1 else listed(names)
            yield Flaw("weak", condition, tuple(names), words.format(who))


def _outdated(experiments: Sequence[Experiment]) -> Iterable[Flaw]:
    for reason in dict.fromkeys(one.outdated for one in experiments if one.outdated):
        names = tuple(one.name for one in experiments if one.outdated == reason)
        words = f"Outdated until trained again ({listed(names)}): {reason}."
        yield Flaw("outdated", "version", names, words)


def _read_again(experiments: Sequence[Experiment]) -> Iterable[Flaw]:
    for one in experiments:
        if one.read_again:
            yield Flaw("weak", "selection", (one.name,), f"{one.name}: {one.read_again}.")


def _where(experiments: Sequence[Experiment], key: str, value: Any) -> list[str]:
    """The names of the experiments with a condition."""
    return [one.name for one in experiments if one.conditions.get(key) == value]


def _normalised(value: Any) -> str:
    """Equal for spellings of one value: GoogLeNet and googlenet, 1e-4 and 0.0001."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(float(value))
    return re.sub(r"[^a-z0-9.+]", "", _shown(value).lower())


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _title(key: str) -> str:
    if key not in CONDITIONS:
        return f"'{key}'"
    title = CONDITIONS[key].title
    return title[:1].upper() + title[1:]


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: all of a few, otherwise the first ones and how many more."""
    if len(names) > 6:
        return f"{', '.join(names[:5])} and {len(names) - 5} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
