"""The figures of differences to the best and of power."""

from xml.etree import ElementTree

import pytest

from lookalike.compare.comparison import compare
from lookalike.compare.contenders import gather
from lookalike.report.charts import as_svg
from lookalike.report.method_charts import (
    difference_chart,
    difference_rows,
    power_chart,
    power_sentence,
    ranks_chart,
)


@pytest.fixture(scope="module")
def part_of(make_study, tmp_path_factory):
    def make(**options):
        folder = make_study(tmp_path_factory.mktemp("s") / "s", **options)
        return compare(gather([folder]), "map@r").datasets[0]

    return make


METHODS = {"contrastive": 0.60, "triplet": 0.66, "circle": 0.678, "multi-similarity": 0.68}


def test_rows_are_minus_the_best_the_nearest_first(part_of):
    part = part_of(methods=METHODS)
    rows = {row.name: row for row in difference_rows(part)}
    assert list(rows) == ["circle", "triplet", "LDA, shrunk", "contrastive", "raw features", "PCA"]
    far = rows["contrastive"]
    assert (
        far.classes.low < far.trainings.low < far.mean < far.trainings.high < far.classes.high < 0
    )
    assert (far.colour, far.verdict, far.share) == ("wrong", "worse", 0.0)
    assert rows["circle"].verdict in ("cannot be told apart", "lower, this test set only")


def test_a_baseline_above_the_best_method_is_better(part_of):
    part = part_of(methods={"contrastive": 0.5, "triplet": 0.45})
    (row, *_) = [row for row in difference_rows(part) if row.name == "LDA, shrunk"]
    assert row.mean > 0
    assert (row.colour, row.verdict) == ("right", "better")
    assert row.classes.low > 0


@pytest.mark.parametrize(
    ("options", "thick", "thin"),
    [
        ({}, 6, 6),
        ({"repeats": 1}, 0, 6),
        ({"classes": 0}, 6, 0),
    ],
)
def test_the_chart_has_a_mark_for_each_interval(part_of, options, thick, thin):
    part = part_of(methods=METHODS, **options)
    chart = difference_chart(part, "map@r")
    widths = [trace.line.width for trace in chart.figure.data if trace.mode == "lines"]
    assert (widths.count(9), widths.count(2)) == (thick, thin)
    (dots,) = [list(trace.x) for trace in chart.figure.data if trace.mode == "markers"]
    rows = difference_rows(part)
    assert dots == pytest.approx([100 * row.mean for row in rows])
    labels = [note.text for note in chart.figure.layout.annotations]
    assert all(label.startswith(row.name) for label, row in zip(labels, rows, strict=True))
    assert all(label.endswith(row.verdict) for label, row in zip(labels, rows, strict=True))


def test_the_same_chart_is_an_svg_file(part_of):
    part = part_of(methods={"a <b> & c": 0.6, "d $x$": 0.66})
    root = ElementTree.fromstring(as_svg(difference_chart(part, "map@r")))
    texts = [one.text or "" for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert any(text.startswith("a <b> & c") for text in texts)
    assert any("points of MAP@R" in text for text in texts)


def test_power_by_classes_and_trainings(part_of):
    chart = power_chart(part_of(methods=METHODS), "map@r")
    lines = [trace for trace in chart.figure.data if trace.mode == "lines"]
    assert len(lines) == len(chart.legend) >= 3
    assert all(list(line.y) == sorted(line.y, reverse=True) for line in lines)
    assert "this study: " in chart.figure.data[-1].text[0]
    (only,) = power_chart(part_of(repeats=1), "map@r").legend
    assert only.name == "1 training"
    assert power_chart(part_of(classes=0), "map@r") is None
    assert power_chart(part_of(methods={"triplet": 0.6}), "map@r") is None


def test_the_smallest_difference_that_a_study_tells_is_said(part_of):
    assert power_sentence(part_of()).startswith("A study like this one tells a true difference of ")
    assert power_sentence(part_of(classes=0)) == ""


@pytest.fixture(scope="module")
def tournament(make_study, tmp_path_factory):
    folder = make_study(tmp_path_factory.mktemp("s") / "s", trials=20)
    return compare(gather([folder]), "map@r").tournament


def test_ranks_are_in_order_and_a_bar_stands_beside_each_group(tournament):
    chart = ranks_chart(tournament)
    ranks, *bars = chart.figure.data
    assert list(ranks.x) == [one.rank for one in tournament.standings]
    labels = [note.text for note in chart.figure.layout.annotations]
    names = [one.name for one in tournament.standings]
    assert [label.partition("  ")[0] for label in labels] == names
    assert len(bars) == len(tournament.groups)
    for bar, group in zip(bars, tournament.groups, strict=True):
        inside = [name for at, name in enumerate(names) if min(bar.y) <= at <= max(bar.y)]
        assert inside == list(group)
    assert tournament.about in chart.note


def test_ranks_are_a_file_too(tournament):
    ElementTree.fromstring(as_svg(ranks_chart(tournament)))
