"""Settings: merged, overridden, refused; and YAML from anywhere, which runs no code."""

import pytest

from lookalike.config import RunConfig, load
from lookalike.errors import BadInput


def laughs(levels, width):
    lines = [f"a0: &a0 [{', '.join(['lol'] * width)}]"]
    for level in range(1, levels):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * width)}]")
    return "\n".join([*lines, f"loss: *a{levels - 1}"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (laughs(9, 9), "more than 100,000 values"),
        (laughs(40, 2), "more than 100,000 values"),
        ("a: &a [*a]", "contains itself"),
        ("a: " + "[" * 400 + "]" * 400, "deep"),
        ("a: " + "{b: " * 20_000, "deep"),
        ("seed: 2020-01-31", "seed = '2020-01-31' is invalid"),
        ("sampler: {batch_size: !!binary aGVsbG8=}", "could not determine a constructor"),
        ("sampler: {batch_size: !!set {a, b}}", "could not determine a constructor"),
        ("seed: " + "9" * 6000, "digits"),
        ("data: {transform: {size: 1000000}}", "less than or equal to 16384"),
        ("model: {dim: 9223372036854775807}", "less than or equal to 1000000"),
        ("x: !!python/object/apply:os.mkdir [{folder}]", "could not determine a constructor"),
        ("x: !!python/name:os.system ''", "could not determine a constructor"),
        ("a: \0", "special characters"),
        ("extends: " + "x" * 1000, "cannot read '.*': File name too long"),
    ],
)
def test_what_is_no_plain_setting_is_refused(text, reason, tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(text.replace("{folder}", str(tmp_path / "made")), encoding="utf-8")
    with pytest.raises(BadInput, match=reason) as refused:
        load(path)
    assert len(str(refused.value)) < 1500
    assert not (tmp_path / "made").exists()


def test_a_sentence_repeats_no_huge_value(tmp_path):
    with pytest.raises(BadInput) as refused:
        load(None, ["model.dim=" + "x" * 10**6])
    assert len(str(refused.value)) < 500


def test_overrides_reach_their_place_and_type():
    config = load(None, ["loss.name=triplet", "loss.margin=0.1", "optim.lr=1e-4", "seed=3"])
    assert config.loss.name == "triplet"
    assert config.loss.arguments == {"margin": 0.1}
    assert (config.optim.lr, config.seed) == (1e-4, 3)


def test_another_part_drops_the_arguments_of_the_former(tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("loss: {name: multi-similarity, alpha: 2}\n")
    assert load(recipe, ["loss.name=triplet"]).loss.arguments == {}
    assert load(recipe, ["loss.name=multi-similarity"]).loss.arguments == {"alpha": 2}
    assert load(recipe, ["miner.name=hard"]).miner.name == "hard"


def test_arguments_alone_go_to_the_default_part():
    assert load(None, ["loss.alpha=3"]).loss.arguments == {"alpha": 3}
    assert load(None, ["sampler.per_class=2"]).sampler.arguments["per_class"] == 2


def test_the_batch_size_outlives_the_sampler(tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("sampler: {name: spc, batch_size: 60, per_class: 5}\n")
    assert load(recipe, ["sampler.name=random"]).sampler.arguments == {"batch_size": 60}


def test_another_network_is_not_cut_at_a_module_of_the_former(tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("model: {network: resnet50, frozen_until: layer3, dim: 64}\n")
    assert load(recipe, ["model.network=resnet50"]).model.frozen_until == "layer3"
    other = load(recipe, ["model.network=efficientnet-lite0"]).model
    assert (other.frozen_until, other.dim) == (None, 64)
    both = ["model.network=efficientnet-lite0", "model.frozen_until=blocks.4"]
    assert load(recipe, both).model.frozen_until == "blocks.4"


def test_a_recipe_extends_another(tmp_path):
    (tmp_path / "base.yaml").write_text("seed: 5\noptim: {lr: 0.1, name: sgd}\n")
    (tmp_path / "top.yaml").write_text("extends: base.yaml\noptim: {lr: 0.2}\n")
    config = load(tmp_path / "top.yaml")
    assert (config.seed, config.optim.lr, config.optim.name) == (5, 0.2, "sgd")


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("optim.lrr=1", "no key 'optim.lrr'; did you mean 'optim.lr'"),
        ("optm.lr=1", "no key 'optm'; did you mean 'optim'"),
        ("optim.lr=fast", "optim.lr = 'fast' is invalid"),
        ("optim.name=adamm", "did you mean 'adam"),
        ("model.dim=-1", "model.dim = -1 is invalid"),
        ("miner.margin=1", "'miner.name' is missing"),
        ("nonsense", "not of the form key=value"),
        ("=3", "not of the form key=value"),
    ],
)
def test_wrong_input_is_one_sentence(override, sentence):
    with pytest.raises(BadInput, match=sentence) as refused:
        load(None, [override])
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("base", ["recipe.yaml", "[a]", "3", "nowhere.yaml"])
def test_extends_must_name_another_file(tmp_path, base):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(f"extends: {base}\n")
    with pytest.raises(BadInput, match=r"\.yaml"):
        load(recipe)


def test_a_path_may_hold_what_yaml_takes_for_a_comment():
    assert str(load(None, ["runs_dir=My runs #1"]).runs_dir) == "My runs #1"


@pytest.mark.parametrize("text", ["just words", "- a\n- b", "a: [", "a: b: c"])
def test_a_file_that_is_not_a_mapping_is_refused(tmp_path, text):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(text)
    with pytest.raises(BadInput, match=r"recipe\.yaml"):
        load(recipe)


def test_places_do_not_decide_the_outcome(tmp_path):
    here = load(None, ["runs_dir=a", f"data.root={tmp_path}"])
    assert here.identity() == RunConfig().identity()
    files = [load(None, [f"model.weights={path}"]).identity() for path in ("a.pth", "./b.pth")]
    assert files[0] == files[1] != here.identity()
    assert load(None, ["seed=1"]).identity() != RunConfig().identity()


def test_keys_that_came_later_do_not_rename_old_runs():
    identity = load(None, []).identity()
    assert not {"ema", "activation_checkpointing", "loggers"} & set(identity["train"])
    assert load(None, ["train.ema=0.99"]).identity()["train"]["ema"] == 0.99
    assert "loss_weight_decay" not in load(None, ["optim.loss_weight_decay=0"]).identity()["optim"]
    decayed = load(None, ["optim.loss_weight_decay=1e-4"]).identity()["optim"]
    assert decayed["loss_weight_decay"] == 1e-4
