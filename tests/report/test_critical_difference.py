"""The chart of average ranks."""

from xml.etree import ElementTree

import pytest

from lookalike.compare.comparison import compare
from lookalike.compare.contenders import gather
from lookalike.report.charts import as_svg
from lookalike.report.method_charts import ranks_chart


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


def test_it_is_a_file_too(tournament):
    ElementTree.fromstring(as_svg(ranks_chart(tournament)))
