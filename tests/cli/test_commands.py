"""The command as a user meets it: exit codes, one sentence for bad input.

What writes files or trains runs as a process; what only answers runs in this one.
"""

import json
import subprocess
import sys

import numpy as np
import pytest
import rich.markup
import torch
import typer
from PIL import Image

import lookalike as la
from lookalike.cli.commands import app
from tests.commands import run

TINY = ["model.dim=16", "train.epochs=1", "train.batches_per_epoch=4", "sampler.batch_size=32"]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    done = run("train", *TINY, f"runs_dir={folder}", "--json")
    assert done.returncode == 0, done.stderr
    assert 0 < json.loads(done.stdout)["test"]["recall@1"] < 1
    (found,) = folder.iterdir()
    return found


def test_evaluate_a_run_gives_its_own_scores(run_folder):
    done = run("evaluate", run_folder, "--metrics", "recall@1,map@r", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads((run_folder / "result.json").read_text())["test"]
    found = json.loads(done.stdout)
    assert found["scores"] == {name: result[name] for name in ("recall@1", "map@r")}


def test_evaluate_shows_intervals_classes_and_the_worst(run_folder):
    options = ["--confidence", "0.95", "--per-class", "--worst", "3", "--json"]
    done = run("evaluate", run_folder, "--metrics", "recall@1,pi-ratio", *options)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    low, high = found["intervals"]["recall@1"]
    assert low < found["scores"]["recall@1"] < high
    assert (
        len(found["per_class"])
        == json.loads((run_folder / "result.json").read_text())["test_classes"]
    )
    assert [query["name"].startswith("U+") for query in found["worst"]] == [True] * 3


def test_evaluate_a_pretrained_network_on_a_folder(photos):
    (photos / "class0" / "broken.png").unlink()
    settings = ["data.name=folder", f"data.root={photos}", "model.network=efficientnet-lite0"]
    done = run(
        "evaluate", *settings, "model.weights=imagenet", "--metrics", "recall@1", cwd=photos.parent
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("recall@1")
    assert not (photos.parent / "runs").exists()  # an evaluation is no run to compare


def test_evaluate_a_file(tmp_path):
    path = tmp_path / "three.npz"
    np.savez(path, embeddings=[[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]], labels=["a", "a", "b"])
    done = run("evaluate", path, "--metrics", "recall@1", "--rerank", "k-reciprocal")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:4] == ["recall@1", "100.0", "%", "re-ranked"]
    assert "1 queries have nothing relevant" in done.stdout


@pytest.mark.parametrize(
    "kind",
    [
        *("losses", "miners", "samplers", "metrics", "datasets", "networks"),
        *("transforms", "keys", "published", "recipes"),
    ],
)
def test_list(lookalike, kind):
    done = lookalike("list", kind, "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert rows
    assert all(row["summary"] for row in rows)


def test_list_keys_by_words(lookalike):
    done = lookalike("list", "keys", "loss", "decay", "--json")
    assert [row["name"] for row in json.loads(done.stdout)] == ["optim.loss_weight_decay"]


def test_version(lookalike):
    done = lookalike("--version")
    assert (done.returncode, done.stdout.strip()) == (0, la.__version__)


def test_train_alone_shows_its_help_and_trains_nothing(lookalike, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = lookalike("train")
    assert "Example: lookalike train" in done.stdout + done.stderr
    assert not list(tmp_path.iterdir())


def test_a_loss_in_this_folder_is_found(lookalike, tmp_path, monkeypatch):
    code = (
        "from lookalike.losses import TripletMarginLoss\n\n\nclass Mine(TripletMarginLoss): ...\n"
    )
    (tmp_path / "my_own_losses.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    done = lookalike("train", "loss.name=my_own_losses:Mine", "loss.margn=1")
    assert done.returncode == 2
    assert "did you mean 'margin'" in done.stderr


def test_list_tells_all_about_one(lookalike):
    done = lookalike("list", "losses", "multi-similarity")
    assert done.returncode == 0, done.stderr
    assert "Wang et al., CVPR 2019" in done.stdout
    assert "log(1 + sum" in done.stdout
    assert "beta = 50" in done.stdout
    assert "Tuned for Cars: alpha=14.35, beta=75.83, base=0.66" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--jsn"], "--jsn"),
        (["train.precision=16-mixed", "train.device=cpu"], "needs a GPU"),  # Fabric warns, too
    ],
)
def test_what_libraries_say_as_well_is_refused(lookalike, arguments, sentence):
    done = lookalike("train", *arguments)
    assert (done.returncode, sentence in done.stderr) == (2, True)


def test_bad_input_ends_a_process_with_exit_code_2(tmp_path):
    done = run("train", "loss.name=tripplet", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("lookalike: ")
    assert done.stderr.count("\n") == 1


@pytest.fixture
def photos(tmp_path):
    """Four classes of three photographs, one of which is broken."""
    for number in range(12):
        home = tmp_path / "photos" / f"class{number % 4}"
        home.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 256, (40, 50, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(home / f"{number}.png")
    (tmp_path / "photos" / "class0" / "broken.png").write_bytes(b"not a picture")
    return tmp_path / "photos"


def photo_run(photos, *more):
    settings = ["data.name=folder", f"data.root={photos}", "data.transform=small", "model.dim=8"]
    settings += ["sampler.name=random", "sampler.batch_size=4", "train.epochs=1"]
    return run("train", *settings, "protocol.name=paper", *more, cwd=photos.parent)


def test_unreadable_images_stop_a_run_with_their_names(photos):
    done = photo_run(photos)
    assert done.returncode == 2
    assert "class0/broken.png" in done.stderr
    assert "data.skip_unreadable=true" in done.stderr
    assert not list(photos.parent.glob("runs/*/config.yaml"))


def test_skipped_images_are_in_the_record(photos):
    done = photo_run(photos, "data.skip_unreadable=true")
    assert done.returncode == 0, done.stderr
    (record,) = photos.parent.glob("runs/folder-*/environment.json")
    assert json.loads(record.read_text())["unreadable"] == ["class0/broken.png"]


def test_a_wrong_weights_file_gets_a_sentence(photos):
    torch.save({"nothing.weight": torch.zeros(3)}, photos.parent / "wrong.pth")
    more = ["model.weights=wrong.pth", "data.skip_unreadable=true"]
    done = photo_run(photos, *more)
    assert done.returncode == 2
    assert "wrong.pth" in done.stderr
    assert "nothing.weight" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["demo", "train", "evaluate", "list", "data prepare"])
def test_help_has_an_example(lookalike, command):
    done = lookalike(*command.split(), "--help")
    assert done.returncode == 0
    assert f"Example: lookalike {command}" in " ".join(done.stdout.split())


def test_recipes_are_found_by_words_and_shown_whole(lookalike):
    done = lookalike("list", "recipes", "metrix", "inshop", "proxy", "--json")
    assert done.returncode == 0, done.stderr
    found = {row["name"]: row["paper"] for row in json.loads(done.stdout)}
    modes = ("baseline", "input", "feature", "embed")
    assert found == {f"metrix/inshop/proxy-anchor-{mode}": "metrix" for mode in modes}
    done = lookalike("list", "recipes", "metrix/cub/contrastive-feature")
    assert done.returncode == 0, done.stderr
    assert "Published test recall@1: 67.4" in done.stdout
    assert "where: feature" in done.stdout
    done = lookalike("list", "recipes", "metrix", "nonsense")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no recipe matches 'metrix nonsense'" in done.stderr


@pytest.mark.slow
def test_a_recipe_of_a_grid_is_trained(photos, tmp_path):
    (photos / "class0" / "broken.png").unlink()
    small = ["model.network=small-cnn", "model.weights=none", "model.dim=8", "data.transform=none"]
    short = ["train.epochs=1", "train.batches_per_epoch=1", "sampler.batch_size=4"]
    place = ["data.name=folder", f"data.root={photos}", f"runs_dir={tmp_path}"]
    done = run("train", "recipe:metrix/cub/contrastive-embed", *small, *short, *place)
    assert done.returncode == 0, done.stderr
    assert "recall@1" in done.stdout
    done = run("train", "recipe:metrix/cub/contrastive-embd", *place)
    assert done.returncode == 2
    assert "did you mean 'metrix/cub/contrastive-embed'" in done.stderr


def test_what_needs_no_network_does_not_load_torch():
    """Help and lists of recipes answer at once."""
    for command in (["--help"], ["list", "recipes", "metrix", "cub"]):
        code = (
            "import sys, atexit; from lookalike.cli import main; "
            "atexit.register(lambda: print('torch' in sys.modules, file=sys.stderr)); main()"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, *command], capture_output=True, text=True, check=True
        )
        assert done.stderr.split()[-1] == "False"


def test_flags_have_no_value_in_the_help(lookalike):
    for command in (["train"], ["study", "run"], ["index"], []):
        assert "<bool>" not in lookalike(*command, "--help").stdout


def test_help_shows_brackets():
    """Rich takes ``[word]`` for markup, and leaves it out."""

    def helps(command):
        yield command.help or ""
        for parameter in command.params:
            yield getattr(parameter, "help", None) or ""
        for below in getattr(command, "commands", {}).values():
            yield from helps(below)

    found = list(helps(typer.main.get_command(app)))
    assert len(found) > 100
    assert [text for text in found if rich.markup.render(text).plain != text] == []


def test_studies_are_listed(lookalike):
    rows = json.loads(lookalike("list", "studies", "--json").stdout)
    assert "studies/tiny" in [row["name"] for row in rows]
    assert lookalike("list", "recipes", "studies").stdout.startswith("studies/")


def test_what_comes_with_the_package_is_found_in_any_folder(lookalike, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "unfair" in lookalike("audit", "docs/audits/every-flaw.yaml").stdout.lower()
    found = json.loads(lookalike("compare", "results/laptop-reality-check", "--json").stdout)
    assert found["datasets"]
    refused = lookalike("study", "status", "recipes/studies/tiny.yaml")
    assert "study.db" in refused.stderr  # read, but never run here


def test_latest_leads_to_the_last_run_and_is_no_run_of_its_own(lookalike, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    short = ["train.epochs=1", "train.batches_per_epoch=1", "model.dim=8", "data.name=glyphs"]
    done = lookalike("train", *short)
    assert "next: lookalike evaluate runs/latest" in done.stderr
    assert "glyphs-" in (tmp_path / "runs" / "latest").resolve().name
    first = (tmp_path / "runs" / "latest").resolve()
    lookalike("train", *short, "seed=1")
    assert (tmp_path / "runs" / "latest").resolve() != first
    rows = json.loads(lookalike("compare", "runs", "--json").stdout)["datasets"][0]["rows"]
    assert len(rows) == 1  # two seeds of one method


def test_audit_tells_its_keys_and_what_other_words_mean(lookalike, refused, tmp_path):
    rows = json.loads(lookalike("audit", "--keys", "--json").stdout)
    assert {"key": "dim", "meaning": "embedding size"}.items() <= rows[3].items()
    paper = tmp_path / "paper.yaml"
    paper.write_text("experiments:\n- {name: a, embedding_size: 64}\n- {name: b}\n")
    refused("audit", paper, sentence="it is called 'dim'")


def test_networks_are_measured(lookalike, refused):
    (one,) = json.loads(lookalike("list", "networks", "small-cnn", "--speed", "--json").stdout)
    assert one["parameters"] > 1000
    assert one["images_per_second"] > 0
    assert "images/s" in lookalike("list", "networks", "small-cnn", "--speed").stdout
    refused("list", "losses", "--speed", sentence="--speed is of networks")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (MemoryError(), "there is not enough memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "there is not enough memory"),
        (RuntimeError("std::bad_alloc"), "there is not enough memory"),
        (RecursionError("maximum recursion depth exceeded"), "is nested too deep"),
    ],
)
def test_what_does_not_fit_is_a_sentence(lookalike, monkeypatch, error, sentence):
    def failing():
        raise error

    monkeypatch.setattr("lookalike.cli.commands.app", failing)
    done = lookalike("list", "losses")
    assert done.returncode == 1
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
