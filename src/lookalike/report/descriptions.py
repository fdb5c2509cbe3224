"""The sentences of the page: its title, its lead, and how the scores were obtained."""

from collections.abc import Sequence

from lookalike.compare.contenders import MethodResult, ResultSet
from lookalike.config import RunConfig
from lookalike.report.formatting import metric_label
from lookalike.study.results import MethodRow
from lookalike.training import Run


def title_of(gathered: ResultSet) -> str:
    """The studies' names, or the data sets'."""
    if gathered.studies:
        return "Study: " + ", ".join(study.name for study in gathered.studies)
    return "Runs on " + ", ".join(gathered.datasets)


def leading_sentence(gathered: ResultSet) -> str:
    """How many methods, on what, and whether there is more to come."""
    methods = len({one.name for one in gathered.contenders if not one.baseline})
    trainings = sum(len(one.models) for one in gathered.contenders if not one.baseline)
    trials = sum(len(one.row.trials) for one in gathered.contenders if one.row)
    words = f"{methods} method{'s' * (methods != 1)} on {' and '.join(gathered.datasets)}"
    axes = dict.fromkeys(axis for one in gathered.contenders for axis in one.axes)
    if axes:
        words += f" at {len(gathered.cells)} combinations of {' and '.join(axes)}"
    words += f", {trials:,} trials on validation classes" if trials else ""
    words += f", {trainings:,} trained model{'s' * (trainings != 1)} tested on unseen classes."
    unfinished = ", ".join(study.name for study in gathered.studies if not study.finished)
    return words + (f" Not finished yet: {unfinished}." if unfinished else "")


def protocols(contenders: Sequence[MethodResult]) -> list[str]:
    """One sentence for each way in which the rows were obtained."""
    learned = [one for one in contenders if not one.baseline] or list(contenders)
    found = []
    for one in learned:
        if one.row is not None and one.config is not None:
            found.append(_of_study(one, one.row, one.config))
        else:
            found += [_of_run(run, one) for run in one.runs[:1]]
    return list(dict.fromkeys(found))


def _of_study(one: MethodResult, row: MethodRow, config: RunConfig) -> str:
    protocol, by = config.protocol, metric_label(config.train.metric)
    folds = 1 + max((model.fold or 0 for model in one.models), default=0)
    if protocol.name == "cross-validation":
        how = f"{folds}-fold cross-validation over the training classes"
    elif protocol.name == "fixed-validation":
        how = f"{1 - protocol.ratio:.0%} of the training classes held out for validation"
    else:
        return "No validation classes, and settings as given; tested after the last epoch."
    tuned = f"settings chosen by {by} there, out of {len(row.trials)} trials for each method"
    if not row.trials:
        tuned = "settings as given"
    once = row.seeds == 1
    times = "once" if once else f"{row.seeds} times"
    times += f" on each of {folds} folds" if folds > 1 else ""
    seeds = "a new seed" if once else "new seeds"
    return f"{how[:1].upper()}{how[1:]}; {tuned}; then trained {times} with {seeds}, and tested."


def _of_run(run: Run, one: MethodResult) -> str:
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
