"""The values of a reproduction's charts, on synthetic outcomes of real entries."""

import numpy as np
import pytest
from scipy import stats

from lookalike import published
from lookalike.papers import charts
from lookalike.papers.page import part_of
from lookalike.papers.selection import quoted
from lookalike.report.papers import reported_chart


def mean(row, metric="recall@1"):
    return 100 * row.ours[metric].mean


def series(chart):
    """The traces of a chart by name."""
    return {trace.name: trace for trace in chart.figure.data}


def labels(chart):
    """What stands above the rows of a chart."""
    return [one.text for one in chart.figure.layout.annotations]


def test_score_by_size_has_a_line_for_each_loss_and_the_published_beside(make_outcome):
    outcome = make_outcome("thesis/sizes-cub-resnet50", step=0.005)
    ours, theirs = charts.by_axis(outcome.rows, "size", "method", "recall@1")
    axis = ours.figure.layout.xaxis
    assert (axis.type, axis.ticktext) == ("log", ("64", "128", "512", "1024"))
    assert len(series(ours)) == len(series(theirs)) == 10
    line = series(ours)["margin"]
    rows = [row for row in outcome.rows if row.method == "margin"]
    assert list(line.x) == [float(row.axes["size"]) for row in rows]
    assert list(line.y) == pytest.approx([mean(row) for row in rows])
    halves = [100 * row.ours["recall@1"].half for row in rows]
    assert list(line.error_y.array) == pytest.approx(halves)
    printed = series(theirs)["margin"]
    assert list(printed.y) == [row.published["recall@1"].value for row in rows]


def test_other_axes_are_averaged_and_the_chart_says_so(make_outcome):
    outcome = make_outcome("thesis/tournament")
    ours = charts.by_axis(outcome.rows, "size", "network", "recall@1")[0]
    assert ours.note == "Each point is the mean over method."
    line = ours.figure.data[0]
    same = [r for r in outcome.rows if r.axes == {"network": line.name, "size": "64"}]
    assert len(same) == 10
    assert line.y[0] == pytest.approx(np.mean([mean(row) for row in same]))
    assert line.error_y.array is None


def test_an_axis_of_words_keeps_the_order_and_one_value_is_no_chart(make_outcome):
    outcome = make_outcome("roth/sampler-cub")
    chart = charts.by_axis(outcome.rows, "sampler", "method", "recall@1")[0]
    axis = chart.figure.layout.xaxis
    assert axis.type == "category"
    assert axis.categoryarray[:3] == ("spc-2", "spc-4", "spc-8")
    assert charts.by_axis(outcome.rows, "network", "method", "recall@1") == []


def test_split_ratios_show_validation_and_test(make_outcome):
    outcome = make_outcome("thesis/split-ratio")
    ours, theirs = charts.by_axis(outcome.rows, "ratio", "method", "recall@1")
    assert [*series(ours)] == ["test classes", "validation classes"]
    validated = series(ours)["validation classes"]
    assert list(validated.y) == pytest.approx([100 * r.validation.mean for r in outcome.rows])
    printed = [row.published_validation["recall@1"].value for row in outcome.rows]
    assert list(series(theirs)["validation classes"].y) == printed


def test_years_are_in_order_and_untrained_rows_are_left_out(make_outcome):
    outcome = make_outcome("reality-check/papers-versus-reality-cub", folds=4, repeats=2)
    (chart,) = charts.by_year(outcome.rows, "map@r")
    names = labels(chart)
    years = [int(name.partition(" ")[0]) for name in names]
    assert years == sorted(years)
    assert len(years) == len(outcome.rows) - 1
    assert not any("untrained" in name for name in names)
    ours = series(chart)["ours"]
    row = next(row for row in outcome.rows if row.method == "triplet")
    at = names.index(f"{row.year} triplet")
    assert ours.x[list(ours.y).index(at)] == pytest.approx(mean(row, "map@r"))


def test_published_scores_stand_beside_ours_by_year(make_outcome):
    outcome = make_outcome("thesis/years-cub-resnet50")
    (chart,) = charts.by_year(outcome.rows, "recall@1")
    hollow = {name: one.marker.symbol == "circle-open" for name, one in series(chart).items()}
    assert hollow == {"ours": False, "published": True}


def test_ranks_are_those_of_scipy_beside_the_published(make_outcome):
    outcome = make_outcome("thesis/tournament", step=0.0005)
    chart = charts.ranks(outcome.rows, quoted(outcome.entry))
    methods = list(dict.fromkeys(row.method for row in outcome.rows))
    cells = list(dict.fromkeys(tuple(row.axes.values()) for row in outcome.rows))
    found = {(row.method, *row.axes.values()): mean(row) for row in outcome.rows}
    scores = np.array([[found[(m, *cell)] for m in methods] for cell in cells])
    expected = stats.rankdata(-scores, axis=1)
    ours, theirs = series(chart).values()
    names = labels(chart)
    at = [methods.index(name) for name in names]
    assert list(ours.x) == pytest.approx(expected.mean(0)[at])
    half = np.minimum(expected.std(0, ddof=1)[at], len(methods) - expected.mean(0)[at])
    assert list(ours.error_x.array) == pytest.approx(half)
    assert theirs.x[list(theirs.y).index(names.index("proxy-anchor"))] == 1
    assert charts.ranks([row for row in outcome.rows if row.method == "margin"], ()) is None


