"""The result of a run as text: the chosen epoch, and the gain of training on unseen classes."""

from collections.abc import Mapping
from typing import Any

from lookalike.data import Split
from lookalike.evaluation.metrics import more_is_better
from lookalike.training.score import format_score

STATES = {"raw_features": "raw features", "untrained": "before training", "test": "trained"}
"""The models that were tested, by their key in the result, in the order of the columns."""


def first_line(split: Split, epochs: int, batches: int) -> str:
    """What is about to be trained: classes, images, epochs."""
    images = f"{len(split.train.indices):,} images to train on"
    length = f"{epochs:,} epochs of {batches:,} batches" if epochs else "nothing is trained"
    return f"{split.description}; {images}; {length}"


def summary(result: Mapping[str, Any]) -> list[str]:
    """The lines that ``lookalike train`` prints about a ``result.json``; warnings come last."""
    lines = [_chosen(result)]
    if "test" in result:
        classes, images = result["test_classes"], result["test_images"]
        lines += [f"  tested on {classes} unseen classes, {images} images:", *_table(result)]
    if {"validation_chance", "test_chance"} <= result.keys():
        classes = result["validation_classes"], result["test_classes"]
        lines.append(
            f"  validation and test scores are not comparable: among {classes[0]} and "
            f"{classes[1]} classes a random order finds {_percent(result['validation_chance'])} "
            f"and {_percent(result['test_chance'])} (Recall@1)"
        )
    return lines + [f"WARNING: {sentence}" for sentence in warnings(result)]


def warnings(result: Mapping[str, Any]) -> list[str]:
    """Warnings about a training that did not help, or did harm."""
    found = []
    if result["epochs"] > 0 and result.get("chosen_epoch") == 0:
        found.append(
            "training did not help: no epoch scored higher on the validation classes than the "
            "network before training, which is therefore the model that was kept"
        )
    if lost := _below(result, "untrained"):
        found.append(f"training lost on the test classes: before it, {lost}")
    if lost := _below(result, "raw_features"):
        found.append(
            f"the network's raw features, without head and training, are better: {lost}; a smaller "
            "optim.lr or no training (train.epochs=0 model.dim=0) may help"
        )
    return found


def _below(result: Mapping[str, Any], state: str) -> str:
    """The metrics in which the tested model scores lower than another state, if most are."""
    other = result.get(state, {})
    pairs = {
        name: (round(100 * other[name], 1), round(100 * value, 1))
        for name, value in result.get("test", {}).items()
        if name in other and more_is_better(name)
    }
    lost = [
        f"{name} {before} % against {after} %"
        for name, (before, after) in pairs.items()
        if after < before
    ]
    return ", ".join(lost) if 2 * len(lost) > len(pairs) else ""


def _chosen(result: Mapping[str, Any]) -> str:
    epochs = result["epochs"]
    if "validation" not in result and "test" not in result:
        classes = result["train_classes"]
        return f"  {epochs} epochs on {classes} classes: nothing was validated or tested"
    if "validation" not in result:
        return f"  epoch {epochs}, the last: nothing was validated"
    classes = result.get("validation_classes")
    where = f" on {classes} validation classes" if classes else " on validation classes"
    scores = [f"{name} {format_score(name, v)}" for name, v in result["validation"].items()]
    return f"  chosen epoch {result['chosen_epoch']} of {epochs}, by {', '.join(scores)}{where}"


def _table(result: Mapping[str, Any]) -> list[str]:
    """One line per metric: every tested state, and the gain of training."""
    tested, states = result["test"], {key: STATES[key] for key in STATES if key in result}
    if len(states) == 1:
        states = {"test": "score"}
    rows = [["", *states.values()]]
    rows += [[name, *(format_score(name, result[key][name]) for key in states)] for name in tested]
    if "untrained" in states:
        rows[0].append("gain")
        for row, (name, value) in zip(rows[1:], tested.items(), strict=True):
            gain = value - result["untrained"][name]
            row.append(f"{100 * gain:+.1f}" if more_is_better(name) else f"{gain:+.4f}")
    first, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
    return [
        "  ".join([f"    {name:<{first}}", *map(str.rjust, cells, widths)]) for name, *cells in rows
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
