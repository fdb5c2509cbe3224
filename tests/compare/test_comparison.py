from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from lookalike import published
from lookalike.cli import app
from lookalike.compare.comparison import NEMENYI, PAIRWISE, compare, ranking_metrics
from lookalike.compare.contenders import gather
from lookalike.compare.statistics import tournament
from lookalike.config import load
from lookalike.errors import BadInput
from lookalike.study.results import BaselineRow, PlannedRow, StudyResults
from lookalike.study.table import class_scores, load_results
from lookalike.training import Run


@pytest.fixture
def study(make_study, tmp_path):
    return make_study(tmp_path / "study")


@pytest.fixture
def make_run(tmp_path):
    """A finished run as training leaves it, without its weights."""

    def make(name, *overrides, test=0.5, fingerprint="abcdef0123"):
        run = Run(tmp_path / "runs" / name)
        run.prepare(load(None, overrides), {})
        result = {"data_fingerprint": fingerprint, "epochs": 10}
        if test is not None:
            result |= {"train_classes": 2, "test_classes": 2, "test_images": 8}
            result["test"] = {"recall@1": test, "map@r": test / 2}
        run.finish(result, 1.0)
        return run.folder

    return make


def test_intervals_are_over_repeats_of_the_mean_of_folds(study):
    row = load_results(study).row("glyphs", "triplet")
    (one,) = [c for c in gather([study]).contenders if c.name == "triplet"]
    means = [np.mean([fold["map@r"] for fold in repeat.separate]) for repeat in row.repeats]
    expected = stats.ttest_1samp(means, 0).confidence_interval(0.95)
    found = one.interval("map@r")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    joined = [repeat.concatenated["map@r"] for repeat in row.repeats]
    assert one.interval("map@r", "concatenated").mean == pytest.approx(np.mean(joined))


def test_a_run_has_no_concatenated_score(study, make_run):
    """On a page of a study and a run the run's row stays empty: its own score is another thing."""
    (run,) = [c for c in gather([study, make_run("a", "loss.name=margin")]).contenders if c.runs]
    assert run.interval("map@r").mean == 0.25
    assert run.interval("map@r", "concatenated") is None
    (bare,) = gather([make_run("b", "train.epochs=0")]).contenders
    assert bare.interval("map@r", "concatenated").mean == 0.25  # the same network in every fold


def test_a_study_is_fair_and_only_what_holds_is_claimed(study):
    (part,) = compare(gather([study]), "map@r").datasets
    assert part.audit.flaws == ()
    assert part.ranking == "fair"
    assert (part.trainings, part.classes) == (5, 40)
    assert part.trained[0].name == "multi-similarity"
    assert [one.name for one in part.baselines] == ["LDA, shrunk", "raw features", "PCA"]
    better = {(d.better, d.worse) for d in part.differences if d.holds}
    assert ("multi-similarity", "contrastive") in better
    assert ("multi-similarity", "LDA, shrunk") in better
    assert ("LDA, shrunk", "triplet") in better
    assert not {("triplet", "contrastive"), ("contrastive", "triplet")} & better
    assert part.no_better_than_baseline["LDA, shrunk"] == ["triplet", "contrastive"]
    claim = part.claims[0]
    assert claim.startswith("multi-similarity is better than ")
    assert part.open + len(part.narrow_claims) == len(part.differences) - len(better) == 1
    assert part.basis == (
        "Intervals are over 5 training runs of each method and 40 test classes, crossed. Every "
        "verdict holds for this split of the classes and these searched settings; another split "
        "or search may change it."
    )
    assert part.searched == ("Searched parameters: 3 (multi-similarity, triplet, contrastive).")


def test_every_row_has_an_interval_over_classes(study):
    found = compare(gather([study]), "map@r").datasets[0]
    assert set(found.bounds) == {one.name for one in found.contenders}
    for one in found.trained:
        score, bounds = one.interval("map@r"), found.bounds[one.name]
        assert bounds.low < score.low < score.mean < score.high < bounds.high
    joined = compare(gather([study]), "map@r", "concatenated").datasets[0]
    mean = joined.trained[0].interval("map@r", "concatenated").mean
    assert joined.bounds["multi-similarity"].low < mean < joined.bounds["multi-similarity"].high


