import json
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest

from lookalike.compare.contenders import gather
from lookalike.report.formatting import template
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


def test_exact_ties_are_not_one_winner(gathered):
    """Where a loss spoils every head the start is kept: five trials had the same best score."""
    first = gathered.contenders[0]
    best = max(t.value for t in first.row.trials if t.value is not None)
    assert tunings([first])[0].tied == 1
    tied = [n for n, t in enumerate(first.row.trials) if t.value is not None][:5]
    trials = tuple(
        replace(t, value=best + 0.01 if n in tied else t.value)
        for n, t in enumerate(first.row.trials)
    )
    (found,) = tunings([replace(first, row=replace(first.row, trials=trials))])
    assert found.tied == 5
    shown = template("parts/tuning.html.j2").render(
        blocks=[SimpleNamespace(tunings=[found, tunings([first])[0]])]
    )
    told = f"{first.name}: 5 of {len(found.scores)} trials have exactly the same best score"
    assert told in " ".join(shown.split())
    assert shown.count("exactly the same best score") == 1
    assert "The ring is the winner" not in shown


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
