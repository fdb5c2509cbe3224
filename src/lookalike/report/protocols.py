"""How the numbers of a table were had, in plain words."""

from collections.abc import Sequence

from lookalike.compare.contenders import Contender
from lookalike.report.tables import metric_label
from lookalike.training import Run

__all__ = ["protocols"]


def protocols(contenders: Sequence[Contender]) -> list[str]:
    """One sentence, or one for each way in which the rows were had."""
    learned = [one for one in contenders if not one.baseline] or list(contenders)
    return list(dict.fromkeys(sentence for one in learned for sentence in _of(one)))


def _of(one: Contender) -> list[str]:
    if one.row is not None and one.config is not None:
        return [_of_study(one)]
    return [_of_run(run, one) for run in one.runs[:1]]


def _of_study(one: Contender) -> str:
    assert one.config is not None
    assert one.row is not None
    protocol = one.config.protocol
    folds = 1 + max((fold for _, fold in one.cells), default=0)
    by = metric_label(one.config.train.metric)
    if protocol.name == "cross-validation":
        how = f"{folds}-fold cross-validation over the training classes"
    elif protocol.name == "fixed-validation":
        how = f"{1 - protocol.ratio:.0%} of the training classes held out for validation"
    else:
        return "No validation classes, and settings as given; tested after the last epoch."
    tuned = f"settings chosen by {by} there, out of {len(one.row.trials)} trials for each method"
    if not one.row.trials:
        tuned = "settings as given"
    once = one.row.seeds == 1
    times = "once" if once else f"{one.row.seeds} times"
    times += f" on each of {folds} folds" if folds > 1 else ""
    seeds = "a new seed" if once else "new seeds"
    return f"{how[:1].upper()}{how[1:]}; {tuned}; then trained {times} with {seeds}, and tested."


def _of_run(run: Run, one: Contender) -> str:
    result = run.result
    tested = f"{result['test_classes']:,} unseen classes ({result['test_images']:,} images)"
    if one.baseline:
        return f"Not trained at all; tested once on {tested}."
    trained = f"Trained on {result['train_classes']:,} classes"
    if "chosen_epoch" not in result or one.config is None:
        return f"{trained}, no epoch chosen; tested once, after the last epoch, on {tested}."
    return (
        f"{trained}, epoch chosen by {metric_label(one.config.train.metric)} on validation "
        f"classes, tested once on {tested}."
    )