def test_the_sample_is_the_scores_of_the_rows(study):
    part = compare(gather([study]), "map@r").datasets[0]
    one = part.trained[1]
    repeats = [
        np.mean([model.scores["map@r"] for model in one.models if model.repeat == repeat])
        for repeat in range(5)
    ]
    at = part.sample.names.index(one.name)
    assert part.sample.totals[at].tolist() == pytest.approx(repeats)
    means = np.average(part.sample.by_class[one.name], axis=1, weights=part.sample.queries)
    assert means.tolist() == pytest.approx(repeats, abs=1e-6)  # stored in single precision
    bare = part.sample.names.index("PCA")
    assert len(set(part.sample.totals[bare])) == 1  # nothing is trained


def test_what_holds_over_trainings_only_is_said_to_hold_for_these_classes(make_study, tmp_path):
    """Methods that differ from class to class by more than from each other."""
    folder = make_study(tmp_path / "s", spread=0.3, baselines=())
    (part,) = compare(gather([folder]), "map@r").datasets
    assert part.claims == ()
    assert part.narrow_claims[0].startswith(
        "For this test set only: multi-similarity scores higher than "
    )
    assert {one.scope for one in part.differences} == {"this test set", "open"}


def test_results_without_scores_per_class_are_read_and_claim_nothing(make_study, tmp_path):
    folder = make_study(tmp_path / "s", classes=0)
    found = compare(gather([folder]), "map@r")
    (part,) = found.datasets
    assert (part.claims, part.bounds, part.classes) == ((), {}, 0)
    assert part.narrow_claims
    assert "scores per test class were not kept" in part.basis
    assert found.tournament is None  # repeats are no blocks


def test_one_seed_has_the_interval_over_classes_alone(make_study, tmp_path):
    folder = make_study(tmp_path / "s", repeats=1)
    (part,) = compare(gather([folder]), "map@r").datasets
    assert (part.trainings, part.classes) == (1, 40)
    assert part.basis.startswith(
        "Intervals are over the 40 test classes alone: with one training run of each "
        "method, another one may change the order. Every verdict holds for this split"
    )
    assert part.claims == ()
    assert part.narrow_claims[0].startswith("For these training runs only: multi-similarity scores")
    assert all(one.over_trainings is None for one in part.differences)
    assert all(one.over_classes is not None for one in part.differences)


def test_rows_of_other_classes_are_not_paired(make_study, tmp_path):
    more = make_study(tmp_path / "a", methods={"triplet": 0.6}, name="a", classes=40)
    less = make_study(tmp_path / "b", methods={"circle": 0.7}, name="b", classes=39)
    (part,) = compare(gather([more, less]), "map@r", allow_unfair=True).datasets
    (one,) = [d for d in part.differences if {d.better, d.worse} == {"a: triplet", "b: circle"}]
    assert one.over_classes is None
    assert set(part.bounds) >= {"a: triplet", "b: circle"}  # each has its own


def test_one_data_set_has_its_test_classes_as_blocks_and_says_so(study):
    found = compare(gather([study]), "recall@1").tournament
    assert found.blocks == 40
    assert (
        found.about
        == "40 test classes of glyphs, each by the mean of 5 training runs of every method"
    )
    assert found.standings[0].name == "multi-similarity"
    assert [set(group) for group in found.groups] == [{"contrastive", "triplet"}]
    assert (found.friedman, found.distance, found.rule) == (None, None, PAIRWISE)
    joined = compare(gather([study]), "recall@1", "concatenated").tournament
    assert joined.blocks == 40


def test_many_data_sets_are_the_blocks(make_study, tmp_path):
    names = [f"set{i}" for i in range(6)]
    folder = make_study(tmp_path / "s", datasets=names, repeats=2, folds=2, data={"name": "glyphs"})
    found = compare(gather([folder]), "map@r")
    assert (found.tournament.blocks, found.tournament.about) == (6, "6 data sets")
    assert found.tournament.rule == NEMENYI
    assert found.tournament.friedman.p > 0
    assert len(found.datasets) == 6


