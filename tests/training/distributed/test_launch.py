"""``lookalike train devices=2``: real processes, killed and started again, and the same numbers."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from lookalike import models
from lookalike.config import load
from lookalike.errors import BadInput
from lookalike.training import train
from lookalike.training.runner import check

SETTINGS = [
    "loss.name=proxy-anchor",
    "model.dim=16",
    "model.freeze_bn_statistics=true",  # torch rounds its own coarsely in float32, see the docs
    "sampler.batch_size=33",
    "sampler.per_class=3",
    "optim.name=sgd",
    "optim.lr=0.0005",
    "optim.schedule=cosine",
    "train.batches_per_epoch=60",
    "train.epochs=2",
    "train.checkpoint_seconds=0",
    "train.device=cpu",
    "protocol.name=paper",
    "protocol.metrics=[recall@1]",
]
ONE_THREAD = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}


def start(*settings, command=("-m", "lookalike"), **environment):
    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, *command, "train", *settings],
        env=os.environ | ONE_THREAD | {"PYTHONPATH": paths} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def children(process):
    """The processes of a run, or those of torchrun, by their ranks."""
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    numbers = path.read_text().split() if path.exists() else []
    commands = {one: Path(f"/proc/{one}/cmdline").read_bytes() for one in numbers}
    return [int(one) for one, command in commands.items() if b"resource_tracker" not in command]


def wait_for_checkpoint(process, runs):
    while process.poll() is None and not list(runs.glob("*/checkpoints/last.pt")):
        time.sleep(0.02)
    assert process.poll() is None, process.stderr.read()


def said_by(process, exit_code):
    said, complained = process.communicate(timeout=240)
    assert process.returncode == exit_code, complained
    return said, complained


def result_in(runs):
    (path,) = (one for one in runs.glob("*/result.json") if one.parent.name != "latest")
    log = (path.parent / "metrics.jsonl").read_text().splitlines()
    weights = load_file(str(path.parent / "model.safetensors"))
    return json.loads(path.read_text()), [json.loads(line) for line in log], weights


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What one process finds."""
    runs = tmp_path_factory.mktemp("alone")
    train(load(None, [*SETTINGS, f"runs_dir={runs}"]))
    return result_in(runs)


def assert_same(found, expected):
    """To rounding; scores of so short a run follow the last bits of near-equal similarities."""
    (result, log, weights), (expected_result, expected_log, expected_weights) = found, expected
    assert result["run"] == expected_result["run"]
    for state in ("test", "untrained", "raw_features"):
        assert result[state] == pytest.approx(expected_result[state], abs=0.02)
    assert [line["loss"] for line in log] == pytest.approx(
        [line["loss"] for line in expected_log], rel=1e-5
    )
    assert weights.keys() == expected_weights.keys()
    for name, expected_weight in expected_weights.items():
        torch.testing.assert_close(weights[name], expected_weight, rtol=1e-3, atol=1e-4)


def test_a_killed_process_ends_the_run_and_the_same_command_goes_on(tmp_path, alone):
    process = start(*SETTINGS, f"runs_dir={tmp_path}", "devices=2")
    wait_for_checkpoint(process, tmp_path)
    os.kill(children(process)[1], signal.SIGKILL)
    _, complained = said_by(process, 1)
    last = complained.splitlines()[-1]
    assert "process 1 of 2 was killed by SIGKILL; the same command resumes" in last
    assert complained.count("lookalike:") == 1
    assert "Traceback" not in complained
    assert not list(tmp_path.glob("*/result.json"))

    process = start(*SETTINGS, f"runs_dir={tmp_path}", "devices=2", "nodes=1")
    said, complained = said_by(process, 0)
    assert complained.count("going on from step") == 1
    assert said.count("\n    recall@1 ") == 1
    assert_same(result_in(tmp_path), alone)
    environment = json.loads(next(tmp_path.glob("*/environment.json")).read_text())
    assert environment["processes"] == 2


