"""The sentences of the page: its title, its lead, and how the scores were obtained."""

from collections.abc import Sequence

from lookalike.compare.contenders import Contender, Gathered
from lookalike.report.formatting import metric_label
from lookalike.training import Run


def title_of(gathered: Gathered) -> str:
    """The studies' names, or the data sets'."""
    if gathered.studies:
        return "Study: " + ", ".join(study.name for study in gathered.studies)
    return "Runs on " + ", ".join(gathered.datasets)


def leading_sentence(gathered: Gathered) -> str:
    """How many methods, on what, and whether there is more to come."""
    methods = len({one.name for one in gathered.contenders if not one.baseline})
    trainings = sum(len(one.cells) for one in gathered.contenders if not one.baseline)
    trials = sum(len(one.row.trials) for one in gathered.contenders if one.row)
    where = " and ".join(gathered.datasets)
    words = f"{methods} method{'s' if methods != 1 else ''} on {where}"
    words += f", {trials:,} trials on validation classes" if trials else ""
    words += (
        f", {trainings:,} trained model{'s' if trainings != 1 else ''} tested on unseen classes."
    )
    unfinished = [study.name for study in gathered.studies if not study.finished]
    if unfinished:
        words += f" Not finished yet: {', '.join(unfinished)}."
    return words


def protocols(contenders: Sequence[Contender]) -> list[str]:
    """One sentence for each way in which the rows were obtained."""
    learned = [one for one in contenders if not one.baseline] or list(contenders)
    return list(dict.fromkeys(sentence for one in learned for sentence in _protocol(one)))


def _protocol(one: Contender) -> list[str]:
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
