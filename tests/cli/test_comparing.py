"""compare, audit and report, with their exit codes and their one sentence for bad input."""

import json
import shutil
import sqlite3
import statistics
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from lookalike.config import load
from lookalike.study.table import load_results
from lookalike.training import Run

AUDITS = Path(__file__).parents[2] / "docs" / "audits"
RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="module")
def study(make_study, tmp_path_factory):
    return make_study(tmp_path_factory.mktemp("s") / "study")


def test_compare_says_what_holds(lookalike, study):
    done = lookalike("compare", study)
    assert done.returncode == 0, done.stderr
    assert "glyphs, by MAP@R" in done.stdout
    assert "multi-similarity is better than PCA (by " in done.stdout
    assert "over 5 training runs of each method and 40 test classes, crossed." in done.stdout
    assert "No significant difference in 1 of 12 pairs." in done.stdout
    assert "Not shown to beat LDA, shrunk: triplet, contrastive." in done.stdout
    assert "Tournament over 40 test classes of glyphs" in done.stdout
    assert "[95 %]: 95 % interval over trainings x test classes" in done.stdout
    assert "Friedman" not in done.stdout
    assert "p = 0" not in done.stdout
    assert "The ranks themselves are not tested" in done.stdout
    assert "Fair: nothing but the method differs. Searched parameters: " in done.stdout
    assert "holds for this split of the classes and these searched settings" in done.stdout
    assert "± 0.0 " not in done.stdout


def test_compare_as_json_and_joined(lookalike, study):
    found = json.loads(lookalike("compare", study, "--concatenated", "--json").stdout)
    (part,) = found["datasets"]
    assert (found["which"], part["ranking"]) == ("concatenated", "fair")
    assert (part["trainings"], part["classes"]) == (5, 40)
    first = part["differences"][0]
    assert first["over_classes"]["low"] < first["over_trainings"]["low"] < first["mean"]
    assert (first["scope"], first["holds"]) == ("generalizes", True)
    assert part["rows"][0]["over_classes"].keys() == {"low", "high"}
    assert part["searched"].startswith("Searched parameters: ")
    assert part["audit"] == {"verdict": "fair", "flaws": []}
    assert {row["name"] for row in part["rows"] if row["baseline"]} == {
        "raw features", "PCA", "LDA, shrunk",
    }  # fmt: skip
    lda = next(row for row in part["rows"] if row["name"] == "LDA, shrunk")
    assert lda["scores"]["map@r"]["low"] is None


def test_one_repeat_is_compared_by_the_deviation_over_its_folds(lookalike, make_study, tmp_path):
    folder = make_study(tmp_path / "s", repeats=1, folds=4)
    done = lookalike("compare", folder)
    assert done.returncode == 0
    assert "Only one training" not in done.stdout
    told = " ".join(done.stdout.split())
    assert "Only one seed for any row: ± is the standard deviation over the models" in told
    (repeat,) = load_results(folder).row("glyphs", "triplet").repeats
    models = [fold["map@r"] for fold in repeat.separate]
    mean, sd = statistics.mean(models), statistics.stdev(models)
    assert f"{100 * mean:.1f} ± {100 * sd:.1f}" in done.stdout
    found = json.loads(lookalike("compare", folder, "--json").stdout)
    rows = {row["name"]: row["scores"]["map@r"] for row in found["datasets"][0]["rows"]}
    assert rows["triplet"] == {
        "mean": pytest.approx(mean), "sd": pytest.approx(sd), "low": None, "high": None,
        "count": 4, "over": "folds", "models": pytest.approx(sd),
    }  # fmt: skip
    assert (rows["PCA"]["sd"], rows["PCA"]["count"]) == (None, 1)


def test_old_results_say_that_they_hold_for_these_classes_only(lookalike, make_study, tmp_path):
    told = lookalike("compare", make_study(tmp_path / "s", classes=0)).stdout
    assert "scores per test class were not kept, so nothing can be said about other classes" in told
    assert "For this test set only: multi-similarity scores higher than" in told
    assert "is better than" not in told
    assert "Tournament" not in told


