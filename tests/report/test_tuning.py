"""Optuna's plots of the trials of each method."""

from dataclasses import replace

import pytest

from lookalike.compare.contenders import gather
from lookalike.report.charts import json_of
from lookalike.report.tuning import tunings


@pytest.fixture(scope="module")
def gathered(make_study, tmp_path_factory):
    return gather([make_study(tmp_path_factory.mktemp("s") / "s", trials=20)])


def test_the_parameter_that_decides_is_the_most_important(gathered):
    for one in tunings(gathered.contenders):
        _, importance = one.overview
        (bars,) = importance.figure.data
        shares = dict(zip(bars.y, bars.x, strict=True))
        assert max(shares, key=shares.get) == "optim.lr"  # scores follow it
        assert sum(shares.values()) == pytest.approx(1)
        first, *others = one.slices
        assert (first.title, first.figure.layout.xaxis.type) == ("optim.lr", "log")
        margin = next(chart for chart in others if chart.title == "loss.margin")
        assert margin.figure.layout.xaxis.type is None
        assert (
            one.note == "18 trials complete, 1 given up early, 1 failed. Failures: the loss is nan."
        )


def test_exact_ties_are_not_one_winner(gathered):
    """Where a loss spoils every head the start is kept: five trials had the same best score."""
    first = gathered.contenders[0]
    best = max(t.value for t in first.row.trials if t.value is not None)
    assert tunings([first])[0].tie == ""
    tied = [n for n, t in enumerate(first.row.trials) if t.value is not None][:5]
    trials = tuple(
        replace(t, value=best + 0.01 if n in tied else t.value)
        for n, t in enumerate(first.row.trials)
    )
    (found,) = tunings([replace(first, rows=(replace(first.row, trials=trials),))])
    assert found.tie.startswith(f"{first.name}: 5 of 18 trials have exactly the same best score")


def test_contours_go_through_the_trials(gathered):
    one = tunings(gathered.contenders)[0]
    assert len(one.contours) == 3
    assert sum("optim.lr" in chart.title for chart in one.contours) == 2
    for chart in one.contours:
        field, dots, *_ = chart.figure.data
        assert field.type == "contour"
        assert len(dots.x) == 18


def with_trials(contender, change):
    row = contender.row
    trials = tuple(replace(t, parameters=change(t, n)) for n, t in enumerate(row.trials))
    return replace(contender, rows=(replace(row, trials=trials),))


@pytest.mark.parametrize(
    "change",
    [
        lambda trial, n: {"optim.lr": 0.1},
        lambda trial, n: {"<b>a</b>": float(n), "b": 2.0 * n},
        lambda trial, n: {"name": ["<i>x</i>", "y"][n % 2], "on": n % 3 == 0},
        lambda trial, n: {"a": 1.0} if n % 2 else {"b": float(n)},
        lambda trial, n: {},
    ],
)
def test_odd_search_spaces(gathered, change):
    for one in tunings([with_trials(gathered.contenders[0], change)]):
        for chart in (*one.overview, *one.slices, *one.contours):
            text = str(json_of(chart.figure))
            assert "<b>" not in text
            assert "<i>" not in text


def test_untuned_rows_have_no_plots(make_study, tmp_path):
    assert tunings(gather([make_study(tmp_path / "s", trials=0)]).contenders) == []
