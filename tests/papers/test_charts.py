"""The values of a reproduction's charts, on synthetic outcomes of real entries."""

import numpy as np
import pytest
from scipy import stats

from lookalike import published
from lookalike.papers import charts, claimed
from lookalike.papers.figures import part_of
from lookalike.papers.heat import heat_maps
from lookalike.papers.proxies import proxy_drawings
from lookalike.papers.selection import quoted


def mean(row, metric="recall@1"):
    return 100 * row.ours[metric].mean


def test_score_by_size_has_a_line_for_each_loss_and_the_published_beside(make_outcome):
    outcome = make_outcome("thesis/sizes-cub-resnet50", step=0.005)
    ours, theirs = charts.by_axis(outcome.rows, "size", "method", "recall@1")
    assert (ours.kind, ours.values) == ("log", ("64", "128", "512", "1024"))
    assert len(ours.series) == len(theirs.series) == 10
    line = next(one for one in ours.series if one.name == "margin")
    rows = {row.axes["size"]: row for row in outcome.rows if row.method == "margin"}
    assert line.y == pytest.approx([mean(rows[size]) for size in line.x])
    assert line.half == pytest.approx([100 * rows[s].ours["recall@1"].half for s in line.x])
    printed = next(one for one in theirs.series if one.name == "margin")
    assert printed.y == [rows[size].published["recall@1"].value for size in printed.x]


def test_other_axes_are_averaged_and_the_chart_says_so(make_outcome):
    outcome = make_outcome("thesis/tournament")
    ours = charts.by_axis(outcome.rows, "size", "network", "recall@1")[0]
    assert ours.note == "Each point is the mean over method."
    line = ours.series[0]
    same = [r for r in outcome.rows if r.axes == {"network": line.name, "size": "64"}]
    assert len(same) == 10
    assert line.y[0] == pytest.approx(np.mean([mean(row) for row in same]))
    assert line.half == [None] * 4


def test_an_axis_of_words_keeps_the_order_and_one_value_is_no_chart(make_outcome):
    outcome = make_outcome("roth/sampler-cub")
    chart = charts.by_axis(outcome.rows, "sampler", "method", "recall@1")[0]
    assert chart.kind == "category"
    assert chart.values[:3] == ("spc-2", "spc-4", "spc-8")
    assert charts.by_axis(outcome.rows, "network", "method", "recall@1") == []


def test_split_ratios_show_validation_and_test(make_outcome):
    outcome = make_outcome("thesis/split-ratio")
    ours, theirs = charts.by_axis(outcome.rows, "ratio", "method", "recall@1")
    assert [one.name for one in ours.series] == ["test classes", "validation classes"]
    assert ours.series[1].y == pytest.approx([100 * r.validation.mean for r in outcome.rows])
    printed = [row.planned.published_validation["recall@1"].value for row in outcome.rows]
    assert theirs.series[1].y == printed


def test_years_are_in_order_and_untrained_rows_are_left_out(make_outcome):
    outcome = make_outcome("reality-check/papers-versus-reality-cub", folds=4, repeats=2)
    (chart,) = charts.by_year(outcome.rows, "map@r")
    years = [int(name.partition(" ")[0]) for name in chart.values]
    assert years == sorted(years)
    assert len(years) == len(outcome.rows) - 1
    assert not any("untrained" in name for name in chart.values)
    ours = dict(zip(chart.series[0].y, chart.series[0].x, strict=True))
    row = next(row for row in outcome.rows if row.method == "triplet")
    assert ours[f"{row.year} triplet"] == pytest.approx(mean(row, "map@r"))


def test_published_scores_stand_beside_ours_by_year(make_outcome):
    outcome = make_outcome("thesis/years-cub-resnet50")
    (chart,) = charts.by_year(outcome.rows, "recall@1")
    assert [(one.name, one.hollow) for one in chart.series] == [
        ("ours", False),
        ("published", True),
    ]


def test_ranks_are_those_of_scipy_beside_the_published(make_outcome):
    outcome = make_outcome("thesis/tournament", step=0.0005)
    chart = charts.ranks(outcome.rows, quoted(outcome.entry))
    methods = list(dict.fromkeys(row.method for row in outcome.rows))
    cells = list(dict.fromkeys(tuple(row.axes.values()) for row in outcome.rows))
    found = {(row.method, *row.axes.values()): mean(row) for row in outcome.rows}
    scores = np.array([[found[(m, *cell)] for m in methods] for cell in cells])
    expected = stats.rankdata(-scores, axis=1)
    ours, theirs = chart.series
    at = [methods.index(name) for name in ours.y]
    assert ours.x == pytest.approx(expected.mean(0)[at])
    assert ours.half == pytest.approx(expected.std(0, ddof=1)[at])
    assert dict(zip(theirs.y, theirs.x, strict=True))["proxy-anchor"] == 1
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
        drawn = sorted((a, b) for one in chart.series for a, b in zip(one.x, one.y, strict=True))
        assert drawn == sorted((a, 100 * b) for a, b in points)


def test_losses_beside_their_plain_form(make_outcome):
    outcome = make_outcome("roth/rho-regularization-cub")
    pairs = outcome.entry.claims[0].better
    (chart,) = charts.in_pairs(outcome.rows, pairs, "recall@1")
    by_method = {row.method: mean(row) for row in outcome.rows}
    plain, other = chart.series
    assert plain.y == pytest.approx([by_method[base] for _, base in pairs])
    assert other.y == pytest.approx([by_method[name] for name, _ in pairs])
    assert float(other.texts[0].replace("−", "-")) == pytest.approx(
        other.y[0] - plain.y[0], abs=0.051
    )