def test_unfair_rows_are_not_ranked_unless_asked(make_study, tmp_path):
    wide = {"triplet": {"model": {"dim": 512}}}
    gathered = gather([make_study(tmp_path / "s", changes=wide)])
    found = compare(gathered, "map@r")
    (part,) = found.datasets
    assert part.ranking == "refused"
    assert [flaw.condition for flaw in part.audit.flaws] == ["dim"]
    assert found.tournament is None
    assert part.differences == part.claims == ()
    assert [one.name for one in part.trained] == ["contrastive", "triplet", "multi-similarity"]
    anyway = compare(gathered, "map@r", allow_unfair=True)
    assert anyway.datasets[0].ranking == "anyway"
    assert anyway.datasets[0].claims
    assert anyway.tournament is not None


def test_different_numbers_of_trials_and_trainings_are_unfair(make_study, tmp_path):
    more = make_study(tmp_path / "a", methods={"triplet": 0.6}, trials=12, repeats=5, name="a")
    less = make_study(tmp_path / "b", methods={"circle": 0.6}, trials=6, repeats=3, name="b")
    (part,) = compare(gather([more, less]), "map@r").datasets
    assert {flaw.condition for flaw in part.audit.flaws} == {"trials", "seeds"}
    assert part.trained[0].name == "a: triplet"


def test_runs_that_differ_in_seed_and_fold_are_one_method(make_run):
    folders = [
        make_run(
            f"r{s}{f}", f"seed={s}", f"protocol.fold={f}", "protocol.name=cross-validation",
            test=0.5 + s / 100 + f / 1000,
        )
        for s in range(3) for f in range(2)
    ]  # fmt: skip
    (one,) = gather(folders).contenders
    assert one.name == "multi-similarity"
    assert one.interval("recall@1").count == 3
    assert one.interval("recall@1").mean == pytest.approx(0.5105)
    assert one.experiment.conditions["seeds"] == 3


def test_runs_are_named_by_what_sets_them_apart(make_run):
    folders = [
        make_run("a", "optim.lr=0.001", test=0.5),
        make_run("b", "optim.lr=0.01", test=0.6),
        make_run("c", "loss.name=triplet", "miner.name=semi-hard"),
        make_run("d", "train.epochs=0"),
    ]
    gathered = gather(folders)
    assert [one.name for one in gathered.contenders] == [
        "multi-similarity (optim.lr=0.001)",
        "multi-similarity (optim.lr=0.01)",
        "triplet + semi-hard miner",
        "untrained network",
    ]
    (part,) = compare(gathered, "recall@1").datasets
    assert part.ranking == "refused"
    assert [flaw.kind for flaw in part.audit.flaws] == ["differs", "weak"]
    assert part.audit.flaws[0].condition == "lr"


def test_rows_that_differ_in_much_have_a_number_and_a_table_of_settings(make_run):
    folders = [
        make_run("a", "optim.lr=0.001", "train.epochs=3"),
        make_run("b", "optim.lr=0.01", "train.epochs=5"),
        make_run("c", "train.epochs=0", "model.dim=8"),
        make_run("d", "train.epochs=0", "model.dim=8", "model.pooling=max", "optim.lr=0.1"),
        make_run("e", "train.epochs=0", "model.dim=8", "model.head_init=lda"),
    ]
    rows = gather(folders).contenders
    assert [one.name for one in rows] == [
        "multi-similarity #1",
        "multi-similarity #2",
        "untrained network (model.pooling=avg)",
        "untrained network (model.pooling=max)",  # the learning rate of nothing does not matter
        "untrained network, LDA head",
    ]
    assert rows[1].settings == {"train.epochs": "5", "optim.lr": "0.01"}
    assert rows[2].settings == {}
    assert [one.untouched for one in rows] == [False, False, True, True, False]


BLIND = "protocol.name=paper"


