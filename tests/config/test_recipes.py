"""Recipes: found by name, extended, and every cell that the papers report is there."""

import json
import math
import re
from collections import Counter

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import normalize

from lookalike import losses, miners, published, training
from lookalike.config import RunConfig, load, parse, recipes
from lookalike.data import preset
from lookalike.errors import BadInput
from lookalike.evaluation.metrics import check_metrics
from lookalike.models import EmbeddingModel
from lookalike.published import hyperparameters
from lookalike.training.building import check_model
from lookalike.training.objective import build_objective, check_parts, fill_loss_sizes
from lookalike.training.optimizer import build_optimizer

NAMES = recipes.names()


@pytest.fixture(scope="module")
def configs() -> dict[str, RunConfig]:
    return {name: load(f"recipe:{name}") for name in NAMES}


def test_every_published_cell_has_its_recipe():
    wanted = {row.recipe for row in published.load() if row.recipe}
    assert len(wanted) == 16 * 10 + 11 + 2 + 3 + 3 + 4 + 48 + 4
    assert wanted <= set(NAMES)


def test_every_tuned_method_has_its_recipe():
    for row in hyperparameters():
        if row.paper == "reality-check":
            place = "cub-256" if row.batch == 256 else row.dataset
            assert f"reality-check/{place}/{row.method}" in NAMES
        elif row.paper == "dr" and row.method:
            assert f"dr/cub/{row.method}" in NAMES
        elif row.paper == "thesis" and row.method:
            where = f"thesis/{row.dataset or 'sop'}/{row.network or 'googlenet'}/{row.size or 64}"
            assert f"{where}/{row.method}" in NAMES


def test_how_many_there_are():
    papers = Counter(recipes.recipe(name).paper for name in NAMES)
    assert papers["thesis"] == 12 * 3 * 4 * 3 + 3 + 3 + 4
    assert papers["reality-check"] == 14 * 4 + 4
    # the tables; ablations of negatives, pairs, weight and alpha
    assert papers["metrix"] == 3 * 4 * 4 + (3 + 2 * 6) + 3 * 3 + 3 * 6 + 3 * 5
    assert papers["dr"] == 6
    assert papers["roth"] > 200


def test_every_recipe_is_a_whole_configuration(configs):
    """Every part, argument, metric, crop and combination of a recipe is one that there is."""
    for name, config in configs.items():
        check_parts(config)
        check_model(config)
        check_metrics((config.train.metric, *config.protocol.metrics))
        assert preset(config.data.transform), name
        assert len(recipes.recipe(name).summary) > 10


def test_every_loss_and_miner_gives_a_gradient(configs):
    """With the very numbers of the recipes; some are extreme (a temperature of 0.0002)."""
    torch.manual_seed(0)
    labels = torch.arange(7).repeat_interleave(4)
    built = set()
    for name, config in configs.items():
        key = config.loss.model_dump_json() + str(config.miner)
        if key not in built:
            built.add(key)
            arguments = fill_loss_sizes(config.loss.name, config.loss.arguments, 7, 16)
            loss = losses.create(config.loss.name, **arguments)
            embeddings = normalize(torch.randn(28, 16)).requires_grad_()
            mined = None
            if config.miner is not None:
                miner = miners.create(config.miner.name, **config.miner.arguments)
                mined = miner(embeddings, labels)
            loss(embeddings, labels, mined).backward()
            assert embeddings.grad.isfinite().all(), name
            assert embeddings.grad.abs().sum() > 0, name
    assert len(built) > 80


