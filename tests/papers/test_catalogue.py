"""Every table and figure resolves into runs that can be trained, with the published settings."""

import math

import pytest

from lookalike import published
from lookalike.config import parse
from lookalike.config.keys import flattened
from lookalike.config.loading import nested, set_keys
from lookalike.errors import BadInput
from lookalike.papers import entries, entry, find_entries, make_plan, rows
from lookalike.papers.catalogue import ANY, HIGHEST, OTHERS, REPORTED
from lookalike.papers.claims import METRIC
from lookalike.papers.selection import quoted
from lookalike.papers.tables import list_table
from lookalike.published import hyperparameters
from lookalike.study.tuning import grid_values, trials_asked
from lookalike.training.runner import check

CUB = ("data.name=cub", "data.root=birds")
TRAINED = [one for one in entries().values() if one.select and not one.of]
NAMES = [one.name for one in TRAINED]


@pytest.fixture(scope="module")
def plans():
    return {one.name: make_plan(one) for one in TRAINED}


def test_at_least_sixty_of_every_paper():
    assert len(entries()) >= 60
    assert {one.paper for one in entries().values()} == set(published.papers())
    titles = [one.heading for one in entries().values()]
    assert len(set(titles)) == len(titles)


WANTED = {
    "thesis": """cub-resnet50-64 tournament cross-validation split-ratio grid-search networks
        datasets sizes-cub-googlenet years-cub-resnet50 projection our-method-sop
        fixed-validation""",
    "reality-check": """printed-cub printed-cars printed-sop printed-cub-256 search-cub search-cars
        search-sop search-cub-256 papers-versus-reality-cub reality-map@r-cub optimization-plots-sop
        optimizers transforms reported-contrastive reported-triplet unfair-architecture
        claimed-gains""",
    "roth": """network-cub weight-decay-cub size-cub batch-size-cub preprocessing-cub sampler-cub
        losses-cub correlation-cub rho-regularization-sop""",
    "metrix": """cub cars sop inshop negatives pairs weight alpha layer embedding-space
        distances""",
    "dr": "cub search retrieval",
}


@pytest.mark.parametrize("paper", WANTED)
def test_everything_asked_for_is_there(paper):
    assert {f"{paper}/{name}" for name in WANTED[paper].split()} <= set(entries())


def test_every_printed_number_of_a_recipe_has_a_place(plans):
    found = {row.recipe for plan in plans.values() for row in plan.rows}
    assert {row.recipe for row in published.load() if row.recipe} <= found


def test_every_row_is_named_once(plans):
    for name, plan in plans.items():
        labels = [row.label for row in plan.rows]
        assert len(set(labels)) == len(labels) > 0, name


def test_views_share_the_trainings_of_their_table():
    for one in entries().values():
        if one.of:
            table = entry(one.of)
            assert one.study == table.name
            assert (one.select, one.axes, one.set, one.metrics, one.search, one.space) == (
                *(table.select, table.axes, table.set, table.metrics, table.search, table.space),
            )
            assert not table.of
            assert one.figures or "embedding-space" in one.name


def test_figures_and_claims_name_what_is_there(plans):
    for one in entries().values():
        if one.lists:
            continue
        found = plans[one.study].rows
        values = {axis: {row.axes[axis] for row in found} for axis in one.axes}
        values["method"] = {row.method for row in found}
        for figure in one.figures:
            if figure.kind == "lines":
                assert {figure.x, figure.line} <= set(values), one.name
            tested = set(found[0].config.protocol.metrics)
            assert set(figure.metrics) <= tested, one.name
        for claim in one.claims:
            named = {name for pair in claim.pairs for name in (pair.first, pair.second)}
            assert named - {ANY, HIGHEST, OTHERS, REPORTED} <= values[claim.axis], one.name
            tested = {"year", *found[0].config.protocol.metrics}
            assert set(claim.correlates) <= tested, one.name
            assert METRIC in found[0].config.protocol.metrics


def test_quotes_are_published():
    for one in entries().values():
        sources = {row.source for row in quoted(one)}
        assert sources == set(one.quotes), one.name
    ranks = [row for row in quoted(entry("thesis/tournament")) if row.metric == "rank-mean"]
    assert len(ranks) == 10


