from types import SimpleNamespace

import pytest

from lookalike.choose.decision import decide, validated_gains
from lookalike.compare.contenders import gather
from lookalike.files import read_json, write_json
from lookalike.study.results import Trial


def decision(folder, metric="recall@1"):
    return decide(gather([folder]), metric)


def set_validation(folder, method, value, *, last=None):
    """Change what validation said of a method; its test scores stay.

    ``last``: of the last epoch of each fold, where it differs from the best.
    """
    path = folder / "glyphs" / f"{method}.json"
    row = read_json(path)
    for trial in row["trials"]:
        if trial["state"] == "complete":
            trial["folds"] = [value] * len(trial["folds"])
            trial["last"] = [value if last is None else last] * len(trial["folds"])
            trial["value"] = value
    write_json(path, row | {"validation": value}, sealed=True)


def untrained_validation(folder):
    row = next(row for row in gather([folder]).studies[0].baselines if row.baseline == "lda")
    return row.validation


@pytest.fixture
def study(make_study, tmp_path):
    """LDA has 0.64; of three methods one is below, one above, one far above."""
    return make_study(
        tmp_path / "s", {"triplet": 0.55, "contrastive": 0.68, "multi-similarity": 0.80}
    )


def test_training_that_is_shown_to_help_is_recommended(study):
    set_validation(study, "multi-similarity", 0.95)
    found = decision(study)
    assert found.training_helps
    assert found.confirmed
    assert found.chosen.name == "multi-similarity"
    assert found.chosen.trained
    assert found.untrained.name == "LDA, shrunk"
    assert found.gain.mean == pytest.approx(0.16, abs=0.02)
    assert set(found.beaten) >= {"triplet", "contrastive"}
    assert (found.test_classes, found.trainings) == (40, 5)


def test_validation_chooses_and_not_the_test(study):
    set_validation(study, "contrastive", 0.95)  # the test says that multi-similarity is better
    found = decision(study)
    assert found.trained.name == "contrastive"
    assert found.candidates[0].name == "contrastive"


def test_validation_decides_whether_to_train_and_the_test_only_reports(study):
    """The test says that triplet is worse than LDA; it is read once, after the decision."""
    set_validation(study, "triplet", 0.95)
    found = decision(study)
    assert found.trained.name == found.chosen.name == "triplet"
    assert found.training_helps
    assert not found.confirmed
    assert found.gain.better == "LDA, shrunk"


def test_the_best_epoch_of_a_fold_does_not_show_that_training_helps(study):
    """The best of its epochs never loses to its start: the last one decides."""
    set_validation(study, "multi-similarity", 0.95, last=min(untrained_validation(study)) - 0.01)
    found = decision(study)
    assert found.trained.name == "multi-similarity"
    assert found.confirmed  # of no effect: the test does not decide
    assert not found.training_helps
    assert found.chosen.name == "LDA, shrunk"


def trial(number, folds, last):
    return Trial(number, {}, "complete", sum(folds) / len(folds), folds, 1.0, last=last)


def test_settings_of_a_fold_are_chosen_on_the_others():
    rows = [
        SimpleNamespace(trials=(trial(0, (0.9, 0.1, 0.1), (0.9, 0.1, 0.1)),)),
        SimpleNamespace(trials=(trial(0, (0.5, 0.4, 0.4), (0.4, 0.3, 0.3)),)),
    ]
    # by folds 2 and 3 the second is chosen for fold 1; by 1 and 3, and 1 and 2, the first
    gains = validated_gains(rows, (0.2, 0.2, 0.2))
    assert gains == pytest.approx([0.4 - 0.2, 0.1 - 0.2, 0.1 - 0.2])
    assert validated_gains(rows, (0.2,)) == []
    assert validated_gains([], (0.2, 0.2)) == []


def test_a_gain_in_some_folds_only_is_not_recommended(study):
    path = study / "glyphs" / "multi-similarity.json"
    row, base = read_json(path), untrained_validation(study)
    for one in row["trials"]:
        if one["state"] == "complete":
            one["folds"] = [score + 0.3 * (-1) ** at for at, score in enumerate(base)]
    write_json(path, row | {"validation": 0.95}, sealed=True)
    found = decision(study)
    assert found.trained.name == "multi-similarity"
    assert found.validated.low < 0
    assert not found.training_helps


def test_too_few_test_classes_show_nothing(make_study, tmp_path):
    found = decision(make_study(tmp_path / "s", {"triplet": 0.9}, classes=4))
    assert found.gain.over_classes is None
    assert not found.confirmed


def test_intervals_are_over_classes(make_study, tmp_path):
    few = decision(make_study(tmp_path / "few", classes=10, spread=0.1)).chosen.bounds
    many = decision(make_study(tmp_path / "many", classes=200, spread=0.1)).chosen.bounds
    assert few.high - few.low > 2 * (many.high - many.low)
