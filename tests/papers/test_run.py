"""Tables of papers, trained as studies: seconds on glyphs and on a folder of pictures."""

import json
import os
import signal
import statistics
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from lookalike.cli import app
from lookalike.errors import BadInput
from lookalike.papers.catalogue import entries, entry
from lookalike.papers.plan import make_plan
from lookalike.papers.run import needs_runs, outcome_of, reproduce, study_of
from lookalike.papers.tables import result_table
from lookalike.study.plan import make_plan as make_study_plan
from lookalike.study.table import load_results

TINY = (
    "model.network=small-cnn", "model.weights=none", "model.frozen=false",
    "model.frozen_until=null", "model.head_init=random", "model.freeze_bn_statistics=false",
    "model.freeze_bn_affine=false", "train.epochs=1", "train.batches_per_epoch=2",
    "train.eval_batch_size=2048",
)  # fmt: skip


@pytest.fixture(scope="module")
def tiny(pictures):
    """Settings of a training of a second on a folder of pictures."""
    images = ("data.name=folder", f"data.root={pictures}", "data.transform=none")
    return [*images, *TINY, "sampler.batch_size=8"]


@pytest.fixture(scope="module")
def table(in_process, tiny, tmp_path_factory):
    """The plan of a table with the protocol of papers, its folder and its outcome."""
    plan = make_plan(entry("metrix/cub"), "small", tiny, repeats=2)
    folder = tmp_path_factory.mktemp("results") / "metrix"
    return (
        plan,
        folder,
        reproduce(plan, in_process, folder=folder, command="lookalike reproduce ..."),
    )


def test_published_numbers_stand_beside_ours(table):
    plan, folder, found = table
    assert len(found.rows) == len(plan.rows) == 12
    assert found.unfinished == ()
    row = found.rows[0]
    assert row.published["recall@1"].value == 64.7
    scores = [repeat.separate[0]["recall@1"] for repeat in row.contender.row.repeats]
    assert row.ours["recall@1"].mean == pytest.approx(statistics.mean(scores))
    assert row.ours["recall@1"].count == 2
    assert row.difference("recall@1") is None  # of other images and another network
    assert row.concatenated == {}
    assert (row.contender.row.validated, row.validation) == (False, None)
    assert len(found.claims) == len(plan.entry.claims)
    assert {claim.verdict for claim in found.claims} <= {"yes", "no", "not shown"}
    assert [claim.published for claim in found.claims] == ["yes", "yes"]
    assert all("test classes too" in claim.evidence for claim in found.claims)
    assert [one.classes is None for one in found.rows[0].contender.models] == [False, False]
    assert [one.name for one in found.baselines] == ["raw features", "PCA"]
    shown = result_table(found).rows
    assert [row.kind for row in shown] == [""] * 12 + ["baseline"] * 2
    score = found.baselines[-1].interval("recall@1").mean
    assert shown[-1].cells[2].text == f"{100 * score:.1f}"
    stored = json.loads((folder / f"cub{plan.suffix}.json").read_text())
    assert stored["baselines"][0]["method"] == "raw features"
    assert stored["scale"] == "small"
    assert stored["rows"][0]["validated"] is False
    assert stored["rows"][0]["scores"]["recall@1"]["published"] == 0.647
    assert stored["deviations"] == list(plan.deviations)
    assert stored["title"] == "Folder, small-cnn, 512 dimensions: " + plan.entry.title
    assert stored["claims"][0]["published"] == "yes"


def test_a_finished_table_trains_nothing_again(in_process, table):
    plan, folder, found = table
    again = in_process()
    repeated = reproduce(plan, lambda: again, folder=folder, command=found.command)
    assert repeated.as_mapping() == found.as_mapping()
    assert again.done == []
    assert outcome_of(plan, folder, found.command).as_mapping() == found.as_mapping()


def test_an_interruption_loses_nothing(in_process, table, tmp_path):
    plan, _, found = table
    first = in_process(most=9)
    with pytest.raises(KeyboardInterrupt):
        reproduce(plan, lambda: first, folder=tmp_path)
    part = outcome_of(plan, tmp_path)
    assert 0 < len(part.rows) < 12
    assert len(part.rows) + len(part.unfinished) == 12
    second = in_process()
    whole = reproduce(plan, lambda: second, folder=tmp_path)
    assert not {one.name for one in first.done} & {one.name for one in second.done}
    assert [row.ours for row in whole.rows] == [row.ours for row in found.rows]


