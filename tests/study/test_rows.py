"""Rows with their own settings, and axes besides the method: resolved, named and refused."""

import pytest

from lookalike.config import parse
from lookalike.config.loading import merge
from lookalike.errors import BadInput
from lookalike.study.config import load_study, parse_study
from lookalike.study.plan import make_plan
from lookalike.study.records import JOINED, Record, TaskKey
from lookalike.study.tuning import TunerConfig, grid_values, suggest, trials_asked


@pytest.fixture
def row_values(study_values):
    """A row of a study, as the mapping in its file."""

    def values(method="triplet", axes=None, search=None, **changes):
        study = study_values()
        protocol = {"name": "paper", "metrics": ["recall@1", "map@r"]}
        config = study["base"] | {"data": study["data"], "loss": {"name": method}}
        config |= {"protocol": protocol} | changes
        return {"method": method, "axes": axes or {}, "config": config, "search": search or {}}

    return values


def plan_of(values, folder):
    return make_plan(parse_study(values), folder)


def baselines_of(plan, name="raw-features"):
    return [row.method for row in plan.rows if row.method.name == name]


def groups_of(plan):
    return [method.group for method in baselines_of(plan)]


def test_axes_are_the_product_with_methods(study_values, tmp_path):
    axes = {"size": {4: {"model.dim": 4}, 6: {"model.dim": 6}}, "optim.weight_decay": [0, 0.1]}
    plan = plan_of(study_values(axes=axes), tmp_path)
    found = [(part.method.label, part.method.config) for part in plan.methods]
    assert [label for label, _ in found] == [
        "triplet, 4, 0", "proxy-anchor, 4, 0", "triplet, 4, 0.1", "proxy-anchor, 4, 0.1",
        "triplet, 6, 0", "proxy-anchor, 6, 0", "triplet, 6, 0.1", "proxy-anchor, 6, 0.1",
    ]  # fmt: skip
    assert [config.model.dim for _, config in found] == [4] * 4 + [6] * 4
    assert [config.optim.weight_decay for _, config in found] == [0, 0, 0.1, 0.1] * 2
    assert len({part.method.identity for part in plan.methods}) == 8
    # baselines do not depend on the weight decay
    assert groups_of(plan) == ["folder, 4", "folder, 6"]
    assert plan.methods[0].method.group == plan.methods[2].method.group == "folder, 4"


def test_an_axis_may_set_parts_data_and_protocol(study_values, tmp_path, pictures):
    axes = {
        "sampler": {
            "spc": {"sampler.per_class": 4},
            "random": {"sampler": {"name": "random", "batch_size": 6}},
        },
        "ratio": {"50/50": {"protocol.name": "fixed-validation", "protocol.ratio": 0.5}},
        "crop": {"other": {"data.name": "folder", "data.transform": "small"}},
    }
    plan = plan_of(study_values(methods=["triplet"], axes=axes), tmp_path)
    spc, random = [part.method for part in plan.methods]
    assert spc.config.sampler.arguments == {"batch_size": 8, "per_class": 4}
    assert random.config.sampler.arguments == {"batch_size": 6}
    assert random.label == "triplet, random, 50/50, other"
    assert (random.folds, random.config.protocol.ratio) == (1, 0.5)
    assert random.config.data.transform == "small"
    assert groups_of(plan) == ["folder"]


def test_rows_have_their_own_data_and_protocol(row_values, study_values, tmp_path):
    validated = {"name": "cross-validation", "folds": 2, "metrics": ["map@r"]}
    rows = [
        row_values(axes={"protocol": "paper"}),
        row_values(axes={"protocol": "folds"}, protocol=validated, search={"optim.lr": [1e-4, 1]}),
    ]
    plan = plan_of({"name": "rows", "rows": rows, "tuner": {"trials": 5}}, tmp_path)
    paper, folds = plan.methods
    assert (paper.method.folds, paper.trials_asked, folds.method.folds, folds.trials_asked) == (
        1,
        0,
        2,
        5,
    )
    assert groups_of(plan) == ["folder, paper", "folder, folds"]
    # every repeat leaves out the same classes
    assert paper.method.config.protocol.seed == folds.method.config.protocol.seed == 0
    assert plan.summary() == ("25 trainings: 2 rows, 5 trials, 5 repeats of each row, 2 folds")


