"""Whole studies of seconds, by real worker processes."""

import errno
import json
import shutil
import sqlite3
import statistics
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from lookalike.cli import app
from lookalike.config import parse
from lookalike.errors import BadInput, LookalikeError, WriteFailed
from lookalike.progress import Watcher
from lookalike.study.config import parse_study
from lookalike.study.driver import run_study
from lookalike.study.local import LocalExecutor
from lookalike.study.plan import make_plan
from lookalike.study.table import class_scores as stored_classes
from lookalike.study.table import load_results, open_table
from lookalike.study.tasks import TaskRunner
from lookalike.training import train


@pytest.fixture(scope="module")
def run(in_process):
    """Run a study in this process, or by workers."""

    def run(values, folder, workers=0):
        pool = (lambda: LocalExecutor(workers, Watcher())) if workers else in_process
        return run_study(parse_study(values), pool, folder=folder)

    return run


@pytest.fixture(scope="module")
def finished(run, study_values, tmp_path_factory):
    folder = tmp_path_factory.mktemp("results") / "small"
    return run(study_values(), folder, workers=1)


def test_a_study_ends_with_everything(finished):
    assert finished.finished
    assert [row.method for row in finished.rows] == ["triplet", "proxy-anchor"]
    assert {row.baseline for row in finished.baselines} == {"raw-features", "pca", "lda"}
    for row in finished.rows:
        assert (len(row.trials), row.seeds) == (3, 2)
        assert row.validation == max(row.values)
        assert {repeat.seed for repeat in row.repeats} == {1, 2}  # new ones: trials had 0
        assert all(len(repeat.separate) == 2 for repeat in row.repeats)
        key, value = next(iter(row.tuned.items()))
        part, name = key.split(".")
        assert row.config[part][name] == value
    names = {path.suffix for path in finished.folder.rglob("*") if path.is_file()}
    assert names == {".db", ".lock"}


def class_scores(results):
    """By row, repeat, fold and metric: the score per test class, kept beside the row."""
    found = {}
    kept = [(row.label, stored_classes(results.folder, row)) for row in results.rows]
    kept += [(row.baseline, stored_classes(results.folder, row)) for row in results.baselines]
    for name, classes in kept:
        tables = classes.separate | {
            (repeat, "all"): t for repeat, t in classes.concatenated.items()
        }
        for at, table in tables.items():
            assert len(table.classes) == 8
            assert table.queries.tolist() == [5] * 8
            found |= {(name, *at, m): table.column(m).tolist() for m in table.metrics}
    return found


def test_scores_per_class_are_those_of_the_row(finished):
    found = class_scores(finished)
    assert len(found) == (2 * 2 * 3 + 3 * 3) * 2  # rows, repeats, models; baselines; two metrics
    for row in finished.rows:
        for repeat in row.repeats:
            for metric in ("recall@1", "map@r"):
                for fold, scores in enumerate(repeat.separate):
                    of_classes = found[row.label, repeat.number, fold, metric]
                    assert statistics.fmean(of_classes) == pytest.approx(scores[metric], abs=1e-6)
                joined = statistics.fmean(found[row.label, repeat.number, "all", metric])
                assert joined == pytest.approx(repeat.concatenated[metric], abs=1e-6)
    for row in finished.baselines:
        of_classes = found[row.baseline, 0, 1, "map@r"]
        assert statistics.fmean(of_classes) == pytest.approx(row.separate[1]["map@r"], abs=1e-6)


def test_a_trial_and_a_repeat_are_what_train_gives(finished, study_values, tmp_path):
    row = finished.rows[1]
    study = parse_study(study_values())
    values = make_plan(study, tmp_path).methods[1].method.with_parameters(row.tuned)
    values = values.model_dump(mode="json") | {"runs_dir": str(tmp_path / "runs")}
    winner = max(row.trials, key=lambda trial: trial.value or 0)
    for fold in range(2):
        values["protocol"] |= {"fold": fold}
        tuned = train(parse(values | {"seed": 0})).result
        assert tuned["validation"]["map@r"] == winner.folds[fold]
        again = train(parse(values | {"seed": 2})).result
        assert again["test"]["map@r"] == pytest.approx(row.repeats[1].separate[fold]["map@r"])