def test_printed_values_reach_the_runs(configs):
    """A few cells by hand, from the papers' tables."""
    arcface = configs["reality-check/cub/arcface"]
    assert arcface.loss.arguments == {"margin": 23.22, "scale": 100.0}
    assert (arcface.optim.loss_lr, arcface.optim.lr, arcface.optim.name) == (
        5.13e-3,
        1e-6,
        "rmsprop",
    )
    assert arcface.sampler.arguments == {"batch_size": 32, "per_class": 1}
    assert (arcface.train.validate_every, arcface.train.patience_epochs) == (2, 9)

    large = configs["reality-check/cub-256/multi-similarity-miner"]
    assert large.loss.arguments == {"alpha": 11.63, "beta": 55.2, "base": 0.85}
    assert large.miner.arguments == {"epsilon": 0.42}
    assert large.sampler.arguments["batch_size"] == 256

    sop = configs["thesis/sop/resnet50/1024/triplet"]
    assert (sop.optim.lr, sop.optim.step_size, sop.optim.gamma) == (6e-4, 10, 0.25)
    assert (sop.sampler.arguments["batch_size"], sop.model.dim) == (100, 1024)

    grid = configs["thesis/cub/bn-inception/512/soft-triple-fixed"]
    assert grid.loss.arguments["la"] == 78
    assert grid.optim.loss_lr == 5e-5
    assert grid.sampler.name == "random"
    assert (grid.protocol.name, grid.protocol.ratio) == ("fixed-validation", 0.9)

    mixed = configs["metrix/inshop/contrastive-feature"]
    assert (mixed.optim.lr, mixed.optim.gamma, mixed.mix.where) == (1e-4, 0.25, "feature")
    assert mixed.sampler.arguments == {"batch_size": 100, "per_class": 5}
    assert configs["metrix/cub/proxy-anchor-embed"].train.epochs == 100
    assert configs["metrix/cub/proxy-anchor-baseline"].train.epochs == 60

    direction = configs["dr/cub/dr-triplet"]
    assert direction.loss.arguments["direction"] == pytest.approx(0.492, abs=1e-3)
    assert (direction.optim.name, direction.optim.weight_decay) == ("adam", 5e-3)
    assert direction.train.patience == 25

    rho = configs["roth/sop/r-snr"]
    assert rho.miner.arguments == {"miner": "distance-weighted", "probability": 0.15}


def parts_of(config: RunConfig, classes: int = 7, dim: int = 16) -> tuple:
    """The loss and the miner that a recipe names, in float64."""
    loss = losses.create(
        config.loss.name, **fill_loss_sizes(config.loss.name, config.loss.arguments, classes, dim)
    )
    miner = config.miner and miners.create(config.miner.name, **config.miner.arguments)
    return loss.double(), miner


def batch_of(seed: int = 0) -> tuple:
    """Unit vectors of 7 classes with 4 images each, and their cosines."""
    torch.manual_seed(seed)
    labels = torch.arange(7).repeat_interleave(4)
    embeddings = normalize(torch.randn(28, 16, dtype=torch.float64))
    return embeddings, labels, embeddings @ embeddings.T


def test_lifted_structure_of_the_thesis_mines_as_multi_similarity(configs):
    """``[log sum_P e^(m - s) + log sum_N e^s]+`` on cosines over the mined pairs, m = 0.5.

    Worked out by hand: of each anchor the positives with ``s < max_N s + 0.1`` and the negatives
    with ``s > min_P s - 0.1``.
    """
    embeddings = torch.tensor(
        [[1, 0, 0], [0.6, 0.8, 0], [0.8, 0, 0.6], [0, 0, 1], [0, 0.6, 0.8], [0, 1, 0]],
        dtype=torch.float64,
    )
    labels = torch.tensor([0, 0, 0, 1, 1, 1])
    kept = [(0, 0), (2, 2), (1, 2), (1, 3), (0, 0), (2, 3)]
    found = [c for n, c in configs.items() if n.endswith("/generalized-lifted-structure")]
    thesis = [c for c in found if c.train.epochs == 100 and c.optim.name == "adamw"]
    assert len(thesis) == 3 * 3 * 4
    for config in thesis:
        loss, miner = parts_of(config)
        mined = miner(embeddings, labels)
        counts = [
            (int((mined[0] == a).sum()), int((mined[2] == a).sum())) for a in range(len(labels))
        ]
        assert counts == kept
        assert 6 * loss(embeddings, labels, mined).item() == pytest.approx(7.475225, abs=1e-6)
        assert 6 * loss(embeddings, labels).item() == pytest.approx(12.416476, abs=1e-6)