def test_what_only_the_processes_find_out_is_said_once(tmp_path):
    process = start(
        *SETTINGS, f"runs_dir={tmp_path / 'runs'}", "devices=2", "sampler.batch_size=99999"
    )
    said, complained = said_by(process, 2)
    assert said == ""
    assert complained.splitlines() == [
        line for line in complained.splitlines() if "sampler.batch_size = 99999 is more" in line
    ]
    assert len(complained.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["devices=0"], r"train\.devices = 0 is invalid"),
        (["devices=8", "sampler.batch_size=4"], "cannot be shared by 8 processes"),
        (["nodes=2"], "needs MASTER_ADDR, MASTER_PORT and NODE_RANK"),
        (["train.accumulate=9", "sampler.batch_size=8"], "more than the 8 images"),
        (["train.accumulate=2", "mix.where=feature"], "mix.where=embed or mix.where=input"),
        (["devices=2", "train.device=tpus"], "cannot be used"),
    ],
)
def test_what_cannot_be_shared_is_refused_before_anything_starts(settings, sentence):
    with pytest.raises(BadInput, match=sentence):
        check(load(None, ["train.device=cpu", *settings]))


def test_devices_do_not_name_a_run(tmp_path):
    plain = load(None, []).identity()
    assert load(None, ["devices=4", "nodes=2"]).identity() == plain
    assert load(None, ["train.accumulate=1"]).identity() == plain
    assert load(None, ["train.accumulate=2"]).identity() != plain  # batch norm sees chunks


@pytest.mark.slow
def test_torchrun(tmp_path, alone):
    torchrun = ("-m", "torch.distributed.run", "--nproc_per_node=2", "--standalone")
    process = start(*SETTINGS, f"runs_dir={tmp_path}", command=(*torchrun, "-m", "lookalike"))
    said, complained = said_by(process, 0)
    assert said.count("\n    recall@1 ") == 1
    assert complained.count("epoch 1:") == 1
    assert_same(result_in(tmp_path), alone)

    wrong = start("loss.name=tripplet", command=(*torchrun, "-m", "lookalike"))
    _, complained = wrong.communicate(timeout=240)
    assert wrong.returncode != 0
    assert complained.count("did you mean 'triplet'?") == 1


@pytest.mark.slow
def test_torchrun_tells_of_a_lost_process(tmp_path):
    torchrun = ("-m", "torch.distributed.run", "--nproc_per_node=2", "--standalone")
    settings = [*SETTINGS, "train.epochs=500", f"runs_dir={tmp_path}"]
    process = start(*settings, command=(*torchrun, "-m", "lookalike"))
    wait_for_checkpoint(process, tmp_path)
    os.kill(children(process)[1], signal.SIGKILL)
    _, complained = process.communicate(timeout=120)
    assert process.returncode == 1
    assert complained.count("lookalike: another process of this run has ended") == 1


@pytest.mark.slow
def test_two_machines(tmp_path, alone):
    both = [
        start(
            *SETTINGS, f"runs_dir={tmp_path}", "devices=1", "nodes=2",
            MASTER_ADDR="127.0.0.1", MASTER_PORT="29517", NODE_RANK=str(node),
        )
        for node in range(2)
    ]  # fmt: skip
    said = [said_by(process, 0)[0] for process in both]
    assert ["recall@1" in text for text in said] == [True, False]
    assert_same(result_in(tmp_path), alone)


SHORT = ["train.batches_per_epoch=10"]


