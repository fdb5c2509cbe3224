"""A title and a first sentence for a page about runs and studies."""

from lookalike.compare.contenders import Gathered

__all__ = ["leading_sentence", "title_of"]


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