def test_triplets_of_the_thesis_are_semi_hard_or_none(configs):
    """Of the negatives with ``s_an < s_ap`` the most similar; the loss has the margin 0.1."""
    embeddings, labels, cosine = batch_of()
    distance = (2 - 2 * cosine).clamp_min(0).sqrt()
    triplets, terms = [], []
    for a in range(28):
        for p in range(28):
            if p == a or labels[p] != labels[a]:
                continue
            below = [n for n in range(28) if labels[n] != labels[a] and cosine[a, n] < cosine[a, p]]
            if below:
                n = max(below, key=lambda n, a=a: float(cosine[a, n]))
                triplets.append((a, p, n))
                terms.append(float(distance[a, p] - distance[a, n] + 0.1))
    positive = [term for term in terms if term > 0]
    loss, miner = parts_of(configs["thesis/cub/resnet50/512/triplet"])
    mined = miner(embeddings, labels)
    assert sorted(zip(*(part.tolist() for part in mined), strict=True)) == triplets
    expected = sum(positive) / len(positive)
    assert loss(embeddings, labels, mined).item() == pytest.approx(expected, rel=1e-9)


def test_dr_multi_similarity_mines_with_epsilon(configs):
    """Mined pairs only; ``s_an - g cos(x_p - x_a, x_n - x_a) - m`` for negatives, p the hardest."""
    embeddings, labels, cosine = batch_of()
    embeddings = normalize(embeddings + 0.6 * embeddings[labels * 4])  # some pairs are easy
    cosine = embeddings @ embeddings.T
    alpha, beta, base, weight, epsilon = 2, 50, 0.7, 0.3, 0.1
    total, left_out = 0.0, 0
    for a in range(28):
        positives = [k for k in range(28) if k != a and labels[k] == labels[a]]
        negatives = [k for k in range(28) if labels[k] != labels[a]]
        nearest = max(float(cosine[a, n]) for n in negatives)
        farthest = min(float(cosine[a, p]) for p in positives)
        near = [p for p in positives if cosine[a, p] < nearest + epsilon]
        far = [n for n in negatives if cosine[a, n] > farthest - epsilon]
        left_out += len(positives) + len(negatives) - len(near) - len(far)
        if not near or not far:
            continue
        hardest = min(near, key=lambda p, a=a: float(cosine[a, p]))
        pull = sum(math.exp(-alpha * (cosine[a, p] - base)) for p in near)
        push = 0.0
        for n in far:
            to_p, to_n = embeddings[hardest] - embeddings[a], embeddings[n] - embeddings[a]
            turn = float(to_p @ to_n / (to_p.norm() * to_n.norm()))
            push += math.exp(beta * (float(cosine[a, n]) - weight * turn - base))
        total += math.log1p(pull) / alpha + math.log1p(push) / beta
    assert left_out > 0
    loss, miner = parts_of(configs["dr/cub/dr-multi-similarity"])
    found = loss(embeddings, labels, miner(embeddings, labels))
    assert found.item() == pytest.approx(total / 28, rel=1e-9)
    assert configs["dr/cub/multi-similarity"].miner == configs["dr/cub/dr-multi-similarity"].miner


def test_metrix_clips_gradients_by_value(configs):
    found = [config for name, config in configs.items() if name.startswith("metrix/")]
    assert len(found) == 48 + 57  # the table of results, and the ablations
    assert {(config.optim.clip_value, config.optim.clip_norm) for config in found} == {(10, None)}


