from dataclasses import replace
from statistics import fmean
from types import SimpleNamespace

import pytest

from lookalike.choose.chooser import decide, validated_gains
from lookalike.compare.contenders import gather
from lookalike.study.results import Trial
from lookalike.study.table import class_scores, load_results


def decision(folder, metric="recall@1"):
    return decide(gather([folder]), metric)


@pytest.fixture
def set_validation(save_study):
    """Change what validation said of a method; its test scores stay."""

    def change(folder, method, folds, last=None):
        """``last``: of the last epoch of each fold, where it differs from the best."""
        found = load_results(folder)
        kept = {(row.dataset, row.label): class_scores(folder, row) for row in found.rows}
        kept |= {(row.group, row.baseline): class_scores(folder, row) for row in found.baselines}
        rows = []
        for row in found.rows:
            trials = [
                replace(one, folds=tuple(folds), last=tuple(last or folds), value=fmean(folds))
                if row.method == method and one.state == "complete"
                else one
                for one in row.trials
            ]
            rows.append(replace(row, trials=tuple(trials)))
        (folder / "study.db").unlink()
        save_study(replace(found, rows=tuple(rows)), kept)

    return change


def untrained_validation(folder):
    row = next(row for row in gather([folder]).studies[0].baselines if row.baseline == "lda")
    return row.validation


@pytest.fixture
def study(make_study, tmp_path):
    """LDA has 0.64; of three methods one is below, one above, one far above."""
    return make_study(
        tmp_path / "s", {"triplet": 0.55, "contrastive": 0.68, "multi-similarity": 0.80}
    )


def test_training_that_is_shown_to_help_is_recommended(study, set_validation):
    set_validation(study, "multi-similarity", [0.95] * 4)
    found = decision(study)
    assert found.training_helps
    assert found.confirmed
    assert found.chosen.name == "multi-similarity"
    assert found.chosen.trained
    assert found.untrained.name == "LDA, shrunk"
    assert found.gain.mean == pytest.approx(0.16, abs=0.02)
    assert set(found.beaten) >= {"triplet", "contrastive"}
    assert (found.compared.classes, found.trainings) == (40, 5)


def test_validation_chooses_and_not_the_test(study, set_validation):
    set_validation(
        study, "contrastive", [0.95] * 4
    )  # the test says that multi-similarity is better
    found = decision(study)
    assert found.trained.name == "contrastive"
    assert found.candidates[0].name == "contrastive"


def test_validation_decides_whether_to_train_and_the_test_only_reports(study, set_validation):
    """The test says that triplet is worse than LDA; it is read once, after the decision."""
    set_validation(study, "triplet", [0.95] * 4)
    found = decision(study)
    assert found.trained.name == found.chosen.name == "triplet"
    assert found.training_helps
    assert not found.confirmed
    assert found.gain.better == "LDA, shrunk"


def test_the_best_epoch_of_a_fold_does_not_show_that_training_helps(study, set_validation):
    """The best of its epochs never loses to its start: the last one decides."""
    set_validation(
        study, "multi-similarity", [0.95] * 4, [min(untrained_validation(study)) - 0.01] * 4
    )
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


def test_a_gain_in_some_folds_only_is_not_recommended(study, set_validation):
    base = untrained_validation(study)
    folds = [score + 0.1 + 0.3 * (-1) ** at for at, score in enumerate(base)]
    set_validation(study, "multi-similarity", folds)
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
