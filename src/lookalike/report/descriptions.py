"""The sentences of the page: its title, its lead, how scores were obtained, how to repeat it."""

from collections.abc import Sequence
from importlib.metadata import version

import yaml

from lookalike.compare.contenders import MethodResult, ResultSet
from lookalike.config import RunConfig
from lookalike.report.formatting import metric_label
from lookalike.runs.run import commit
from lookalike.study.config import StudyConfig
from lookalike.study.results import MethodRow, StudyResults
from lookalike.training import Run

MOST_RUNS = 5
"""Runs whose command is shown; more are counted."""
BUILT_IN = ("glyphs",)
"""Data sets that need no ``data.root``."""


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


# How to get the numbers of a page again.


def training_commands(gathered: ResultSet) -> list[str]:
    """The commands that repeat the studies and runs of a page."""
    runs = [run for one in gathered.contenders if one.row is None for run in one.runs]
    # names, not paths: a page is shown to others
    trained = [f"lookalike train runs/{run.folder.name}/config.yaml" for run in runs[:MOST_RUNS]]
    if len(runs) > MOST_RUNS:
        trained.append(f"# and so on for {len(runs) - MOST_RUNS} more runs")
    return [
        f"lookalike study run {one.name}.yaml{_roots(one)}" for one in gathered.studies
    ] + trained


def _roots(study: StudyResults) -> str:
    """The setting that says where the data are, which no results keep."""
    blocks = study.study.get("data") or []
    needed = [one["name"] for one in blocks if one.get("name") not in BUILT_IN]
    return f" data.root=DATA  # the folder of {needed[0]}" if len(needed) == 1 else ""


def study_file(study: StudyResults) -> str:
    """The study as the file that ``study run`` takes, without where its data are."""
    values = {key: value for key, value in study.study.items() if key in StudyConfig.model_fields}
    return yaml.safe_dump(values, sort_keys=False)


def software() -> str:
    """Version and commit of the package that writes a page."""
    state = commit()
    return f"lookalike {version('lookalike')}" + (f", commit {state[:12]}" if state else "")


def environments(gathered: ResultSet) -> list[str]:
    """Versions and commit of the runs, each combination once."""
    lines = []
    for run in (run for one in gathered.contenders for run in one.runs):
        found = run.environment
        versions = found.get("versions")
        parts = {"Python": found.get("python"), **(versions if isinstance(versions, dict) else {})}
        parts["commit"] = str(found.get("commit") or "")[:12]
        lines.append(", ".join(f"{name} {value}" for name, value in parts.items() if value))
    return list(dict.fromkeys(filter(None, lines)))
