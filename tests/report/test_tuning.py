import json
import xml.etree.ElementTree as ET
from dataclasses import asdict, replace

import numpy as np
import pytest

from lookalike.compare.comparison import compare
from lookalike.compare.contenders import gather
from lookalike.report.charts import recall_curves, scatters
from lookalike.report.critical_difference import critical_difference_diagram
from lookalike.report.tuning import tunings


@pytest.fixture(scope="module")
def gathered(make_study, tmp_path_factory):
    return gather([make_study(tmp_path_factory.mktemp("s") / "s", trials=20)])


def test_the_parameter_that_decides_is_the_most_important(gathered):
    for one in tunings(gathered.contenders):
        assert one.parameters[0].name == "optim.lr"  # the only one that the scores follow
        assert sum(p.importance for p in one.parameters) == pytest.approx(1)
        assert one.parameters[0].log
        assert not next(p for p in one.parameters if p.name == "loss.margin").log
        assert one.scores[one.best] == max(one.scores)
        assert (len(one.scores), one.failed, one.pruned) == (18, 1, 1)
        assert one.errors == ["the loss is nan"]
        assert 3 not in one.numbers


def test_contours_go_through_the_trials(gathered):
    one = tunings(gathered.contenders)[0]
    assert [(c.x, c.y)[0] for c in one.contours].count("optim.lr") == 2
    for contour in one.contours:
        inside = [v for row in contour.scores for v in row if v is not None]
        assert min(one.scores) - 1e-5 <= min(inside) <= max(inside) <= max(one.scores) + 1e-5
        assert len(contour.xs) == len(contour.scores[0]) == 25
    json.dumps([asdict(one)], allow_nan=False)


def with_trials(contender, change):
    row = contender.row
    trials = tuple(replace(t, parameters=change(t, n)) for n, t in enumerate(row.trials))
    return replace(contender, row=replace(row, trials=trials))


@pytest.mark.parametrize(
    "change",
    [
        lambda trial, n: {"optim.lr": 0.1},
        lambda trial, n: {"a": float(n), "b": 2.0 * n},  # on one line: no triangle
        lambda trial, n: {"name": ["x", "y"][n % 2], "on": n % 3 == 0},
        lambda trial, n: {"a": 1.0} if n % 2 else {"b": float(n)},
        lambda trial, n: {},
    ],
)
def test_odd_search_spaces(gathered, change):
    found = tunings([with_trials(gathered.contenders[0], change)])
    json.dumps([asdict(one) for one in found], allow_nan=False)
    assert all(not one.contours for one in found)


def test_untuned_rows_have_no_plots(make_study, tmp_path):
    assert tunings(gather([make_study(tmp_path / "s", trials=0)]).contenders) == []


def test_recall_curves_have_all_k(gathered):
    curve = recall_curves(gathered.contenders)[0]
    assert curve.ks == [1, 2, 4, 8]
    assert curve.scores == [
        gathered.contenders[0].interval(f"recall@{k}").mean for k in (1, 2, 4, 8)
    ]
    base = recall_curves([c for c in gathered.contenders if c.baseline])[0]
    assert base.halves == [None] * 4


def test_scatters_only_where_something_varies(gathered):
    found = scatters(gathered.contenders, "map@r", {})
    assert [chart.key for chart in found] == ["size", "pi-ratio", "rho"]
    trained = [one for one in gathered.contenders if not one.baseline]
    assert [c.key for c in scatters(trained, "map@r", {})] == ["pi-ratio", "rho"]


def test_the_diagram_of_ranks_is_sound(gathered):
    result = compare(gathered, "map@r").tournament
    for alone in (True, False):
        root = ET.fromstring(critical_difference_diagram(result, alone=alone))
        texts = [e.text for e in root.iter("{http://www.w3.org/2000/svg}text")]
        for one in result.standings:
            assert any(one.name in text and f"{one.rank:.2f}" in text for text in texts)
        bars = [e for e in root.iter() if e.get("class") == "group"]
        assert len(bars) == len(result.groups)
        width = float(root.get("viewBox").split()[2])
        xs = [float(e.get(k)) for e in root.iter() for k in ("x1", "x2", "x") if e.get(k)]
        assert 0 <= min(xs) <= max(xs) <= width
    ranks = {one.name: one.rank for one in result.standings}
    for group in result.groups:
        assert np.ptp([ranks[name] for name in group]) < result.distance


def test_names_cannot_break_the_diagram(gathered):
    result = compare(gathered, "map@r").tournament
    bad = tuple(replace(one, name=f"<b>{one.name}&") for one in result.standings)
    ET.fromstring(critical_difference_diagram(replace(result, standings=bad, groups=())))