@pytest.mark.parametrize(
    ("first", "second", "unlike"),
    [
        pytest.param(
            (), ("train.precision=bf16-mixed", "train.device=cpu"), {"train.precision"},
            id="every other key is watched",
        ),
        pytest.param(
            (), ("model.frozen_until=blocks.4",), {"model.frozen_until", "bn_frozen"},
            id="a frozen front",
        ),
        pytest.param(
            (BLIND, "train.metric=recall@1"), (BLIND, "train.validate_every=2"), {"selection"},
            id="what has no effect",
        ),
        pytest.param(
            (),
            (
                "train.loggers=[csv,tensorboard]", "train.devices=2", "train.nodes=2",
                "train.checkpoint_seconds=5", "train.activation_checkpointing=true",
                "data.root=elsewhere", "runs_dir=elsewhere",
            ),
            set(),
            id="what no score depends on",
        ),
    ],
)  # fmt: skip
def test_two_runs_of_different_settings(make_run, first, second, unlike):
    runs = [make_run("a", "loss.name=triplet", *first), make_run("b", "loss.name=circle", *second)]
    (part,) = compare(gather(runs), "recall@1").datasets
    seeds = {"seeds"}  # weak evidence: one training each
    assert {flaw.condition for flaw in part.audit.flaws} <= unlike | seeds
    differing = {flaw.condition for flaw in part.audit.flaws if flaw.kind == "differs"}
    assert bool(differing) == (part.ranking == "refused") == bool(unlike - {"selection"})


def test_other_images_under_the_same_name_are_seen(make_run):
    runs = [make_run("a", "loss.name=triplet"), make_run("b", "loss.name=circle", fingerprint="o")]
    (part,) = compare(gather(runs), "recall@1").datasets
    assert part.audit.flaws[0].condition == "data"


def test_a_folder_of_runs_and_unfinished_ones(make_run, tmp_path):
    make_run("a", "loss.name=triplet")
    make_run("b", "loss.name=circle", test=None)
    (make_run("c", "loss.name=margin") / "result.json").unlink()
    gathered = gather([tmp_path])
    assert [one.name for one in gathered.contenders] == ["triplet"]
    assert ["is not finished" in gathered.skipped[0], "not tested" in gathered.skipped[1]] == [
        True,
        True,
    ]
    with pytest.raises(BadInput, match="is not finished"):
        gather([tmp_path / "runs" / "c"])
    with pytest.raises(BadInput, match="nothing with test scores"):
        gather([tmp_path / "runs" / "b"])


def test_bad_input(study, tmp_path):
    with pytest.raises(BadInput, match="neither a run"):
        gather([tmp_path / "nowhere"])
    with pytest.raises(BadInput, match="'recal@1' was not measured"):
        compare(gather([study]), "recal@1")
    with pytest.raises(BadInput, match="'rho' was not measured"):
        compare(gather([study]), "rho")


def test_metrics_that_all_rows_have(study, make_run):
    assert ranking_metrics(gather([study])) == (
        "recall@1", "recall@2", "recall@4", "recall@8", "map@r",
    )  # fmt: skip
    assert ranking_metrics(gather([study, make_run("a")])) == ("recall@1", "map@r")


def test_a_study_that_has_just_begun(make_study, tmp_path):
    folder = make_study(tmp_path / "s", repeats=0, trials=0, baselines=())
    with pytest.raises(BadInput, match="nothing with test scores"):
        gather([folder])
    assert load_results(folder).name == "small"


@pytest.fixture
def cells(make_study, save_study, tmp_path):
    """Three methods at two networks and two sizes: (network, size) decides who is best."""
    levels = {
        ("a", "64"): {"contrastive": 0.60, "triplet": 0.50, "margin": 0.40},
        ("a", "512"): {"contrastive": 0.70, "triplet": 0.65, "margin": 0.50},
        ("b", "64"): {"contrastive": 0.50, "triplet": 0.60, "margin": 0.30},
        ("b", "512"): {"contrastive": 0.66, "triplet": 0.60, "margin": 0.62},
    }
    folder = tmp_path / "cells"
    rows, planned, kept = [], [], {}
    for (network, size), methods in levels.items():
        changes = {name: {"model": {"network": network, "dim": int(size)}} for name in methods}
        part = make_study(
            tmp_path / network / size, methods, changes=changes, trials=0, baselines=()
        )
        axes = {"network": network, "size": size}
        for row in load_results(part).rows:
            rows.append(replace(row, axes=axes, group=f"glyphs, {network}, {size}"))
            kept["glyphs", rows[-1].label] = class_scores(part, row)
            planned.append(PlannedRow("glyphs", row.method, axes, 0, row.repeats_asked, 4))
    facts = {row.group: {"fingerprint": "0123456789"} for row in rows}
    base = BaselineRow(
        "glyphs", "pca", 64, {}, (), rows[0].repeats[0].separate, rows[0].repeats[0].concatenated,
        1.0, "glyphs, a, 64",
    )  # fmt: skip
    results = StudyResults(
        folder, "cells", "map@r", {}, tuple(planned), tuple(rows), (base,), facts
    )
    return save_study(results, kept)


