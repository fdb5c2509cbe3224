"""Mixing, memory, direction and rho by configuration: real short runs on glyphs."""

import pytest
import torch
from lightning_fabric import Fabric
from torch import nn

from lookalike import models
from lookalike.config import load
from lookalike.errors import BadInput
from lookalike.training import Interrupted, train
from lookalike.training.forward import ForwardDispatch
from lookalike.training.objective import build_objective

pytestmark = pytest.mark.trust(
    "pytorch_metric_learning.losses:NTXentLoss",
    "pytorch_metric_learning.losses:TripletMarginLoss",
    "torch:eq",
)

SHORT = ("train.epochs=1", "train.batches_per_epoch=6", "protocol.name=paper")
UNTESTED = ("protocol.test=false",)


@pytest.fixture
def ready():
    """A model, a batch of pictures, and labels."""
    torch.manual_seed(0)
    model = models.build("small-cnn", dim=16, channels=1)
    images, labels = torch.randn(16, 1, 32, 32), torch.arange(4).repeat_interleave(4)
    return ForwardDispatch(model), images, labels


def objective(*overrides):
    return build_objective(load(None, list(overrides)), class_count=4, embedding_size=16)


RUNS = {
    "mixed pixels": ("mix.where=input",),
    "mixed maps": ("mix.where=feature", "mix.alpha=2", "mix.weight=0.4", "mix.pairs=both"),
    "mixing with proxies": ("loss.name=proxy-anchor", "mix.where=embed"),
    "mixing with direction": ("loss.direction=0.3", "mix.where=embed", "mix.negatives=2"),
    "direction of triplets": ("loss.name=triplet", "loss.direction=0.492", "loss.margin=0.278"),
    "direction of proxies": ("loss.name=proxy-nca", "loss.direction=0.3"),
    "rho": ("loss.name=margin", "miner.name=rho", "miner.miner=distance-weighted"),
    "memory and rho": ("memory.size=64", "memory.start=1", "loss.name=triplet", "miner.name=rho"),
    "memory and mixing": ("memory.size=100", "memory.start=2", "mix.where=embed"),
    "memory and maps": ("memory.size=64", "memory.start=1", "mix.where=feature"),
    "reducer, miner and memory": (
        "loss.name=triplet",
        "loss.reducer={name: per-anchor, reducer: avg-non-zero}",
        "miner.name=semi-hard",
        "memory.size=64",
    ),
    "virtual images": ("loss.name=recall-at-k", "loss.k_vals=[1, 2]", "loss.mixup=1"),
    "hyperbolic": ("loss.name=hyperbolic", "model.normalize=false", "mix.where=embed"),
    "hypergraph": ("loss.name=hist", "loss.hidden=16"),
    "comparison of labels": (
        "loss.name=contrastive",
        "loss.label_comparison=torch:eq",
        "miner.name=multi-similarity",
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_trains_by_configuration(name, tiny):
    config = tiny(*SHORT, *UNTESTED, *RUNS[name])
    run = train(config)
    (epoch,) = run.epochs()
    assert run.result["steps"] == 6
    assert epoch["loss"] > 0
    assert run.config == config


@pytest.mark.parametrize("name", ["memory and mixing", "memory and maps", "mixing with proxies"])
def test_stopped_and_started_again_it_ends_with_the_same_numbers(name, tiny, stops_at, tmp_path):
    overrides = (*SHORT, *UNTESTED, *RUNS[name])
    whole = train(tiny(*overrides, f"runs_dir={tmp_path / 'whole'}"))
    config = tiny(*overrides)
    with pytest.raises(Interrupted):
        train(config, stops_at(4))
    run = train(config)
    assert run.result == whole.result
    assert run.epochs() == whole.epochs()
    assert run.weights.read_bytes() == whole.weights.read_bytes()


class Surroundings(nn.Module):
    """Stands where a model stands, and notes the precision around it."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.noted = []

    def forward(self, batch):
        self.noted.append((torch.is_autocast_enabled("cpu"), batch.dtype))
        return batch * self.weight

    features = embed = forward


@pytest.mark.parametrize(
    ("precision", "around"),
    [("bf16-mixed", (True, torch.bfloat16)), ("64-true", (False, torch.float64))],
)
def test_every_pass_has_the_precision_of_the_run(precision, around):
    model = Surroundings()
    fabric = Fabric(accelerator="cpu", devices=1, precision=precision)
    prepared = fabric.setup(ForwardDispatch(model))
    prepared(torch.ones(2))
    prepared(prepared(torch.ones(2), "features"), "embed")
    assert model.noted == [around] * 3


@pytest.mark.parametrize(
    ("loss", "where"),
    [("multi-similarity", "input"), ("contrastive", "feature"), ("proxy-anchor", "embed")],
)
def test_with_weight_0_the_total_is_the_clean_loss(loss, where, ready):
    model, images, labels = ready
    name = f"loss.name={loss}"
    torch.manual_seed(3)
    clean = objective(name)
    torch.manual_seed(3)
    mixed = objective(name, f"mix.where={where}", "mix.weight=0")
    model.eval()
    assert torch.equal(clean(model, images, labels)[0], mixed(model, images, labels)[0])


@pytest.mark.parametrize("where", ["input", "feature", "embed"])
def test_the_total_is_the_clean_loss_plus_the_weighted_mixed_one(where, ready):
    model, images, labels = ready
    model.eval()
    clean, _ = objective()(model, images, labels)
    totals = []
    for weight in (1, 2):
        torch.manual_seed(4)
        total, embeddings = objective(f"mix.where={where}", f"mix.weight={weight}")(
            model, images, labels
        )
        totals.append(total)
        assert embeddings.shape == (16, 16)
    assert totals[0] > clean
    torch.testing.assert_close(totals[1] - clean, 2 * (totals[0] - clean))


def test_the_backbone_runs_once_over_the_clean_batch(ready):
    model, images, labels = ready
    seen = []
    model.model.backbone.register_forward_hook(lambda module, given, _: seen.append(len(given[0])))
    for where in ("feature", "embed", "input"):
        objective(f"mix.where={where}", "mix.negatives=2")(model, images, labels)
    assert seen == [16, 16, 16, 32]


def test_learned_weights_and_memory_are_each_once_in_the_state():
    keys = objective("memory.size=32", "loss.name=margin", "loss.learn_beta=true").state_dict()
    assert sorted(keys) == [
        "loss.beta",
        "memory._extra_state",
        "memory.embedding_memory",
        "memory.label_memory",
    ]


def test_too_many_mixes_for_direction_are_refused_when_built():
    with pytest.raises(BadInput, match=r"set mix\.negatives"):
        objective("mix.where=embed", "loss.direction=0.3")


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["mix.where=embed", "loss.name=triplet"], "TripletMarginLoss does not.*multi-similarity"),
        (["mix.where=pixels"], "choose one of: embed, feature, input"),
        (["mix.alpha=2"], r"mix\.where' is missing"),
        (["mix.wher=embed", "mix.where=embed"], r"did you mean 'mix\.where'"),
        (["mix.where=embed", "mix.negatives=0"], "negatives"),
        (["mix.where=embed", "mix.alpha=0"], "greater than 0"),
        (["memory.size=16"], "cannot hold a batch of 32"),
        (["memory.sizes=16"], r"did you mean 'memory\.size'"),
        (["mix.where=embed", "loss.name=pytorch_metric_learning.losses:NTXentLoss"], "by weight"),
    ],
)
def test_what_does_not_fit_is_refused(tiny, tmp_path, overrides, sentence):
    with pytest.raises(BadInput, match=sentence):
        train(tiny(*overrides))
    assert not (tmp_path / "runs").exists()


def test_one_beta_or_one_a_class():
    one = build_objective(load(None, ["loss.name=margin"]), 7, 16).loss
    many = build_objective(load(None, ["loss.name=margin", "loss.num_classes=auto"]), 7, 16).loss
    assert (torch.as_tensor(one.beta).numel(), torch.as_tensor(many.beta).numel()) == (1, 7)


def test_a_loss_of_another_package_with_our_miner():
    settings = [
        "loss.name=pytorch_metric_learning.losses:TripletMarginLoss",
        "miner.name=semi-hard",
    ]
    theirs = build_objective(load(None, settings), 7, 16)
    ours = build_objective(load(None, ["loss.name=triplet", "miner.name=semi-hard"]), 7, 16)
    embeddings = torch.randn(20, 16, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(5).repeat(4)
    values = [part(lambda _: embeddings, embeddings, labels)[0] for part in (theirs, ours)]
    torch.testing.assert_close(*values)