def test_reality_check_decays_learned_weights_but_not_beta(configs):
    decays = {}
    for name, config in configs.items():
        if name.startswith("reality-check/"):
            objective = build_objective(config, 7, 16)
            groups = build_optimizer(
                config.optim, EmbeddingModel.of_features(8, dim=16), objective
            ).param_groups
            decay = {id(w): group["weight_decay"] for group in groups for w in group["params"]}
            decays |= {
                (name, part): decay[id(weight)] for part, weight in objective.named_parameters()
            }
    beta = {key: decay for key, decay in decays.items() if key[1].endswith("beta")}
    assert len(beta) == 2 * 4
    assert set(beta.values()) == {0}
    others = {key: decay for key, decay in decays.items() if key not in beta}
    assert len(others) >= 5 * 4
    assert set(others.values()) == {1e-4}


def test_values_of_a_reimplementation_are_not_credited_to_the_paper():
    rows = [row for row in hyperparameters() if row.paper == "dr"]
    assert all(row.reimplemented for row in rows)
    assert not any(row.reimplemented for row in hyperparameters() if row.paper != "dr")
    (proxy,) = (row for row in rows if row.method == "dr-proxy-nca")
    assert (proxy.value, proxy.low, proxy.high, proxy.step) == ("0.30", 0.2, 0.45, 0.05)
    assert "not the paper's" in recipes.recipe_page("dr/cub/dr-proxy-nca").notes
    for name in ("triplet", "proxy-nca", "multi-similarity"):
        (entry,) = (entry for entry in losses.tuned(name) if "dr-" in entry.source)
        assert "public reimplementation" in entry.source


def test_a_file_extends_a_recipe(tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text("extends: recipe:metrix/cub/contrastive-feature\nmix: {weight: 0.1}\nseed: 4\n")
    config = load(mine)
    assert (config.mix.where, config.mix.weight, config.seed) == ("feature", 0.1, 4)
    assert config.model.network == "resnet50"
    (tmp_path / "wrong.yaml").write_text("extends: recipe:metrix/cub/contrastive-featur\n")
    with pytest.raises(BadInput, match="did you mean 'metrix/cub/contrastive-feature'"):
        load(tmp_path / "wrong.yaml")


def test_words_find_recipes():
    found = [row.name for row in recipes.find_recipes(["dr", "proxy"])]
    assert "dr/cub/dr-proxy-nca" in found
    by_author = recipes.find_recipes(["Musgrave", "cars", "arcface"])
    assert [row.name for row in by_author] == ["reality-check/cars/arcface"]
    with pytest.raises(BadInput, match="no recipe matches 'cub nonsense'"):
        recipes.find_recipes(["cub", "nonsense"])


def test_the_page_of_a_recipe_can_be_printed():
    page = recipes.recipe_page("metrix/cub/contrastive-feature")
    assert page.published == {"test recall@1": 67.4, "test recall@2": 77.9, "test recall@4": 85.7}
    assert parse(json.loads(json.dumps(page.settings))) == load(
        "recipe:metrix/cub/contrastive-feature"
    )


def test_the_page_of_the_docs_counts_right_and_runs():
    page = (recipes.folder().parent / "docs" / "recipes.md").read_text(encoding="utf-8")
    numbers = [int(n) for n in re.findall(r"^\| `.* \| (\d+) \|", page, re.MULTILINE)]
    assert f"{sum(numbers)} in total" in page
    assert sum(numbers) == len(NAMES)
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block, {})


