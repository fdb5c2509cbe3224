"""What papers report and claim over the years."""

from lookalike import published
from lookalike.papers.charts import Chart, Series
from lookalike.published import OLD_LOSSES, claimed_gains
from lookalike.report.charts import Method

__all__ = ["claims_by_year", "reported_by_year"]

METRIC = "recall@1"


def reported_by_year(dataset: str) -> Chart | None:
    """What papers report for the contrastive and the triplet loss, by their year.

    Args:
        dataset: The data set of the papers.

    Returns:
        The chart; None where papers report nothing about it.
    """
    series = []
    for at, loss in enumerate(OLD_LOSSES):
        rows = [
            row
            for row in published.load(metric=METRIC)
            if row.reported_by and row.year is not None and row.value is not None
            if (row.method, row.dataset, row.part) == (loss, dataset, "test")
        ]
        if rows:
            x: list[float | str] = [row.year for row in rows if row.year is not None]
            y: list[float | str] = [row.value for row in rows if row.value is not None]
            texts = [row.reported_by for row in rows]
            series.append(Series(loss, x, y, [None] * len(x), texts, Method(loss, at, 0)))
    if not series:
        return None
    title = f"What papers report for two old losses on {dataset}"
    note = "Networks, sizes and tuning differ, not the loss."
    return Chart(title, "points", "year of the paper", "Recall@1", series, "year", note=note)


def claims_by_year(dataset: str) -> Chart | None:
    """Each paper's own claimed gain: from what it reports for an older method to its own.

    Args:
        dataset: The data set of the papers.

    Returns:
        The chart; None where no document prints both numbers of a paper.
    """
    series = []
    for at, loss in enumerate(dict.fromkeys(one.over for one in claimed_gains())):
        x: list[float | str] = []
        y: list[float | str] = []
        texts: list[str] = []
        known = [one for one in claimed_gains() if one.dataset == dataset and one.over == loss]
        for one in known:
            if one.own is not None and one.baseline is not None:
                x += [one.year, one.year]
                y += [one.baseline, one.own]
                texts += [f"{one.title}: {loss}", f"{one.title}: {one.method}, {one.gain:+.1f}"]
        if x:
            style = Method(f"over {loss}", at, at // 6)
            series.append(Series(style.name, x, y, [None] * len(x), texts, style))
    if not series:
        return None
    title = f"What papers claim to gain on {dataset}"
    note = (
        "A line goes from what a paper reports for the older method to what it reports for its "
        "own; papers of which the documents print one number only are left out."
    )
    return Chart(title, "spans", "year of the paper", "Recall@1", series, "year", note=note)
