"""A compiled network, and a compiled head with its loss, learn what the plain ones learn."""

import os
import subprocess
import sys

import pytest
from lightning_fabric import Fabric
from lightning_fabric.plugins.precision.double import DoublePrecision
from safetensors.torch import load_file, save_file

from lookalike import models
from lookalike.training import Watcher, train
from lookalike.training.building import PreparedParts
from lookalike.training.loop import TrainingLoop

pytestmark = pytest.mark.slow  # the compiler takes its time


class Double(DoublePrecision):
    """Float64 throughout: Fabric's own gives embeddings back in float32."""

    def convert_output(self, data):
        return data


class Recorded(TrainingLoop):
    """A training that keeps the loss of every step."""

    def step(self, positions, images):
        loss = super().step(positions, images)
        self.losses = [*getattr(self, "losses", []), float(loss)]
        return loss


@pytest.fixture
def small(tiny, patterns):
    def config(*overrides):
        folder = ("data.name=folder", f"data.root={patterns}", "protocol.test=false")
        return tiny(*folder, "protocol.name=paper", *overrides)

    return config


@pytest.fixture
def frozen(tmp_path):
    """Settings of a head on features of a network from a file."""
    path = tmp_path / "small.safetensors"
    save_file(models.build("small-cnn", channels=3).backbone.network.state_dict(), str(path))
    return (f"model.weights={path}", "model.frozen=true", "model.frozen_views=1")


def losses_in_float64(config):
    """The loss of every step, and the weights at the end."""
    parts, fabric = PreparedParts(), Fabric(accelerator="cpu", devices=1, plugins=[Double()])
    bundle, split = parts.bundle(config), parts.split(config)
    bundle.model.double()
    learning = Recorded(config, fabric, split, bundle, Watcher())
    learning.objective.double()
    learning.learn(lambda: None)
    return learning.losses, learning.model.state_dict()


def assert_same_steps(plain, compiled):
    """In float64 nothing but rounding may differ: no sum, no branch and no count of triplets.

    A difference of one part in 1e16 grows a hundredfold over these 24 steps (measured with float32:
    one unit in the last place of the first weights gives 2e-6 at the end).
    """
    (losses, weights), (found, compiled_weights) = plain, compiled
    assert len(losses) == 24
    assert losses[0] != losses[-1]
    assert found == pytest.approx(losses, rel=1e-9)
    for name, weight in weights.items():
        assert (compiled_weights[name] - weight).abs().max() < 1e-9, name


@pytest.mark.parametrize(
    ("loss", "head_only"),
    [("proxy-anchor", False), ("contrastive", True), ("triplet", False), ("triplet", True)],
)
def test_a_compiled_network_or_head_makes_the_same_steps(small, frozen, loss, head_only):
    given = (f"loss.name={loss}", *(frozen if head_only else ()))
    plain = losses_in_float64(small(*given))
    compiled = losses_in_float64(small(*given, "train.compile=true"))
    assert_same_steps(plain, compiled)


def test_a_run_with_a_compiled_head_ends_as_one_without(small, frozen):
    """As users run it, in float32; one unit in the last place at the start gives 2e-6 here."""
    plain = train(small(*frozen, "loss.name=proxy-anchor"))
    compiled = train(small(*frozen, "loss.name=proxy-anchor", "train.compile=true"))
    assert compiled.folder != plain.folder
    losses, found = ([line["loss"] for line in run.epochs()] for run in (plain, compiled))
    assert found == pytest.approx(losses, rel=1e-4)
    weights = load_file(str(plain.weights))["head.linear.weight"]
    assert (load_file(str(compiled.weights))["head.linear.weight"] - weights).abs().max() < 1e-3


def test_a_compiler_that_fails_is_one_sentence(small, tmp_path):
    config = small("train.compile=true", "train.epochs=1", "train.batches_per_epoch=1")
    path = tmp_path / "config.yaml"
    path.write_text(config.model_dump_json())
    done = subprocess.run(
        [sys.executable, "-m", "lookalike", "train", str(path)],
        env=os.environ | {"CXX": "/bin/false", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "train.compile=true: the compiler failed" in done.stderr.splitlines()[-1]
