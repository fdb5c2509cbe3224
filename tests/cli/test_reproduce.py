"""``lookalike reproduce``: listing, plans, and refusals that write nothing."""

import json
import subprocess
import sys

import pytest


def test_listing(lookalike):
    lines = lookalike("reproduce", "metrix").stdout.splitlines()
    assert lines[0].startswith("metrix/cub ")
    assert all("metrix" in line.lower() or "claimed" in line for line in lines)


def test_json_says_what_each_needs(lookalike):
    listed = json.loads(lookalike("reproduce", "--json").stdout)
    assert len(listed) >= 60
    found = {one["name"]: one for one in listed}
    tournament = found["thesis/tournament"]["needs"]
    assert tournament["data"] == ["cub"]
    assert tournament["weights"] == {
        "bn-inception": "file",
        "googlenet": "imagenet",
        "resnet50": "imagenet",
    }
    assert tournament["trainings"] == 360
    assert found["reality-check/optimizers"]["needs"]["trainings"] == 0
    assert found["dr/retrieval"]["needs"]["photographs"] is True
    assert all(one["title"] and one["source"] and one["kind"] for one in listed)


def test_the_catalogue_is_listed_without_loading_torch():
    code = (
        "import sys; from lookalike.papers.selection import needs; "
        "from lookalike.papers.catalogue import entries; "
        "print(len([needs(one) for one in entries().values()])); "
        "assert not {'torch', 'scipy.stats'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_plan(lookalike):
    told = lookalike("reproduce", "metrix/cub", "--plan").stdout
    assert "36 trainings: 12 rows, each 3 times." in told
    assert "recall@1 71.4" in told
    assert "The time left is estimated after the first training." in told
    small = lookalike("reproduce", "metrix/cub", "--plan", "--scale", "small", "--json").stdout
    plan = json.loads(small)
    assert plan["scale"] == "small"
    assert plan["results"] == "results/reproduce/metrix/cub-small"
    assert plan["deviations"][0].startswith("Small scale")
    assert plan["rows"][0]["published"]["recall@1"] == 64.7


def test_a_list_needs_no_training(lookalike):
    told = lookalike("reproduce", "reality-check/transforms").stdout
    assert len(told.splitlines()) == 2 + 1 + 18
    rows = json.loads(lookalike("reproduce", "reality-check/optimizers", "--json").stdout)
    assert {row["optimizer"] for row in rows} == {"SGD", "RMSprop", "Adam", "AdamW"}


def test_a_list_can_be_a_page(lookalike, tmp_path):
    lookalike("reproduce", "reality-check/transforms", "--results", str(tmp_path / "list"))
    text = (tmp_path / "list" / "transforms.html").read_text(encoding="utf-8")
    assert "18 rows." in text


def test_one_command_trains_a_table_and_writes_its_page(lookalike, tmp_path):
    tiny = (
        "model.network=small-cnn", "model.weights=none", "model.frozen=false",
        "model.head_init=random", "model.dim=16", "train.epochs=1", "train.batches_per_epoch=2",
        "train.eval_batch_size=2048",
    )  # fmt: skip
    options = ("--scale", "small", "--repeats", "1", "--workers", "1", "--results", str(tmp_path))
    told = lookalike("reproduce", "thesis/fixed-validation", *tiny, *options).stdout
    assert "SMALL SCALE" in told
    assert "claim: ProxyAnchor before SoftTriple before MultiSimilarity." in told
    assert str(tmp_path / "fixed-validation-small.html") in told.replace("\n", "")
    page = (tmp_path / "fixed-validation-small.html").read_text(encoding="utf-8")
    assert 'class="banner"' in page
    assert "lookalike reproduce thesis/fixed-validation" in page
    found = {path.suffix for path in tmp_path.glob("fixed-validation-small.*")}
    assert found >= {".html", ".csv", ".md", ".tex", ".json"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["thesis/turnament"], "did you mean 'thesis/tournament'?"),
        (["zebra"], "no table or figure matches 'zebra'"),
        (["metrix/cub"], "needs the data set 'cub': give data.root=FOLDER"),
        (["metrix/cub", "data.root=nowhere"], "nowhere"),
        (["metrix/cub", "data.root=.", "--plan"], "does not hold 'cub'"),
        (["metrix/cub", "--scale", "small", "data.name=cubs"], "did you mean 'cub'?"),
        (["metrix/cub", "--scale", "small", "data.root=."], "give data.name too"),
        (["dr/retrieval", "--scale", "small", "--plan"], "needs photographs"),
        (["metrix/cub", "metrix/cars", "optim.lr=1"], "takes one PAPER/TABLE"),
        (["metrix/cub", "--plan", "optim.rate=1"], "there is no key 'optim.rate'"),
        (["metrix/cub", "--scale", "small", "model.dim=1281"], "is more than the 1280 features"),
        (["metrix/cub", "--scale", "small", "--gpus", "1"], "need --executor ray"),
    ],
)
def test_bad_input_writes_nothing(refused, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    refused("reproduce", *arguments, sentence=sentence)
    assert not list(tmp_path.iterdir())
