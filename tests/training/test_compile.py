"""A compiled network, and a compiled head with its loss, learn what the plain ones learn."""

import json

import pytest

from lookalike.training import train


def losses(run):
    return [json.loads(line)["loss"] for line in run.log.read_text().splitlines()]


@pytest.mark.slow  # the compiler takes its time
@pytest.mark.parametrize("loss", ["proxy-anchor", "contrastive"])
def test_a_compiled_network_learns_the_same(tiny, loss):
    plain = train(tiny(f"loss.name={loss}"))
    compiled = train(tiny(f"loss.name={loss}", "train.compile=true"))
    assert losses(compiled) == pytest.approx(losses(plain), rel=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["proxy-anchor", "contrastive", "triplet"])
def test_a_compiled_head_learns_the_same(tiny, loss):
    first = train(tiny("train.epochs=1"))
    frozen = [
        f"loss.name={loss}",
        f"model.weights={first.weights}",
        "model.frozen=true",
        "model.frozen_views=1",
    ]
    plain = train(tiny(*frozen))
    compiled = train(tiny(*frozen, "train.compile=true"))
    assert losses(compiled) == pytest.approx(losses(plain), rel=1e-2)