@pytest.mark.parametrize("name", NAMES)
def test_small_scale_keeps_what_the_experiment_varies(name, plans):
    one, plan = entry(name), plans[name]
    original = {row.recipe: row.config for row in plan.rows}
    for data in ((), CUB):
        if one.photographs and not data:
            continue
        small = make_plan(one, "small", data)
        assert small.folder == f"reproduce/{name}-small" + ("-cub" if data else "")
        assert small.deviations[0].startswith("Small scale")
        assert len(small.rows) <= len(plan.rows)
        for row in small.rows:
            was, now = original[row.recipe], row.config
            assert row.as_published == was
            assert (now.loss, now.miner, now.sampler) == (was.loss, was.miner, was.sampler)
            assert (now.mix, now.protocol, now.model.dim) == (was.mix, was.protocol, was.model.dim)
            assert now.data.name == "glyphs" or (now.data.name == "cub" and data)
            assert now.train.epochs <= 8
            assert now.model.network not in ("resnet50", "bn-inception", "googlenet")
            assert now.model.weights == "imagenet" or "network" in one.axes
            if "decay" in one.axes:
                assert now.optim.weight_decay == was.optim.weight_decay


@pytest.mark.parametrize("name", [one.name for one in TRAINED if one.searches])
def test_both_ends_of_every_range_can_be_trained(name, plans):
    for scale in ("paper", "small"):
        for row in rows(entry(name), scale):
            for key, searched in row.search.items():
                for value in searched.ends:
                    check(parse(set_keys(row.config.model_dump(mode="json"), {key: value})))


def expected_settings(row):
    """What the paper prints for a row, by dotted key: the more special value wins."""
    paper, config, method = row.recipe.partition("/")[0], row.config, row.method
    names = ["", method]
    if row.recipe.endswith("-fixed"):
        names.append(f"{method}-fixed")
    found = {}
    for name in names:
        for printed in hyperparameters():
            if (
                (printed.paper, printed.method) == (paper, name)
                and printed.dataset in ("", config.data.name)
                and printed.network in ("", config.model.network)
                and printed.size in (None, config.model.dim)
                and printed.batch in (None, config.sampler.arguments["batch_size"])
            ):
                found |= flat_settings(printed.settings)
    return found


def flat_settings(settings):
    return flattened(nested(settings))


@pytest.mark.parametrize("name", NAMES)
def test_rows_have_the_printed_hyperparameters(name, plans):
    one = entry(name)
    for row in plans[name].rows:
        values = flattened(row.config.model_dump(mode="json"))
        wanted = expected_settings(row)
        for key, value in wanted.items():
            if key in row.search or row.method == "untrained":
                continue
            assert (
                values[key] == pytest.approx(value)
                if isinstance(value, float)
                else (values[key] == value)
            ), (row.recipe, key)
        if one.paper == "reality-check" and row.method != "untrained":
            assert wanted, row.recipe


def test_the_reality_check_is_as_described(plans):
    pace = {"cub": (2, 9), "cars": (5, 14), "sop": (20, 39), "cub-256": (2, 9)}
    once = {"proxy-nca", "normalized-softmax", "cosface", "arcface", "soft-triple"}
    for setting, (every, patience) in pace.items():
        printed, searched = (
            plans[f"reality-check/{what}-{setting}"] for what in ("printed", "search")
        )
        assert len(printed.rows) == 14 + 1
        assert printed.trainings == 14 * 10 * 4
        assert searched.trainings == 14 * (50 + 10) * 4
        assert searched.tuner.name == "gp"
        for row in (*printed.rows, *searched.rows):
            c = row.config
            batch = 256 if setting == "cub-256" else 32
            per_class = 1 if row.method in once and batch == 32 else 4
            assert c.sampler.arguments == {"batch_size": batch, "per_class": per_class}
            assert (c.model.network, c.model.dim) == ("bn-inception", 128)
            assert (c.model.freeze_bn_statistics, c.model.freeze_bn_affine) == (True, False)
            assert (c.optim.name, c.optim.lr, c.optim.momentum) == ("rmsprop", 1e-6, 0.9)
            assert (c.optim.weight_decay, c.optim.loss_weight_decay) == (1e-4, 1e-4)
            assert (c.train.batches_per_epoch, c.train.metric) == (100, "map@r")
            assert (c.train.validate_every, c.train.patience_epochs) == (every, patience)
            assert (c.protocol.name, c.protocol.folds, c.protocol.order) == (
                *("cross-validation", 4, "sequential"),
            )
            assert c.data.transform == "reality-check"
            assert row.folds == 4
        for row in searched.rows:
            if "optim.loss_lr" in row.search and "margin" not in row.method:
                rate = row.search["optim.loss_lr"]
                assert (rate.low, rate.high, rate.log) == (1e-6, 1, True)
            assert row.printed, row.method