def test_pairs_name_no_plain_form_where_there_is_none(make_outcome):
    """Metrix pairs feature maps with images, too: neither is the plain form of the other."""
    outcome = make_outcome("metrix/cub")
    pairs = [pair for claim in outcome.entry.claims for pair in claim.better]
    ours = charts.in_pairs(outcome.rows, pairs, "recall@1")[0]
    assert ("contrastive-feature", "contrastive-input") in pairs
    assert [style.name for style in ours.legend] == ["before the arrow", "after the arrow"]
    assert [style.colour for style in ours.legend] == [None, 0]
    assert "plain" not in ours.note
    assert "-0.0" not in {text for one in ours.series for text in one.texts}


def test_papers_and_reality_share_one_axis(make_outcome):
    """As the page of the Reality Check has it: two graphs to be compared directly."""
    outcome = make_outcome("reality-check/papers-versus-reality-cub", folds=4, repeats=2)
    part = part_of(outcome.entry.figures[0], outcome)
    reported, tested, claims = part.charts
    assert reported.title.startswith("What papers report")
    assert tested.title == "What this test finds on cub"
    assert claims.title.startswith("What papers claim to gain")
    assert {chart.kind for chart in part.charts} == {"year"}
    (span,) = {chart.span for chart in part.charts}
    for chart in part.charts:
        for series in chart.series:
            for score, half in zip(series.y, series.half, strict=True):
                assert span[0] <= score - (half or 0)
                assert score + (half or 0) <= span[1]
    years = {series.name: series.x for series in tested.series}
    assert years["contrastive"] == [2006]
    row = next(row for row in outcome.rows if row.method == "triplet")
    assert next(s for s in tested.series if s.name == "triplet").y == pytest.approx([mean(row)])


def test_the_tournament_is_a_table_too(make_outcome):
    outcome = make_outcome("thesis/tournament", step=0.0005)
    part = part_of(outcome.entry.figures[0], outcome)
    methods = list(dict.fromkeys(row.method for row in outcome.rows))
    cells = list(dict.fromkeys(tuple(row.axes.values()) for row in outcome.rows))
    found = {(row.method, *row.axes.values()): mean(row) for row in outcome.rows}
    scores = np.array([[found[(m, *cell)] for m in methods] for cell in cells])
    ranks = stats.rankdata(-scores, axis=1)
    shown = {row.method: row.ours for row in part.ranks}
    assert len(shown) == 10
    for at, method in enumerate(methods):
        total, rank, deviation = shown[method]
        assert float(total) == ranks[:, at].sum()
        assert float(rank) == pytest.approx(ranks[:, at].mean(), abs=0.006)
        assert float(deviation) == pytest.approx(ranks[:, at].std(ddof=1), abs=0.006)
    published = {row.method: row.published for row in part.ranks}
    assert published["proxy-anchor"] == ("12", "1.00", "0.00")
    assert published["soft-triple"] == ("38", "3.16", "1.19")


def test_a_heat_map_has_the_best_of_each_pair_of_values(make_outcome):
    outcome = make_outcome("thesis/grid-search", trials=40, repeats=1)
    row = outcome.rows[0]
    (chart,) = heat_maps(row)
    assert (chart.x, chart.y) == ("loss.margin", "optim.lr")
    assert chart.xs == ["0.1", "0.2", "0.3", "0.4", "0.5"]
    assert chart.ys == ["1e-05", "0.0001", "0.001", "0.01"]
    best = max(trial.value for trial in row.result.trials)
    assert chart.scores[1][2] == pytest.approx(100 * best)


def test_a_search_without_a_grid_has_no_heat_map(make_outcome):
    assert heat_maps(make_outcome("dr/search", trials=3).rows[0]) == []


def test_what_papers_report_and_claim():
    chart = claimed.reported_by_year("cub")
    rows = [
        row
        for row in published.load("reality-check", "cub", "recall@1")
        if row.method == "contrastive" and row.value is not None
    ]
    assert chart.series[0].y == [row.value for row in rows]
    gains = claimed.claims_by_year("cub")
    first = gains.series[0]
    assert (first.x[:2], first.y[:2]) == ([2016, 2016], [26.4, 43.57])
    assert claimed.reported_by_year("glyphs") is None
    assert claimed.claims_by_year("glyphs") is None


def test_the_drawing_shows_what_each_loss_compares(make_outcome):
    anchor, first, second = proxy_drawings(make_outcome("thesis/proxies").drawn)
    assert len(anchor.nodes) == len(first.nodes) == 12
    assert len(anchor.edges) == 27  # every proxy with every sample
    for drawing in (first, second):
        signs = [edge.association for edge in drawing.edges]
        assert (signs.count("positive"), signs.count("negative")) == (9, 3)
    assert max(edge.width for edge in anchor.edges) == 7
    places = {(node.x, node.y) for node in anchor.nodes}
    assert all((e.x1, e.y1) in places and (e.x2, e.y2) in places for e in anchor.edges)


def test_published_numbers_stand_where_the_document_has_them(make_outcome):
    outcome = make_outcome("thesis/networks", scale="small")
    ours, theirs = charts.by_axis(outcome.rows, "network", "method", "recall@1")
    assert set(ours.values) == {"resnet10t", "small-cnn", "mobilenetv3_small_050"}
    assert set(theirs.values) == {"resnet50", "bn-inception", "googlenet"}
    assert set(theirs.series[0].x) <= set(theirs.values)