@pytest.fixture
def runs(tmp_path):
    """Two finished runs as training leaves them, without their weights."""
    for loss in ("triplet", "circle"):
        run = Run(tmp_path / "runs" / loss)
        run.prepare(load(None, [f"loss.name={loss}"]), {})
        counts = {"epochs": 10, "train_classes": 5, "test_classes": 5, "test_images": 50}
        test = {"recall@1": 0.5, "map@r": 0.25}
        run.finish({"data_fingerprint": "abc", **counts, "test": test}, 1.0)
    return tmp_path / "runs"


def test_single_runs_have_nothing_to_concatenate(refused, study, make_study, runs, tmp_path):
    sentence = "there is no such score of circle and triplet"
    refused("compare", runs, "--concatenated", sentence=sentence)
    refused("compare", study, runs, "--concatenated", sentence=sentence)
    one_fold = make_study(tmp_path / "s", methods={"margin": 0.6}, folds=1)
    refused("compare", one_fold, "--concatenated", sentence="there is no such score of margin")


def test_an_unfair_ranking_must_be_asked_for(lookalike, make_study, tmp_path):
    folder = make_study(tmp_path / "s", changes={"triplet": {"model": {"dim": 512}}})
    done = lookalike("compare", folder)
    assert done.returncode == 0
    assert "[1] Embedding size: 128 (contrastive and multi-similarity); 512 (triplet)." in (
        done.stdout
    )
    assert "Not ranked" in done.stdout
    assert "is better than" not in done.stdout
    assert "Tournament" not in done.stdout
    done = lookalike("compare", folder, "--anyway")
    assert "Ranked although the comparison is not fair." in done.stdout
    assert "is better than" in done.stdout


def test_outdated_rows_of_a_stored_study_are_marked_everywhere(lookalike, tmp_path):
    study = tmp_path / "study"
    shutil.copytree(RESULTS / "cub-last-stage", study)
    for method in ("contrastive-embed", "contrastive-feature"):
        with closing(sqlite3.connect(study / "study.db")) as database, database:
            database.execute(
                "UPDATE rows SET settings = json_set(settings, '$.outdated', 'mixed otherwise') "
                "WHERE label = ?",
                (method,),
            )
    told = lookalike("compare", study).stdout
    assert "contrastive-embed [1]" in told
    words = "Outdated until trained again (contrastive-embed and contrastive-feature): mixed"
    assert f"[1] {words}" in told
    assert lookalike("report", study, "-o", tmp_path / "page.html").returncode == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert words in page
    assert 'contrastive-embed<sup class="marks"><a href="#flaw-0-1">1</a></sup>' in page
    for suffix in (".md", ".tex", ".csv"):
        assert words in (tmp_path / f"page{suffix}").read_text(encoding="utf-8")


def test_audit_of_a_paper(lookalike):
    done = lookalike("audit", AUDITS / "sampling-matters.yaml")
    assert done.returncode == 1
    assert "Network: ResNet50 (Margin); GoogleNet (four of seven competitors" in done.stdout
    assert "Unfair" in done.stdout
    done = lookalike("audit", AUDITS / "reality-check.yaml", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["verdict"] == "fair"


def test_report_writes_page_and_tables(lookalike, study, tmp_path):
    done = lookalike("report", study, "-o", tmp_path / "page.html", "--title", "Mine")
    assert done.returncode == 0, done.stderr
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [
        "page.csv", "page.differences.svg", "page.html", "page.md", "page.svg", "page.tex",
    ]  # fmt: skip
    assert "<h1>Mine</h1>" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_an_unfair_paper_fails_a_real_process():
    paper = AUDITS / "every-flaw.yaml"
    done = subprocess.run(
        [sys.executable, "-c", "from lookalike.cli import main; main()", "audit", str(paper)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "  [1] Network: resnet50 (our new loss); googlenet (triplet)." in done.stdout
    assert done.stderr == ""
