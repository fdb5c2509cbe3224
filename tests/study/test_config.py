import pytest

from lookalike.errors import BadInput
from lookalike.registry import LOSSES
from lookalike.study.config import load_study, parse_study, shipped_methods
from lookalike.study.plan import make_plan


def test_overrides_reach_the_only_data_set(study_file, pictures):
    study = load_study(study_file(), ["data.label=mine", "tuner.trials=7"])
    assert (study.data[0].display_name, study.data[0].root) == ("mine", pictures)
    assert study.tuner.trials == 7


def test_a_base_may_extend_a_recipe(study_file):
    study = load_study(study_file(base={"extends": "recipe:glyphs", "model": {"dim": 5}}))
    assert study.base["model"]["dim"] == 5
    assert "data" not in study.base


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"tunner": {}}, "no key 'tunner'; did you mean 'tuner'"),
        ({"tuner": {"name": "tpee"}}, "did you mean 'tpe'"),
        ({"methods": []}, "methods"),
        ({"methods": ["tripplet"]}, "no search space 'tripplet'; did you mean 'triplet'"),
        ({"methods": ["triplet", "triplet"]}, "two methods are called 'triplet'"),
        ({"methods": [{"space": "triplet", "search": {"loss.margn": [0, 1]}}]}, "'margn'"),
        ({"methods": [{"space": "triplet", "search": {"loss.margin": [1, 0]}}]}, "is above high"),
        ({"methods": [{"space": "triplet", "search": {"seed": [1, 2]}}]}, "sets 'seed' by itself"),
        ({"tuner": {"name": "grid"}}, "needs a step or choices"),
        ({"base": {"seed": 3}}, "write 'seed' outside of base"),
        ({"metric": "mapp@r"}, "mapp@r"),
        ({"protocol": {"folds": 9}}, "protocol.folds = 9 must lie between"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(
    study_values, tmp_path, changes, sentence
):
    with pytest.raises(BadInput, match=sentence):
        make_plan(parse_study(study_values(**changes)), tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_every_loss_has_a_space_and_every_space_can_be_run(study_values, tmp_path):
    losses = {space["loss"]["name"] for space in shipped_methods().values()}
    registered = {
        name
        for name in LOSSES.names()
        if LOSSES.find(name).build.__module__.startswith("lookalike.")
    }
    assert registered <= losses
    plan = make_plan(parse_study(study_values(methods=list(shipped_methods()))), tmp_path)
    assert len(plan.methods) == len(shipped_methods())
    assert len({part.method.identity for part in plan.methods}) == len(shipped_methods())


def test_the_thesis_grid_has_its_points(study_values, tmp_path):
    study = parse_study(study_values(methods=["grid/proxy-anchor"], tuner={"name": "grid"}))
    (progress,) = make_plan(study, tmp_path).methods
    assert progress.trials_asked == 11 * 50


def test_what_does_not_decide_a_trial_does_not_rename_it(study_values, tmp_path):
    def identity(**changes):
        return make_plan(parse_study(study_values(**changes)), tmp_path).methods[0].method.identity

    assert identity() == identity(tuner={"trials": 9}, repeats=7, methods=["triplet"])
    assert identity() != identity(seed=1)
    assert identity() != identity(tuner={"trials": 3, "prune": False})


@pytest.mark.parametrize(
    "setting",
    [
        *("name=../other", "name=/tmp/other", "name=a/../../other"),
    ],
)
def test_a_name_leads_nowhere_else(tmp_path, setting):
    (tmp_path / "a.yaml").write_text("data: {name: glyphs}\nmethods: [triplet]\n")
    with pytest.raises(BadInput, match="cannot be the name of a folder"):
        load_study(tmp_path / "a.yaml", [setting])