def test_the_thesis_is_as_described(plans):
    tables = [name for name in NAMES if name.startswith("thesis/c") and name.count("-") > 1]
    for name in ["thesis/tournament", "thesis/our-method-sop", *tables]:
        for row in plans[name].rows:
            c = row.config
            assert (c.optim.name, c.optim.schedule) == ("adamw", "step")
            assert c.train.epochs == 100
            assert c.sampler.arguments["batch_size"] == (
                100 if c.model.network == "resnet50" else 180
            )
            assert c.model.dim in (64, 128, 512, 1024)
            assert (c.protocol.name, row.folds) == ("paper", 1)
            assert len([n for n in row.published.values() if n.value is not None]) >= 3
    assert {row.axes["network"] for row in plans["thesis/tournament"].rows} == {
        *("resnet50", "bn-inception", "googlenet"),
    }
    assert len(plans["thesis/tournament"].rows) == 10 * 3 * 4
    folds = plans["thesis/cross-validation"]
    assert [row.folds for row in folds.rows] == [10, 10, 10]
    assert folds.trainings == 30
    assert {row.config.protocol.order for row in folds.rows} == {"random"}
    ratios = plans["thesis/split-ratio"].rows
    assert [row.config.protocol.ratio for row in ratios] == [0.7, 0.8, 0.9, 0.95]
    assert all(row.published_validation["recall@1"].value for row in ratios)
    grid = plans["thesis/grid-search"]
    asked = [trials_asked(grid.tuner, row.search) for row in grid.rows]
    assert asked == [302_500, 605_000, 550]  # exhaustive
    for row in grid.rows:
        assert row.config.train.epochs == 10
        for printed in row.printed:
            (key, value), *_ = flat_settings(printed.settings[-1:]).items()
            if key == "loss.gamma":
                continue  # 58 is no point of its own grid of 10, 20, ...
            points = grid_values(row.search[key])
            assert any(math.isclose(value, point) for point in points), (row.method, key)


def test_metrix_is_as_described(plans):
    for dataset in ("cub", "cars", "sop", "inshop"):
        found = plans[f"metrix/{dataset}"].rows
        assert len(found) == 12
        for row in found:
            c = row.config
            assert (c.model.network, c.model.dim) == ("resnet50", 512)
            assert c.sampler.arguments["batch_size"] == 100
            assert c.optim.clip_value == 10
            assert len(row.published) == 3
            if c.mix is not None:
                assert (c.mix.alpha, c.mix.weight, c.mix.pairs) == (2, 0.4, "both")
    # each ablation contains the paper's own value, which is the row of the table
    table = {row.recipe: row.config for row in plans["metrix/cub"].rows}
    for axis, value in {"negatives": "all", "pairs": "both", "weight": "0.4", "alpha": "2"}.items():
        found = {(row.method, row.axes[axis]): row.config for row in plans[f"metrix/{axis}"].rows}
        own = found["contrastive-feature", value]
        feature = table["metrix/cub/contrastive-feature"]
        changed = own.mix.model_copy(update={"negatives": feature.mix.negatives})
        assert changed == feature.mix
        assert own.model_copy(update={"mix": None}) == feature.model_copy(update={"mix": None})


def test_dr_and_roth_are_as_described(plans):
    for row in plans["dr/cub"].rows:
        c = row.config
        assert (c.model.dim, c.sampler.arguments["batch_size"]) == (64, 128)
        assert (c.optim.name, c.optim.lr, c.optim.weight_decay) == ("adam", 1e-5, 5e-3)
        assert c.train.patience == 25
    (row,) = plans["dr/search"].rows
    assert set(row.search) == {"loss.margin", "loss.direction"}
    for printed in row.printed:
        key, value = next(iter(flat_settings(printed.settings).items()))
        assert row.search[key].low < value < row.search[key].high
    (row,) = plans["dr/direction"].rows
    assert grid_values(row.search["loss.direction"]) == [0.2, 0.25, 0.3, 0.35, 0.4, 0.45]
    for name, plan in plans.items():
        if name.startswith("roth/"):
            metrics = {"recall@1", "pi-ratio", "rho", "pi-intra", "pi-inter"}
            assert all(metrics <= set(row.config.protocol.metrics) for row in plan.rows), name
    samplers = {row.axes["sampler"] for row in plans["roth/sampler-cub"].rows}
    assert samplers == {"spc-2", "spc-4", "spc-8", "spc-r", "gc", "ddm", "frd"}
    pairs = plans["roth/rho-regularization-cub"].rows
    assert sum(row.config.miner.name == "rho" for row in pairs) == 5