def build_of(config: RunConfig) -> tuple:
    """What makes two recipes different to build: parts, not numbers."""
    return (
        config.loss.name,
        tuple(sorted(config.loss.arguments)),
        config.miner and (config.miner.name, config.miner.arguments.get("miner")),
        config.sampler.name,
        config.mix and config.mix.where,
        config.model.normalize,
        config.optim.name,
    )


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """48 classes of four small random pictures."""
    import numpy as np
    from PIL import Image

    folder = tmp_path_factory.mktemp("pictures")
    random = np.random.default_rng(0)
    for number in range(48):
        (folder / f"class{number:02}").mkdir()
        for picture in range(4):
            pixels = random.integers(0, 256, (32, 32, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"class{number:02}" / f"{picture}.png")
    return folder


def one_step(name: str, config: RunConfig, pictures, runs, *changes: str) -> training.Run:
    """One step of a recipe on small pictures, and the final test."""
    per_class = config.sampler.arguments.get("per_class", 1)
    changed = [
        "data.name=folder",
        f"data.root={pictures}",
        f"runs_dir={runs}",
        "model.weights=none",
        "model.frozen_until=null",  # which needs trained weights
        f"sampler.batch_size={16 if per_class == 1 else 4 * per_class}",
        f"train.epochs={min(config.train.epochs, 1)}",
        "train.batches_per_epoch=1",
        "train.device=cpu",
        "protocol.metrics=[recall@1]",
        *changes,
    ]
    return training.train(load(f"recipe:{name}", changed))


def first_of_each(configs, key) -> dict:
    """The first recipe of each key; tests/training/test_networks.py runs those of `foundation/`."""
    found: dict = {}
    for name, config in configs.items():
        if not name.startswith("foundation/"):
            found.setdefault(key(config), name)
    return found


def test_every_build_takes_a_step(configs, pictures, tmp_path):
    small = ("model.network=small-cnn", "model.dim=8", "data.transform=none")
    builds = first_of_each(configs, build_of)
    assert len(builds) > 60
    for name in builds.values():
        result = one_step(name, configs[name], pictures, tmp_path, *small).result
        assert 0 <= result["test"]["recall@1"] <= 1, name


def test_reality_check_trains_the_affine_part_of_batch_norm(configs, pictures, tmp_path):
    """Batch norm in evaluation mode: its statistics stand still, its scale and shift learn."""
    name = "reality-check/cub/contrastive"
    small = ("model.network=small-cnn", "model.dim=8", "data.transform=none", "optim.lr=1e-3")
    small += ("protocol.name=paper",)  # the last epoch, whatever validation would choose
    before, after = (
        load_file(one_step(name, configs[name], pictures, tmp_path, *small, epochs).weights)
        for epochs in ("train.epochs=0", "train.epochs=1")
    )
    statistics = [key for key in before if "running_" in key]
    affine = [
        key.replace("running_mean", part)
        for key in statistics
        if key.endswith("running_mean")
        for part in ("weight", "bias")
    ]
    assert len(statistics) == len(affine) == 8
    assert all(torch.equal(before[key], after[key]) for key in statistics)
    assert not any(torch.equal(before[key], after[key]) for key in affine)


def test_every_crop_takes_a_step(configs, pictures, tmp_path):
    plain = ("model.pooling=avg", "model.lora=null", "model.frozen=false")
    small = ("model.network=small-cnn", *plain, "model.dim=8", "sampler.batch_size=8")
    crops = first_of_each(configs, lambda config: config.data.transform)
    for name in [*crops.values(), "metrix/cub/contrastive-input"]:
        if configs[name].data.transform != "glyphs":
            run = one_step(name, configs[name], pictures, tmp_path, *small)
            assert run.result["steps"] == 1, name
            assert math.isfinite(run.epochs()[-1]["loss"]), name
            embeddings = load_file(run.folder / "test.safetensors")["embeddings"]
            assert embeddings.shape == (run.result["test_images"], 8), name
            assert embeddings.std(0).max() > 0, name  # not one vector for all images


@pytest.mark.slow
def test_every_network_takes_a_step(configs, pictures, tmp_path):
    """The networks, sizes and freezing of the papers, with random weights."""
    whole = first_of_each(
        configs,
        lambda c: (c.model.network, c.model.pooling, c.model.freeze_bn_affine, c.data.transform),
    )
    assert {network for network, *_ in whole} >= {"resnet50", "bn-inception", "googlenet"}
    for name in whole.values():
        if configs[name].data.name != "glyphs":
            batch = ("sampler.name=spc", "sampler.per_class=2", "sampler.batch_size=8")
            one_step(name, configs[name], pictures, tmp_path, *batch)