def test_rows_with_axes_are_compared_within_a_cell(cells):
    found = compare(gather([cells]), "recall@1")
    assert [part.label for part in found.datasets] == [
        "glyphs, a, 64", "glyphs, a, 512", "glyphs, b, 64", "glyphs, b, 512",
    ]  # fmt: skip
    assert all(part.ranking == "fair" for part in found.datasets)
    first = found.datasets[0]
    assert [one.name for one in first.contenders] == ["contrastive", "triplet", "margin", "PCA"]
    assert first.axes == {"network": "a", "size": "64"}
    assert not any(part.baselines for part in found.datasets[1:])


def test_a_tournament_over_cells_is_not_tested(cells):
    found = compare(gather([cells]), "recall@1").tournament
    ranks = {one.name: one.ranks for one in found.standings}
    assert ranks == {"contrastive": (1, 1, 2, 1), "triplet": (2, 2, 1, 3), "margin": (3, 3, 3, 2)}
    first = found.standings[0]
    assert (first.name, first.total, first.rank) == ("contrastive", 5, 1.25)
    assert first.deviation == pytest.approx(np.std([1, 1, 2, 1], ddof=1))
    assert (found.friedman, found.distance, found.groups, found.rule) == (None, None, (), "")
    assert found.about == (
        "4 cells (network x size) on glyphs; they share test images, so they are not independent, "
        "and the ranks are not tested"
    )


def test_one_method_is_compared_at_the_values_of_its_axes(cells, save_study, tmp_path):
    whole = load_results(cells)
    planned = tuple(row for row in whole.planned if row.method == "triplet")
    rows = tuple(row for row in whole.rows if row.method == "triplet")
    one = replace(whole, folder=tmp_path / "one", planned=planned, rows=rows)
    (part,) = compare(gather([save_study(one)]), "recall@1").datasets
    assert part.label == "glyphs"
    assert part.trained[0].name == "triplet, a, 512"
    assert part.ranking == "fair"  # what the axes vary is what is compared


def test_the_command_and_the_page_of_a_study_with_axes(cells, tmp_path):
    shown = CliRunner().invoke(app, ["compare", str(cells), "--metric", "recall@1"]).stdout
    assert "glyphs, b, 512, by Recall@1, of the folds' separate models" in shown
    assert "contrastive  total    5  average rank  1.25 ± 0.50" in shown
    assert "Nemenyi" not in shown
    page = tmp_path / "page.html"
    made = CliRunner().invoke(app, ["report", str(cells), "-o", str(page)])
    assert made.exit_code == 0, made.output
    text = page.read_text()
    assert "at 4 combinations of network and size" in text
    assert "not independent" in text
    assert not page.with_suffix(".svg").exists()


def test_the_ranks_of_the_thesis_are_those_of_its_tables():
    printed = [row for row in published.load("thesis", "cub") if row.metric.startswith("rank-")]
    names = list(dict.fromkeys(row.method for row in printed))
    tables = {}
    for row in published.load("thesis", "cub", "recall@1"):
        if row.recipe and row.part == "test" and row.protocol == "paper" and row.method in names:
            tables.setdefault((row.network, row.size), {})[row.method] = row.value
    assert len(tables) == 12
    found = tournament([[cell[name] for name in names] for cell in tables.values()], names)
    for one in found:
        wanted = {row.metric: row.value for row in printed if row.method == one.name}
        assert one.total == wanted["rank-total"]
        assert one.deviation == pytest.approx(wanted["rank-std"], abs=0.011)