def test_a_correlation_is_that_of_scipy_over_rows(make_outcome):
    """Every training is a point, and a row, whose trainings are alike, counts once."""
    outcome = make_outcome("roth/correlation-cub")
    of = ("pi-ratio", "rho", "pi-intra", "pi-inter")
    found = charts.correlations(outcome.rows, of)
    assert [chart.title.rpartition(" ")[2].lower() for chart in found] == list(of)
    for name, chart in zip(of, found, strict=True):
        x = [np.mean([one[name] for one in row.trainings]) for row in outcome.rows]
        y = [np.mean([one["recall@1"] for one in row.trainings]) for row in outcome.rows]
        wanted = stats.pearsonr(x, y)
        low, high = wanted.confidence_interval(0.95)
        told = f"r = {wanted.statistic:+.2f}, 95% interval {low:+.2f} to {high:+.2f} (Fisher's)"
        assert told in chart.note
        points = [(one[name], one["recall@1"]) for row in outcome.rows for one in row.trainings]
        traces = chart.figure.data
        drawn = sorted((a, b) for one in traces for a, b in zip(one.x, one.y, strict=True))
        assert drawn == sorted((a, 100 * b) for a, b in points)


def test_losses_beside_their_plain_form(make_outcome):
    outcome = make_outcome("roth/rho-regularization-cub")
    pairs = [(p.first, p.second) for p in outcome.entry.claims[0].pairs]
    (chart,) = charts.in_pairs(outcome.rows, pairs, "recall@1")
    by_method = {row.method: mean(row) for row in outcome.rows}
    plain, other = series(chart).values()
    assert list(plain.x) == pytest.approx([by_method[base] for _, base in pairs])
    assert list(other.x) == pytest.approx([by_method[name] for name, _ in pairs])
    told = float(labels(chart)[0].rpartition("  ")[2].replace("−", "-"))
    assert told == pytest.approx(other.x[0] - plain.x[0], abs=0.051)


def test_pairs_name_no_plain_form_where_there_is_none(make_outcome):
    """Metrix pairs feature maps with images, too: neither is the plain form of the other."""
    outcome = make_outcome("metrix/cub")
    pairs = [(p.first, p.second) for claim in outcome.entry.claims for p in claim.pairs]
    ours = charts.in_pairs(outcome.rows, pairs, "recall@1")[0]
    assert ("contrastive-feature", "contrastive-input") in pairs
    assert [style.name for style in ours.legend] == ["before the arrow", "after the arrow"]
    assert [style.colour for style in ours.legend] == [None, 0]
    assert "plain" not in ours.note
    assert not any(label.endswith(" -0.0") for label in labels(ours))


def test_papers_and_reality_share_one_axis(make_outcome):
    """As the page of the Reality Check has it: two graphs to be compared directly."""
    outcome = make_outcome("reality-check/papers-versus-reality-cub", folds=4, repeats=2)
    part = part_of(outcome.entry.figures[0], outcome)
    reported, tested, claims = part.charts
    assert reported.title.startswith("What papers report")
    assert tested.title == "What this test finds on cub"
    assert claims.title.startswith("What papers claim to gain")
    (span,) = {chart.figure.layout.yaxis.range for chart in part.charts}
    for trace in (trace for chart in part.charts for trace in chart.figure.data):
        assert trace.cliponaxis is False
        assert all(span[0] <= y <= span[1] for y in trace.y if y is not None)
    years = {name: list(one.x) for name, one in series(tested).items()}
    assert years["contrastive"] == [2006]
    row = next(row for row in outcome.rows if row.method == "triplet")
    assert list(series(tested)["triplet"].y) == pytest.approx([mean(row)])


def test_the_tournament_is_a_table_too(make_outcome):
    outcome = make_outcome("thesis/tournament", step=0.0005)
    part = part_of(outcome.entry.figures[0], outcome)
    methods = list(dict.fromkeys(row.method for row in outcome.rows))
    cells = list(dict.fromkeys(tuple(row.axes.values()) for row in outcome.rows))
    found = {(row.method, *row.axes.values()): mean(row) for row in outcome.rows}
    scores = np.array([[found[(m, *cell)] for m in methods] for cell in cells])
    ranks = stats.rankdata(-scores, axis=1)
    shown = {row.name: [cell.text for cell in row.cells[1:]] for row in part.table.rows}
    assert len(shown) == 10
    for at, method in enumerate(methods):
        total, rank, deviation = shown[method][:3]
        assert float(total) == ranks[:, at].sum()
        assert float(rank) == pytest.approx(ranks[:, at].mean(), abs=0.006)
        assert float(deviation) == pytest.approx(ranks[:, at].std(ddof=1), abs=0.006)
    assert shown["proxy-anchor"][3:] == ["12", "1.00", "0.00"]
    assert shown["soft-triple"][3:] == ["38", "3.16", "1.19"]


def test_what_papers_report_and_claim():
    chart = reported_chart("cub", quoted_only=True)
    rows = [
        row
        for row in published.load("reality-check", "cub", "recall@1")
        if row.method == "contrastive" and row.value is not None
    ]
    assert list(series(chart)["contrastive"].y) == [row.value for row in rows]
    first = charts.claims_by_year("cub").figure.data[0]
    assert (first.x[:2], first.y[:2]) == ((2016, 2016), (26.4, 43.57))
    assert reported_chart("glyphs", quoted_only=True) is None
    assert charts.claims_by_year("glyphs") is None


def test_published_numbers_stand_where_the_document_has_them(make_outcome):
    outcome = make_outcome("thesis/networks", scale="small")
    ours, theirs = charts.by_axis(outcome.rows, "network", "method", "recall@1")
    values = [set(chart.figure.layout.xaxis.categoryarray) for chart in (ours, theirs)]
    assert values[0] == {"resnet10t", "small-cnn", "mobilenetv3_small_050"}
    assert values[1] == {"resnet50", "bn-inception", "googlenet"}
    assert set(theirs.figure.data[0].x) <= values[1]