def test_a_row_may_extend_a_recipe(tmp_path):
    path = tmp_path / "rows.yaml"
    path.write_text(
        "rows:\n"
        "  - {method: triplet, axes: {size: 64}, config: {extends: 'recipe:glyphs', "
        "model: {dim: 64}, loss: {name: triplet}}}\n"
    )
    (row,) = load_study(path).rows
    assert row.axes == {"size": "64"}
    config = parse(row.config)
    assert (config.data.name, config.model.dim, config.loss.name) == ("glyphs", 64, "triplet")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"methods": ["triplet"]}, "rows have their own settings, so 'methods' has no effect"),
        ({"protocol": {"folds": 3}}, "'protocol' has no effect"),
        ({"metric": "map@10"}, "metric = 'map@10' is not among protocol.metrics"),
    ],
)
def test_what_rows_contradict_is_refused(row_values, tmp_path, changes, sentence):
    with pytest.raises(BadInput, match=sentence):
        plan_of({"name": "rows", "rows": [row_values()]} | changes, tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_rows_that_cannot_be_told_apart_are_refused(row_values, tmp_path):
    with pytest.raises(BadInput, match="two methods are called 'triplet'"):
        plan_of({"name": "rows", "rows": [row_values(), row_values()]}, tmp_path)


def test_a_search_needs_validation_classes(row_values, study_values, tmp_path):
    row = row_values(search={"loss.margin": [0, 1]})
    with pytest.raises(BadInput, match="search needs validation classes"):
        plan_of({"name": "rows", "rows": [row]}, tmp_path)
    with pytest.raises(BadInput, match="search needs validation classes"):
        plan_of(study_values(protocol={"name": "paper"}), tmp_path)


@pytest.mark.parametrize(
    ("axes", "sentence"),
    [
        ({"seed": [0, 1]}, "sets 'seed' by itself"),
        ({"size": {}}, "must map values to settings"),
        ({"size": {"64": {"model.dimm": 64}}}, "model.dimm"),
    ],
)
def test_impossible_axes_are_refused(study_values, tmp_path, axes, sentence):
    with pytest.raises(BadInput, match=sentence):
        plan_of(study_values(axes=axes), tmp_path)


def test_every_point_of_a_grid_is_ready_at_once(study_values, tmp_path):
    search = {"loss.margin": {"low": 0.0, "high": 0.3, "step": 0.1}}
    method = {"name": "grid", "loss": {"name": "triplet"}, "search": search}
    values = study_values(methods=[method], tuner={"name": "grid", "prune": False}, repeats=1)
    plan = plan_of(values, tmp_path)
    assert len(plan.methods[0].ready) == 4 * 2  # points x folds: none depends on another
    assert plan.summary().startswith("10 trainings: 1 row, 4 points of a grid, 1 repeat")
    pruned = plan_of(values | {"tuner": {"name": "grid"}}, tmp_path)
    assert len(pruned.methods[0].ready) == 1


def test_the_largest_grid_of_the_thesis_is_given_out_in_parts(study_values, tmp_path):
    tuner = {"name": "grid", "prune": False}
    plan = plan_of(study_values(methods=["grid/soft-triple"], tuner=tuner), tmp_path)
    (progress,) = plan.methods
    assert progress.trials_asked == 605_000
    assert len(progress.ready) == 256 * 2
    assert "605,000 points of a grid" in plan.summary()


def test_a_grid_has_every_point_once():
    method = {
        "loss.margin": {"low": 0, "high": 1, "step": 0.25},
        "loss.way": {"choices": ["a", "b"]},
    }
    search = parse_study({"methods": [{"name": "m", "search": method}]}).methods[0].search
    tuner = TunerConfig(name="grid", prune=False)
    points = [
        suggest(tuner, search, 3, number, []) for number in range(trials_asked(tuner, search))
    ]
    wanted = {
        (margin, way)
        for margin in grid_values(search["loss.margin"])
        for way in grid_values(search["loss.way"])
    }
    assert {tuple(point.values()) for point in points} == wanted
    assert len(points) == len(wanted) == 10


def test_baselines_of_rows_have_the_features_of_the_rows(row_values, study_values, tmp_path):
    def config(**changes):
        one = row_values()
        return one | {"config": merge(one["config"], changes)}

    sizes = [config(train={"eval_batch_size": size}) | {"axes": {"b": size}} for size in (3, 512)]
    plan = plan_of({"name": "rows", "rows": sizes}, tmp_path)
    (baseline,) = baselines_of(plan)  # how many are read at a time makes no other baseline
    assert baseline.config.train.eval_batch_size == 3

    norms = [config(model={"layer_norm": on}) | {"axes": {"n": on}} for on in (False, True)]
    plan = plan_of({"name": "rows", "rows": norms}, tmp_path)
    assert [one.config.model.layer_norm for one in baselines_of(plan, "pca")] == [False, True]

    axes = {"n": {"no": {"model.layer_norm": False}, "yes": {"model.layer_norm": True}}}
    plan = plan_of(study_values(methods=["triplet"], axes=axes), tmp_path)
    assert [one.config.model.layer_norm for one in baselines_of(plan)] == [False, True]
    assert {one.config.train.eval_batch_size for one in baselines_of(plan)} == {512}


def test_a_study_says_which_settings_change_nothing(study_values, tmp_path):
    base = merge(study_values()["base"], {"train": {"patience": 3}})
    margin = {"loss": {"name": "margin"}, "name": "margin"}
    values = study_values(base=base, protocol={"name": "paper"}, methods=[margin])
    assert [text.partition(" ")[0] for text in plan_of(values, tmp_path).without_effect()] == [
        "train.patience"
    ]
    assert plan_of(study_values(base=base), tmp_path).without_effect() == []


def test_another_metric_leaves_the_trials_and_trains_the_repeats(study_values, tmp_path):
    def row(*metrics):
        protocol = {"folds": 2, "metrics": ["map@r", *metrics]}
        given = [{"name": "as-given", "loss": {"name": "triplet"}}]
        (one,) = plan_of(study_values(methods=given, protocol=protocol), tmp_path).methods
        return one

    tested = {fold: {"map@r": 0.5, "validation map@r": 0.5} for fold in (0, 1, JOINED)}
    before, after = row(), row("mrr")
    assert before.method.identity == after.method.identity
    for one in (before, after):
        for number in range(2):
            one.take(TaskKey(0, repeat=number), Record(tested))
    assert (before.ended, len(after.ready)) == (True, 2)