@pytest.mark.slow
def test_averaged_weights_and_loggers(tmp_path):
    """What one process averages and writes down, two do."""
    settings = [*SETTINGS, *SHORT, "train.ema=0.9", "train.loggers=[tensorboard,csv]"]
    train(load(None, [*settings, f"runs_dir={tmp_path / 'alone'}"]))
    said_by(start(*settings, f"runs_dir={tmp_path / 'two'}", "devices=2"), 0)
    found, expected = result_in(tmp_path / "two"), result_in(tmp_path / "alone")
    assert_same(found, expected)
    (folder,) = (tmp_path / "two").glob("glyphs-*")
    (events,) = folder.glob("tensorboard/**/events*")
    assert events.stat().st_size > 0
    lines = (folder / "metrics.csv").read_text().splitlines()
    assert len(lines) == 1 + 2  # names, and one line an epoch


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["gc", "frd"])
def test_samplers_with_a_store_choose_in_two_processes_as_in_one(tmp_path, sampler):
    settings = [*SETTINGS, *SHORT, f"sampler.name={sampler}", "sampler.per_class=3"]
    train(load(None, [*settings, f"runs_dir={tmp_path / 'alone'}"]))
    said_by(start(*settings, f"runs_dir={tmp_path / 'two'}", "devices=2"), 0)
    assert_same(result_in(tmp_path / "two"), result_in(tmp_path / "alone"))


@pytest.fixture
def small_weights(tmp_path):
    """A network whose weights are in a file."""
    torch.manual_seed(1)
    path = tmp_path / "small.safetensors"
    save_file(models.build("small-cnn", channels=3).backbone.network.state_dict(), str(path))
    return path


@pytest.mark.slow
def test_behind_a_front_that_stands_still(tmp_path, patterns, small_weights):
    """Two processes learn what one does from maps computed once; killed, they go on with them.

    The losses are smooth: with a mean over the pairs above zero, the last bit of a distance decides
    whether a pair counts, and so differs between one process and two.
    """
    settings = [
        *SETTINGS, "data.name=folder", f"data.root={patterns}", f"model.weights={small_weights}",
        "model.frozen_until=2", "model.frozen_views=2", "train.batches_per_epoch=20",
        "loss.name=multi-similarity", "memory.size=40", "memory.start=2",
    ]  # fmt: skip
    config = load(None, [*settings, f"runs_dir={tmp_path / 'alone'}"])
    train(config)
    recipe = tmp_path / "config.yaml"
    recipe.write_text(config.model_dump_json())
    cache = {"LOOKALIKE_CACHE": str(tmp_path / "cache")}  # empty: one of the two computes the maps
    two = [str(recipe), f"runs_dir={tmp_path / 'two'}", "devices=2"]
    process = start(*two, **cache)
    wait_for_checkpoint(process, tmp_path / "two")
    os.kill(children(process)[1], signal.SIGKILL)
    said_by(process, 1)
    assert len(list((tmp_path / "cache").glob("*.features.npy"))) == 1
    said_by(start(*two, **cache), 0)
    found, expected = result_in(tmp_path / "two"), result_in(tmp_path / "alone")
    assert_same(found, expected)
    begun = load_file(str(small_weights))
    _, _, weights = found
    moved = {
        name
        for name, value in begun.items()
        if not torch.equal(value, weights[f"backbone.network.{name}"])
    }
    assert {name.partition(".")[0] for name in moved} == {"4", "6"}


@pytest.mark.slow
def test_asked_to_stop_it_saves_and_goes_on(tmp_path, alone):
    process = start(*SETTINGS, f"runs_dir={tmp_path}", "devices=2")
    wait_for_checkpoint(process, tmp_path)
    process.send_signal(signal.SIGINT)
    _, complained = said_by(process, 130)
    assert complained.count("stopped at step") == 1
    said_by(start(*SETTINGS, f"runs_dir={tmp_path}", "devices=2"), 0)
    assert_same(result_in(tmp_path), alone)


@pytest.mark.slow
def test_the_processes_end_with_the_one_that_started_them(tmp_path):
    process = start(*SETTINGS, f"runs_dir={tmp_path}", "devices=2", "train.epochs=500")
    wait_for_checkpoint(process, tmp_path)
    ranks = children(process)
    assert len(ranks) == 2
    process.kill()
    process.communicate()
    for _ in range(200):
        if not any(Path(f"/proc/{number}").exists() for number in ranks):
            return
        time.sleep(0.1)
    raise AssertionError("they live on")
