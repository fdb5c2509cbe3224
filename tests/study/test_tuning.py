import pytest

from lookalike.study.results import Trial, best_trial
from lookalike.study.tuning import (
    Choices,
    Range,
    TunerConfig,
    should_prune,
    suggest,
    trials_asked,
    visible_trials,
)

SPACE = {
    "loss.margin": Range(low=0, high=1),
    "optim.loss_lr": Range(low=1e-6, high=1, log=True),
    "loss.num_bins": Range(low=2, high=9, whole=True),
    "miner.name": Choices(choices=("hard", "all")),
}


def done(number, parameters, value, folds=(0.5, 0.5), state="complete"):
    return Trial(number, parameters, state, value, tuple(folds), 1.0)


def a_search(tuner, count, seed=3):
    """Trials of a score that is best at margin 0.3."""
    trials = []
    for number in range(count):
        parameters = suggest(tuner, SPACE, seed, number, trials)
        score = 1 - abs(parameters["loss.margin"] - 0.3)
        trials.append(done(number, parameters, score, (score, score)))
    return trials


@pytest.mark.parametrize("name", ["tpe", "gp", "random"])
def test_a_suggestion_depends_on_seed_number_and_history_alone(name):
    tuner = TunerConfig(name=name)
    trials = a_search(tuner, 8)
    again = [suggest(tuner, SPACE, 3, n, trials[:n]) for n in (7, 2, 5)]
    assert again == [trials[n].parameters for n in (7, 2, 5)]
    assert suggest(tuner, SPACE, 4, 7, trials[:7]) != trials[7].parameters
    for trial in trials:
        assert 0 <= trial.parameters["loss.margin"] <= 1
        assert 1e-6 <= trial.parameters["optim.loss_lr"] <= 1
        assert trial.parameters["loss.num_bins"] in range(2, 10)


@pytest.mark.parametrize("name", ["tpe", "gp"])
def test_the_models_find_the_best_place(name):
    late = [t.parameters["loss.margin"] for t in a_search(TunerConfig(name=name), 25)[15:]]
    assert sum(abs(margin - 0.3) < 0.2 for margin in late) >= 6


def test_failed_and_pruned_trials_are_no_hindrance():
    trials = a_search(TunerConfig(), 6)
    broken = Trial(6, trials[0].parameters, "failed", None, (), 1.0, "nan")
    given_up = done(7, trials[1].parameters, None, (0.1,), "pruned")
    assert suggest(TunerConfig(), SPACE, 3, 8, [*trials, broken, given_up])


def test_the_grid_is_walked_whole_and_once():
    space = {"a": Range(low=0.0, high=0.4, step=0.1), "b": Choices(choices=("x", "y"))}
    tuner = TunerConfig(name="grid")
    points = [suggest(tuner, space, 1, n, []) for n in range(trials_asked(tuner, space))]
    assert len(points) == 10
    expected = {(a, b) for a in (0.0, 0.1, 0.2, 0.3, 0.4) for b in ("x", "y")}
    assert {(p["a"], p["b"]) for p in points} == expected


def test_hopeless_means_below_the_median_of_the_same_folds():
    history = [done(n, {}, None, (n / 10, 0.9)) for n in range(5)]
    assert should_prune([0.19], history)
    assert not should_prune([0.2], history)
    assert not should_prune([0.0], history[:4])  # too few to judge
    assert should_prune([0.9, 0.1], history)  # 0.5 against a median of 0.55


def test_pruned_trials_count_in_the_median():
    """Else what was stopped early would raise the bar for all that follow."""
    complete = [done(n, {}, 0.5, (0.5, 0.5)) for n in range(5)]
    pruned = [done(n, {}, None, (0.1,), "pruned") for n in range(5, 11)]
    assert should_prune([0.3], complete)
    assert not should_prune([0.3], [*complete, *pruned])  # the median of eleven is 0.1
    assert should_prune([0.3, 0.3], [*complete, *pruned])  # pruned ones have no second fold


def test_random_trials_differ():
    tuner = TunerConfig(name="random")
    margins = [suggest(tuner, SPACE, 3, number, [])["loss.margin"] for number in range(20)]
    assert len(set(margins)) == 20


@pytest.mark.parametrize(
    ("settings", "visible"),
    [
        ({"at_once": 1}, [0, 1, 2, 3, 4, 5, 6, 7]),
        ({"at_once": 4}, [0, 0, 0, 0, 4, 4, 4, 4]),
        ({"at_once": 3}, [0, 0, 0, 3, 3, 3, 6, 6]),
        ({"name": "grid", "prune": False, "at_once": 2}, [0] * 8),
        ({"name": "grid", "prune": True, "at_once": 2}, [0, 0, 2, 2, 4, 4, 6, 6]),
    ],
)
def test_trials_of_a_wave_do_not_see_each_other(settings, visible):
    tuner = TunerConfig(**settings)
    assert [visible_trials(number, tuner) for number in range(8)] == visible


def test_the_first_of_equals_wins_and_failures_never():
    trials = [done(0, {}, 0.1), done(1, {}, 0.3), done(2, {}, 0.3), done(3, {}, None, (), "failed")]
    assert best_trial(trials, 4).number == 1
    assert best_trial(trials[3:], 1) is None