def test_small_axes_are_named_by_what_is_used():
    whole = make_plan(entry("thesis/tournament"), "small")
    assert {row.axes["network"] for row in whole.rows} == {
        *("resnet10t", "small-cnn", "mobilenetv3_small_050"),
    }
    one = make_plan(entry("thesis/tournament"), "small", CUB)
    assert len(one.rows) == 40  # the four sizes
    assert "The paper varies network; here there is only one." in one.deviations
    both = make_plan(entry("thesis/datasets"), "small", CUB)
    assert {row.axes["dataset"] for row in both.rows} == {"cub", "glyphs"}
    mixed = make_plan(entry("metrix/cub"), "small")
    assert {row.config.model.frozen_until for row in mixed.rows} == {None}
    assert "stored crops" not in " ".join(mixed.deviations)
    mixed = make_plan(entry("metrix/cub"), "small", CUB)
    assert {row.config.model.frozen_until for row in mixed.rows} == {"blocks.5"}
    assert {row.config.optim.lr for row in mixed.rows} == {3e-4}
    assert mixed.deviations[1] == (
        "The same layers learn in all rows; where pixels are mixed (contrastive-input; "
        "multi-similarity-input; proxy-anchor-input), images are cropped anew in every step, and "
        "in the other rows they have 4 stored crops."
    )


def test_the_untrained_network_stays_untrained():
    plan = make_plan(entry("reality-check/printed-cub"), "small", ["train.epochs=2"])
    epochs = {row.method: row.config.train.epochs for row in plan.rows}
    assert epochs.pop("untrained") == 0
    assert set(epochs.values()) == {2}


def test_counting():
    assert make_plan(entry("metrix/cub")).trainings == 36
    assert make_plan(entry("metrix/cub"), repeats=5).trainings == 60
    assert make_plan(entry("dr/search"), trials=7, repeats=2).trainings == 9
    told = make_plan(entry("dr/search"), trials=7, repeats=2).deviations
    assert "Trials of a search: 7 instead of 50." in told
    assert "Trainings of each row: 2 instead of 3." in told


@pytest.mark.parametrize(
    ("name", "settings", "sentence"),
    [
        ("metrix/cub", ["optim.learning=1"], "there is no key 'optim.learning'"),
        ("roth/size-cub", ["model.dim=32"], "these settings make rows the same"),
        ("thesis/tournament", ["model.weights=w.pth"], "weights.NETWORK=PATH"),
        ("thesis/tournament", ["weights.resnet5=w.pth"], "did you mean 'resnet50'"),
        ("metrix/cub", ["loss.name=tripplet"], "metrix/cub"),
    ],
)
def test_refusals(name, settings, sentence):
    with pytest.raises(BadInput, match=sentence):
        rows(entry(name), overrides=settings)


def test_weights_of_one_of_several_networks():
    plan = make_plan(entry("thesis/tournament"), overrides=["weights.bn-inception=w.pth"])
    weights = {row.config.model.network: row.config.model.weights for row in plan.rows}
    assert weights == {"resnet50": "imagenet", "bn-inception": "w.pth", "googlenet": "imagenet"}
    told = make_plan(
        entry("thesis/tournament"), overrides=["weights.bn-inception=w.pth"]
    ).deviations
    assert any("file instead of imagenet (40 of 120 rows)" in sentence for sentence in told)
    assert not any("w.pth" in sentence for sentence in told)


def test_unknown_names():
    with pytest.raises(BadInput, match="did you mean 'metrix/cub'"):
        entry("metrix/cubs")
    with pytest.raises(BadInput, match="no table or figure matches"):
        find_entries(["zebra"])
    assert {one.paper for one in find_entries(["Musgrave", "search"])} == {"reality-check"}


def test_lists_have_what_the_page_prints():
    tables = {one.name: list_table(one.lists) for one in entries().values() if one.lists}
    for table in tables.values():
        assert table.rows
        assert all(len(row.cells) == len(table.columns) for row in table.rows)
    sizes = {
        "optimizers": 21, "transforms": 18, "reported-contrastive": 11, "reported-triplet": 11,
        "hyperparameters": 36, "unfair-architecture": 7, "claimed-gains": 110,
    }  # fmt: skip
    assert {name: len(tables[f"reality-check/{name}"].rows) for name in sizes} == sizes
    horde = tables["reality-check/reported-triplet"].rows[-1]
    assert [cell.text for cell in horde.cells[2:]] == ["50.5", "65.2", ""]
