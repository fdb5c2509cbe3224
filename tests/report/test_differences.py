"""The figures of differences to the best and of power."""

import re
from xml.etree import ElementTree

import pytest

from lookalike.compare.comparison import compare
from lookalike.compare.contenders import gather
from lookalike.report.differences import difference_figure, difference_rows
from lookalike.report.power import power_figure, power_sentence


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
    assert (far.kind, far.verdict, far.share) == ("sure", "worse", 0.0)
    assert rows["circle"].verdict in ("cannot be told apart", "lower, these classes only")


def test_a_baseline_above_the_best_method_is_better(part_of):
    part = part_of(methods={"contrastive": 0.5, "triplet": 0.45})
    (row, *_) = [row for row in difference_rows(part) if row.name == "LDA, shrunk"]
    assert row.mean > 0
    assert (row.kind, row.verdict) == ("above", "better")
    assert row.classes.low > 0


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize(
    ("options", "thick", "thin"),
    [
        ({}, 6, 6),
        ({"repeats": 1}, 0, 6),
        ({"classes": 0}, 6, 0),
    ],
)
def test_the_figure_has_a_mark_for_each_interval(part_of, narrow, options, thick, thin):
    part = part_of(methods=METHODS, **options)
    svg = difference_figure(part, "map@r", narrow=narrow)
    ElementTree.fromstring(svg)
    assert svg.count('class="thick"') == thick
    assert svg.count('class="thin"') == thin
    assert svg.count("<circle") == 6
    width = float(re.search(r'viewBox="0 0 (\d+)', svg)[1])
    places = [float(x) for x in re.findall(r'c?x[12]?="([\d.]+)"', svg)]
    assert all(0 <= x <= width for x in places)
    for row in difference_rows(part):
        assert f">{row.name}</text>" in svg


@pytest.mark.parametrize("scale", [1, 1e3, 1e8])
def test_the_axis_has_a_few_ticks_whatever_the_metric(part_of, scale):
    part = part_of(methods={name: scale * score for name, score in METHODS.items()})
    svg = difference_figure(part, "map@r")
    assert 2 <= svg.count('class="grid"') <= 9


def test_a_file_of_its_own_has_its_style(part_of):
    assert "<style>" in difference_figure(part_of(), "map@r", alone=True)
    assert "<style>" not in difference_figure(part_of(), "map@r")


def test_power_by_classes_and_trainings(part_of):
    part = part_of(methods=METHODS)
    for narrow in (False, True):
        svg = power_figure(part, "map@r", narrow=narrow)
        ElementTree.fromstring(svg)
        assert svg.count("<polyline") >= 3
        assert svg.count('class="now"') == 1
        assert "this study: " in svg
        labels = [float(y) for y in re.findall(r'y="([\d.]+)">\d+ trainings?<', svg)]
        gaps = [abs(a - b) for at, a in enumerate(labels) for b in labels[:at]]
        assert min(gaps) >= 14  # none covers another
    assert "1 training<" in power_figure(part_of(repeats=1), "map@r")
    assert power_figure(part_of(classes=0), "map@r") is None
    assert power_figure(part_of(methods={"triplet": 0.6}), "map@r") is None


def test_the_smallest_difference_that_a_study_tells_is_said(part_of):
    assert power_sentence(part_of()).startswith("A study like this one tells a true difference of ")
    assert power_sentence(part_of(classes=0)) == ""