def test_folds_have_a_deviation_and_a_concatenated_score(in_process, tiny, tmp_path):
    plan = make_plan(entry("thesis/cross-validation"), "small", [*tiny, "protocol.folds=2"])
    found = reproduce(plan, in_process, folder=tmp_path)
    assert plan.repeats == 1
    for row in found.rows:
        (repeat,) = row.contender.row.repeats
        scores = [fold["recall@1"] for fold in repeat.separate]
        ours = row.ours["recall@1"]
        assert (ours.over, ours.count) == ("folds", 2)
        assert ours.sd == pytest.approx(statistics.stdev(scores))
        assert row.concatenated["recall@1"].mean == repeat.concatenated["recall@1"]
        assert row.validation.mean == pytest.approx(statistics.mean(repeat.validation))
        assert row.validation.over == "folds"


def test_split_ratios_have_validation_scores(in_process, tiny, tmp_path):
    plan = make_plan(entry("thesis/split-ratio"), "small", tiny, repeats=1)
    found = reproduce(plan, in_process, folder=tmp_path)
    assert [row.axes for row in found.rows] == [
        {"ratio": "70-30"}, {"ratio": "80-20"}, {"ratio": "90-10"}, {"ratio": "95-5"},
    ]  # fmt: skip
    values = found.as_mapping()["rows"]
    printed = [row["validation"]["recall@1"]["published"] for row in values]
    assert printed == pytest.approx([0.8613, 0.9253, 0.9149, 0.9331])
    assert all(row["validated"] for row in values)


def test_a_search_has_the_values_it_found(in_process, tiny, tmp_path):
    plan = make_plan(entry("thesis/grid-search"), "small", tiny, repeats=1, trials=2)
    study = study_of(plan, tmp_path)
    summary = make_study_plan(study, tmp_path).summary()
    assert summary == "9 trainings: 3 rows, 6 points of a grid, 1 repeat of each row"
    found = reproduce(plan, in_process, folder=tmp_path)
    for row in found.rows:
        assert len(row.trials) == 2
        assert set(row.tuned) == set(row.search)
    whole = make_study_plan(
        study_of(
            make_plan(entry("thesis/grid-search"), "small", tiny, trials=10**9), tmp_path / "w"
        ),
        tmp_path / "w",
    )
    assert [one.trials_asked for one in whole.methods] == [302_500, 605_000, 550]


def test_figures_of_embeddings_keep_their_runs(in_process, tiny, tmp_path):
    plan = make_plan(entry("thesis/projection"), "small", tiny)
    found = reproduce(plan, in_process, folder=tmp_path)
    (run,) = found.rows[0].runs
    assert (run / "test.safetensors").is_file()
    assert run.parent == tmp_path / "runs"


def test_runs_are_kept_for_a_figure_of_the_same_trainings():
    shown = [one for one in entries().values() if one.of and needs_runs(one)]
    assert all(needs_runs(entry(one.of)) for one in shown)
    assert needs_runs(entry("thesis/projection"))
    assert not needs_runs(entry("thesis/tournament"))


def test_a_list_has_nothing_to_train(tmp_path):
    plan = make_plan(entry("reality-check/optimizers"))
    with pytest.raises(BadInput, match="is a list"):
        study_of(plan, tmp_path)


def test_ratios_of_one_method_are_compared_with_each_other(in_process, tiny, tmp_path):
    reproduce(
        make_plan(entry("thesis/split-ratio"), "small", tiny, repeats=1),
        in_process,
        folder=tmp_path,
    )
    shown = CliRunner().invoke(app, ["compare", str(tmp_path), "--metric", "recall@1"])
    assert "multi-similarity, 70-30" in shown.output


@pytest.mark.slow
def test_the_command_on_glyphs_killed_and_resumed(tmp_path):
    command = [
        sys.executable, "-c", "from lookalike.cli import main; main()", "reproduce",
        "thesis/split-ratio", "--scale", "small", "--repeats", "1", "--workers", "1",
        "--results", str(tmp_path / "r"), *TINY, "sampler.batch_size=32",
    ]  # fmt: skip
    first = tmp_path / "r" / "glyphs" / "multi-similarity,70-30.json"
    begun = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE)
    while not (first.is_file() and load_results(tmp_path / "r").rows[0].repeats):
        assert begun.poll() is None, begun.stderr.read().decode()
        time.sleep(0.1)
    os.killpg(begun.pid, signal.SIGKILL)
    begun.wait()
    before = first.read_text()
    assert not load_results(tmp_path / "r").finished
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert [row["axes"]["ratio"] for row in found["rows"]] == ["70-30", "80-20", "90-10", "95-5"]
    assert first.read_text() == before
    assert "4 trainings: 4 rows, 1 repeat of each row" in done.stderr
    assert "the first training took" in done.stderr
