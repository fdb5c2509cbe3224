import pytest

from lookalike.choose.decision import decide
from lookalike.compare.contenders import gather
from lookalike.files import read_json, write_json


def decision(folder, metric="recall@1"):
    return decide(gather([folder]), metric)


def set_validation(folder, method, value):
    """Change what validation said of a method; its test scores stay."""
    path = folder / "glyphs" / f"{method}.json"
    write_json(path, read_json(path) | {"validation": value}, sealed=True)


@pytest.fixture
def study(make_study, tmp_path):
    """LDA has 0.64; of three methods one is below, one above, one far above."""
    return make_study(
        tmp_path / "s", {"triplet": 0.55, "contrastive": 0.68, "multi-similarity": 0.80}
    )


def test_training_that_is_shown_to_help_is_recommended(study):
    found = decision(study)
    assert found.training_helps
    assert found.chosen.name == "multi-similarity"
    assert found.chosen.trained
    assert found.untrained.name == "LDA, shrunk"
    assert found.gain.mean == pytest.approx(0.16, abs=0.02)
    assert set(found.beaten) >= {"triplet", "contrastive"}
    assert (found.test_classes, found.trainings) == (40, 5)


def test_validation_chooses_and_not_the_test(study):
    set_validation(study, "contrastive", 0.9)  # the test says that multi-similarity is better
    found = decision(study)
    assert found.trained.name == "contrastive"
    assert found.candidates[0].name == "contrastive"


def test_a_method_that_only_validation_likes_is_not_recommended(study):
    set_validation(study, "triplet", 0.9)
    found = decision(study)
    assert found.trained.name == "triplet"
    assert not found.training_helps
    assert found.chosen.name == "LDA, shrunk"
    assert found.gain.better == "LDA, shrunk"


def test_a_gain_that_may_be_chance_is_not_recommended(make_study, tmp_path):
    folder = make_study(tmp_path / "s", {"triplet": 0.645}, classes=8, spread=0.1)
    found = decision(folder)
    assert not found.training_helps
    assert found.chosen.name == "LDA, shrunk"
    assert "triplet" in found.tied
    assert found.classes_needed is None or found.classes_needed > 8


def test_too_few_test_classes_show_nothing(make_study, tmp_path):
    found = decision(make_study(tmp_path / "s", {"triplet": 0.9}, classes=4))
    assert found.gain.over_classes is None
    assert not found.training_helps


def test_intervals_are_over_classes(make_study, tmp_path):
    few = decision(make_study(tmp_path / "few", classes=10, spread=0.1)).chosen
    many = decision(make_study(tmp_path / "many", classes=200, spread=0.1)).chosen
    assert few.half > 2 * many.half