def test_other_workers_and_an_interruption_change_nothing(
    run, finished, study_values, tmp_path, timeless
):
    first = run(study_values(methods=["triplet"], tuner={"trials": 2}), tmp_path / "s", workers=2)
    assert len(first.rows[0].trials) == 2
    again = run(study_values(), tmp_path / "s", workers=2)
    assert timeless(again) == timeless(finished)
    assert class_scores(again) == class_scores(finished)


@pytest.mark.parametrize(
    "error", [WriteFailed("cannot write 'a'"), OSError(errno.ENOSPC, "full", "a")]
)
def test_a_full_disk_is_no_failed_trial(run, study_values, tmp_path, monkeypatch, error):
    values = study_values(methods=["triplet"], tuner={"trials": 1}, repeats=1)

    def full(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(TaskRunner, "trial", full)
        with pytest.raises(LookalikeError, match="'a'; the same command resumes"):
            run(values, tmp_path / "s")
    (row,) = run(values, tmp_path / "s").rows
    assert [trial.state for trial in row.trials] == ["complete"]


def test_a_finished_study_does_nothing(finished, study_values, timeless):
    class Idle(LocalExecutor):
        def submit(self, task):
            raise AssertionError(f"{task.title} was done already")

    again = run_study(
        parse_study(study_values()), lambda: Idle(1, Watcher()), folder=finished.folder
    )
    assert timeless(again) == timeless(finished)


def test_a_trial_of_a_stranger_sets_only_what_the_study_searches(
    run, finished, study_values, tmp_path, monkeypatch
):
    """The winner is trained again with its settings, which would be written to this folder."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "small"
    shutil.copytree(finished.folder, folder)
    with closing(sqlite3.connect(folder / "study.db")) as database, database:
        facts = json.dumps({"parameters": {"runs_dir": "elsewhere"}})
        database.execute("UPDATE tasks SET facts = ? WHERE repeat < 0", (facts,))
    with pytest.raises(BadInput, match="was made with other settings"):
        run(study_values(checkpoints=True), folder)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("facts", ["{", "[]", '{"seconds": "x"}', '{"seconds": 1}', "[" * 99_999])
def test_a_record_of_a_stranger_with_other_values_is_a_sentence(
    run, finished, study_values, tmp_path, facts
):
    folder = tmp_path / "small"
    shutil.copytree(finished.folder, folder)
    with closing(sqlite3.connect(folder / "study.db")) as database, database:
        database.execute("UPDATE tasks SET facts = ?", (facts,))
        database.execute("DELETE FROM scores")
    with pytest.raises(LookalikeError, match=r"study\.db'"):
        load_results(folder)
    with pytest.raises(LookalikeError, match=r"study\.db'|other settings"):
        run(study_values(), folder)


def test_outdated_rows_are_trained_again_and_no_others(
    in_process, finished, study_values, tmp_path, timeless
):
    folder = tmp_path / "small"
    shutil.copytree(finished.folder, folder)  # with the database, which has the old records
    with closing(sqlite3.connect(folder / "study.db")) as database, database:
        database.execute(
            "UPDATE scores SET value = 0.9 WHERE task IN "
            "(SELECT tasks.id FROM tasks JOIN rows ON rows.id = row WHERE label = 'triplet')"
        )
        database.execute(
            "UPDATE rows SET settings = json_set(settings, '$.outdated', 'it was wrong', "
            "'$.identity', 'other') WHERE label = 'triplet'"
        )
    shown = CliRunner().invoke(app, ["study", "status", str(folder)]).stdout
    assert "folder triplet: outdated until trained again: it was wrong" in shown
    counting = in_process()
    found = run_study(parse_study(study_values()), lambda: counting, folder=folder)
    assert timeless(found)[0] == timeless(finished)[0]
    assert found.rows[0].outdated == ""
    assert {task.title.split()[1] for task in counting.done} == {"triplet"}


def test_other_settings_do_not_overwrite_results(run, finished, study_values, timeless):
    before = timeless(load_results(finished.folder))
    with pytest.raises(LookalikeError, match="other settings"):
        run(study_values(seed=5), finished.folder)
    assert timeless(load_results(finished.folder)) == before


BROKEN = """
import torch
from torch import nn

class Broken(nn.Module):
    def __init__(self, way: str = "nan", depth: float = 1.0):
        super().__init__()
        self.way = way

    def forward(self, embeddings, labels, mined=None):
        if self.way == "nan":
            return embeddings.sum() * float("nan")
        if self.way == "raise":
            raise ZeroDivisionError("on purpose")
        if self.way == "die":
            import os
            os._exit(3)
        return embeddings.square().sum() * 0
"""

SPY = """
from torch import nn
from lookalike.data import Split

class Spy(nn.Module):
    '''Looks for the test set wherever it can find a split.'''

    def forward(self, embeddings, labels, mined=None):
        import sys
        frame = sys._getframe()
        while not isinstance(getattr(frame.f_locals.get("self"), "split", None), Split):
            frame = frame.f_back
        split = frame.f_locals["self"].split
        images = split.train.images
        assert not images.labels[images.test].any(), "test labels can be read"
        assert not any(name for name, test in zip(images.files, images.test) if test)
        for way in (lambda: split.test, split.final_test):
            try:
                way()
            except Exception as error:
                assert "is not available" in str(error)
            else:
                raise AssertionError("the test set was handed out")
        return embeddings.square().sum() * 0
"""


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    (tmp_path / "spying_losses.py").write_text(SPY)
    (tmp_path / "broken_losses.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.trust("spying_losses:Spy")
def test_a_loss_that_looks_for_test_labels_finds_none(plugins, study_values, tmp_path):
    rates = {"optim.lr": [1e-4, 1e-3]}
    spy = {"name": "spy", "loss": {"name": "spying_losses:Spy"}, "search": rates}
    values = study_values(methods=[spy])
    plan = make_plan(parse_study(values), tmp_path)
    record = TaskRunner().run(plan.methods[0].ready[0])
    assert record.error == ""
    assert plan.methods[0].ready[0].config["protocol"]["test"] is False


@pytest.mark.trust("broken_losses:Broken")
def test_failures_are_counted_and_never_fatal(run, plugins, study_values, tmp_path, capfd):
    ways = {"loss.way": {"choices": ["nan", "raise", "fine"]}}
    method = {"name": "broken", "loss": {"name": "broken_losses:Broken"}, "search": ways}
    never = {"name": "never", "loss": {"name": "broken_losses:Broken", "way": "nan"}}
    values = study_values(methods=[method, never], tuner={"name": "grid"}, repeats=1)
    found = run(values, tmp_path / "s")
    row, hopeless = found.rows
    assert (len(row.trials), row.failed) == (3, 2)
    assert row.tuned == {"loss.way": "fine"}
    errors = " ".join(trial.error for trial in row.trials)
    assert "loss is nan" in errors
    assert "ZeroDivisionError: on purpose" in errors
    assert row.seeds == 1
    assert (len(hopeless.errors), hopeless.validation, hopeless.seeds) == (1, None, 0)
    assert not found.finished


@pytest.mark.slow
@pytest.mark.trust("broken_losses:Broken")
def test_a_task_that_kills_its_worker_fails_in_the_end(run, plugins, study_values, tmp_path):
    dying = {"name": "dying", "loss": {"name": "broken_losses:Broken", "way": "die"}}
    found = run(study_values(methods=[dying], repeats=1), tmp_path / "s", workers=1)
    assert "5 workers died" in found.rows[0].errors[0]


def test_the_command_line(study_file, tmp_path):
    path = study_file(methods=["triplet"], tuner={"trials": 1}, repeats=1)
    command = [sys.executable, "-c", "from lookalike.cli import main; main()", "study"]
    folder = str(tmp_path / "r")
    done = subprocess.run(
        [*command, "run", str(path), "--results", folder, "--workers", "1"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "triplet" in done.stdout
    assert "finished" in done.stdout
    assert "nan" not in done.stdout
    assert "their standard deviation with one seed, not a confidence interval" in done.stdout
    seen = CliRunner().invoke(app, ["study", "status", folder, "--json"])
    status = json.loads(seen.stdout, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    models = [fold["map@r"] for fold in load_results(folder).rows[0].repeats[0].separate]
    assert status["methods"][0]["test"] == {
        "mean": pytest.approx(statistics.mean(models)),
        "sd": pytest.approx(statistics.stdev(models)),
        "low": None, "high": None, "count": 2, "over": "folds",
        "models": pytest.approx(statistics.stdev(models)),
    }  # fmt: skip
    assert status["finished"] is True
    assert status["methods"][0]["trials"] == 1
    assert set(status["baselines"]["folder"]) == {"raw-features", "pca", "lda"}


@pytest.mark.slow
def test_checkpoints_give_the_same_scores(run, study_values, tmp_path):
    base = study_values()["base"] | {"runs_dir": str(tmp_path / "runs")}
    metrics = ["recall@1", "map@r", "utilization"]
    short = {
        "methods": ["triplet"],
        "tuner": {"trials": 1},
        "repeats": 1,
        "protocol": {"folds": 2, "metrics": metrics},
    }
    light = run(study_values(**short), tmp_path / "light")
    kept = run(study_values(**short, base=base, checkpoints=True), tmp_path / "kept")
    torch.testing.assert_close(
        light.rows[0].repeats[0].concatenated, kept.rows[0].repeats[0].concatenated
    )
    torch.testing.assert_close(light.rows[0].repeats[0].separate, kept.rows[0].repeats[0].separate)
    for one in (light.rows[0].repeats[0], light.baselines[0]):  # each fold has its own training set
        assert all(list(scores) == metrics for scores in one.separate)
        assert list(one.concatenated) == metrics[:2]
    raw = light.baselines[0].separate
    assert raw[0]["map@r"] == pytest.approx(raw[1]["map@r"])
    assert raw[0]["utilization"] != pytest.approx(raw[1]["utilization"])
    assert light.rows[0].validation == kept.rows[0].validation
    assert len(list((tmp_path / "runs").glob("*/result.json"))) == 2  # the repeat's two folds


def test_baselines_of_a_network_with_fewer_features_than_the_embedding(run, study_values, tmp_path):
    small = {"network": "small-cnn", "weights": "none", "dim": 200}
    base = {**study_values()["base"], "model": small}
    given = {"name": "as-given", "loss": {"name": "triplet"}}
    found = run(study_values(base=base, methods=[given], repeats=1), tmp_path / "s")
    assert {one.baseline: one.dim for one in found.baselines} == {
        "raw-features": 128,
        "pca": 128,
        "lda": 128,
    }


def test_without_anything_to_search_nothing_is_tried(run, study_values, tmp_path, timeless):
    given = {"name": "as-given", "loss": {"name": "triplet"}}
    found = run(study_values(methods=[given]), tmp_path / "s")
    (row,) = found.rows
    assert (row.trials, row.trials_asked, row.seeds, row.finished) == ((), 0, 2, True)
    means = [sum(repeat.validation) / 2 for repeat in row.repeats]
    assert row.validation == pytest.approx(sum(means) / 2)
    assert timeless(run(study_values(methods=[given]), tmp_path / "s")) == timeless(found)


@pytest.fixture(scope="module")
def rows(run, study_values, tmp_path_factory):
    """A study whose rows have their own protocol and size, and its results."""
    given = study_values()
    protocols = {
        "paper": {"name": "paper"},
        "held-out": {"name": "fixed-validation", "ratio": 0.5},
        "folds": {"name": "cross-validation", "folds": 2},
    }
    values = {
        "name": "rows",
        "repeats": 1,
        "rows": [
            {
                "method": method,
                "axes": {"protocol": name},
                "config": given["base"]
                | {"data": given["data"], "loss": {"name": method}}
                | {"protocol": protocol | {"metrics": ["recall@1", "map@r"]}},
            }
            for name, protocol in protocols.items()
            for method in ("triplet", "contrastive")
        ],
    }
    folder = tmp_path_factory.mktemp("rows") / "rows"
    return values, run(values, folder)


def test_rows_are_trained_and_tested_as_they_are(
    in_process, rows, study_values, tmp_path, timeless
):
    values, found = rows
    assert found.finished
    assert [row.label for row in found.rows][:3] == [
        "triplet, paper", "contrastive, paper", "triplet, held-out",
    ]  # fmt: skip
    assert (found.axes, found.methods) == (("protocol",), ("triplet", "contrastive"))
    row = found.row("folder", "triplet", {"protocol": "paper"})
    assert (row.validated, row.validation, row.repeats[0].validation) == (False, None, ())
    config = parse(
        row.config
        | {"runs_dir": str(tmp_path), "seed": 1, "data": values["rows"][0]["config"]["data"]}
    )
    assert train(config).result["test"] == pytest.approx(row.repeats[0].separate[0])
    assert {(b.group, b.baseline) for b in found.baselines} == {
        (f"folder, {group}", name)
        for group in ("paper", "held-out", "folds")
        for name in ("raw-features", "pca", "lda")
        if (group, name) != ("paper", "lda")  # whose shrinkage is chosen on validation classes
    }
    counting = in_process()
    again = run_study(parse_study(values), lambda: counting, folder=found.folder)
    assert timeless(again) == timeless(found)
    assert counting.done == []


def test_the_status_of_rows_says_what_it_shows(rows):
    _, found = rows
    shown = CliRunner().invoke(app, ["study", "status", str(found.folder)]).stdout
    assert "contrastive, folds" in shown
    assert "no validation (protocol.name=paper): the last epoch is tested" in shown
    assert "test: mean of the folds' separate models" in shown
    assert "concatenated: the folds' embeddings, concatenated" in shown
    seen = CliRunner().invoke(app, ["study", "status", str(found.folder), "--json"])
    status = json.loads(seen.stdout)
    assert [part["validated"] for part in status["methods"]] == [False] * 2 + [True] * 4
    assert status["methods"][4]["test"]["over"] == "folds"
    assert status["finished"] is True


def test_rows_are_compared_within_a_cell(rows):
    _, found = rows
    shown = CliRunner().invoke(app, ["compare", str(found.folder)]).stdout
    for cell in ("folder, paper", "folder, held-out", "folder, folds"):
        assert f"{cell}, by MAP@R" in shown
    assert "No validation set was used for any row." in shown
    assert "Tournament over 3 cells (protocol) on folder" in shown
    assert "total" in shown
    assert "Nemenyi" not in shown


def test_kept_run_folders_are_named_in_the_results(run, rows, study_values, tmp_path):
    values, _ = rows
    row = values["rows"][4]
    config = row["config"] | {"runs_dir": str(tmp_path / "runs")}
    kept = values | {"rows": [row | {"config": config}], "checkpoints": True}
    (found,) = run(kept, tmp_path / "s").rows
    names = found.repeats[0].runs
    assert len(names) == 2
    assert all((tmp_path / "runs" / name / "test.safetensors").is_file() for name in names)


def test_a_database_that_leads_elsewhere_is_refused(run, study_values, tmp_path):
    precious = tmp_path / "precious.db"
    precious.write_bytes(b"")
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "study.db").symlink_to(precious)
    with pytest.raises(BadInput, match="is a symbolic link"):
        run(study_values(), tmp_path / "study")
    assert precious.read_bytes() == b""


def test_a_journal_of_sqlite_that_names_another_file_is_refused(run, study_values, tmp_path):
    """SQLite undoes what a journal says is not finished, and removes the file that it names."""
    folder, precious = tmp_path / "study", tmp_path / "precious.txt"
    folder.mkdir()
    precious.write_text("mine", encoding="utf-8")
    with_journal(folder / "study.db", precious)
    with pytest.raises(BadInput, match=r"study\.db-journal' names another file"):
        run(study_values(), folder)
    with pytest.raises(BadInput, match="names another file"), open_table(folder):
        pass
    assert precious.read_text(encoding="utf-8") == "mine"
    sqlite3.connect(folder / "study.db").execute("SELECT * FROM changed")
    assert not precious.exists()  # as SQLite does without the check


def with_journal(path, named):
    """A database as it is in the middle of a change, whose journal names a file."""
    other = path.with_name("other.db")
    database = sqlite3.connect(other, isolation_level=None)
    database.execute("PRAGMA cache_size=1")
    database.execute("CREATE TABLE changed (text)")
    database.execute("BEGIN")
    database.executemany("INSERT INTO changed VALUES (?)", [("x" * 1_000,)] * 1_000)
    for end in ("", "-journal"):
        shutil.copy(f"{other}{end}", f"{path}{end}")
    database.execute("ROLLBACK")
    database.close()
    other.unlink()
    journal = Path(f"{path}-journal")
    content, name = journal.read_bytes(), str(named).encode()
    page = 2**30 // int.from_bytes(content[24:28], "big") + 1
    numbers = (len(name), sum(name))
    record = page.to_bytes(4, "big") + name + b"".join(n.to_bytes(4, "big") for n in numbers)
    journal.write_bytes(content + record + content[:8])
