import copy
from contextlib import suppress
from functools import reduce
from pathlib import Path

import pytest

from lookalike.compare.audit import CONDITIONS, Experiment, audit
from lookalike.compare.conditions import conditions_of, describe, read_description
from lookalike.config import load
from lookalike.config.loading import plain_yaml
from lookalike.errors import BadInput

AUDITS = Path(__file__).parents[2] / "docs" / "audits"

FAIR = dict.fromkeys(CONDITIONS, "as in all rows") | {
    "network": "resnet50",
    "bn_frozen": True,
    "lr": 1e-4,
    "selection": "validation",
    "trials": 20,
    "seeds": 5,
    "extra_data": "none",
}


def found(name):
    """Kind and condition of every flaw, without what is merely not said."""
    flaws = audit(read_description(AUDITS / f"{name}.yaml").experiments).flaws
    return {(flaw.kind, flaw.condition) for flaw in flaws if flaw.kind != "not said"}


BLIND = {("weak", "selection"), ("weak", "seeds")}  # as the seed says of all of these papers


NETWORK, DIM, CROP = ("differs", "network"), ("differs", "dim"), ("differs", "transform")
OTHER_CROP = ("undisclosed", "transform")
UNFAIR = {
    "sampling-matters": {NETWORK, DIM},
    "hierarchical-triplet": {NETWORK, DIM},
    "multi-similarity": {NETWORK, CROP, OTHER_CROP, ("omitted", "bn_frozen")},
    "learning-to-rank": {NETWORK},
    "divide-and-conquer": {NETWORK, OTHER_CROP},
    "soft-triple": {NETWORK, ("omitted", "network"), OTHER_CROP},
    "tuplet-margin": {NETWORK, DIM},
    "ranked-list": {DIM},
    "mic": {CROP, OTHER_CROP},
    "proxy-anchor": {("differs", "pooling"), ("omitted", "pooling"), OTHER_CROP},
    "horde": {("differs", "image_size")},
}


@pytest.mark.parametrize(("paper", "flaws"), UNFAIR.items())
def test_the_reality_checks_examples_of_unfair_comparisons(paper, flaws):
    assert found(paper) == flaws | BLIND
    assert audit(read_description(AUDITS / f"{paper}.yaml").experiments).verdict == "unfair"


def test_every_example_is_tested():
    tested = {"reality-check", "every-flaw", *UNFAIR}
    assert {path.stem for path in AUDITS.glob("*.yaml")} == tested


def test_all_flaws_of_a_bad_comparison_are_found():
    same = {"data", "weights"}
    assert found("every-flaw") == {
        *(("differs", key) for key in CONDITIONS if key not in same),
        ("selected on test", "selection"),
        ("undisclosed", "transform"),
        ("omitted", "pooling"),
        ("weak", "selection"),
        ("weak", "seeds"),
    }


def test_a_fair_comparison_has_no_flaw():
    assert audit(read_description(AUDITS / "reality-check.yaml").experiments).flaws == ()
    rows = [Experiment(name, FAIR) for name in "abc"]
    assert audit(rows).flaws == ()
    assert audit(rows).verdict == "fair"


@pytest.mark.parametrize("key", CONDITIONS)
def test_each_condition_alone_is_found_and_missed(key):
    other = "something else" if key != "seeds" else 7
    (flaw,) = audit([Experiment("a", FAIR), Experiment("b", {**FAIR, key: other})]).flaws
    assert (flaw.kind, flaw.condition, flaw.rows) == ("differs", key, ("a", "b"))
    rest = {name: value for name, value in FAIR.items() if name != key}
    result = audit([Experiment("a", FAIR), Experiment("b", rest)])
    quiet = key in ("steps", "lr", "weight_decay", "schedule", "protocol")
    assert result.verdict == ("fair" if quiet else "cannot be told")
    assert {flaw.rows for flaw in result.flaws} == (set() if quiet else {("b",)})


def test_spellings_of_one_thing_are_equal():
    other = {**FAIR, "network": "ResNet-50", "lr": 0.0001, "bn_frozen": "yes"}
    assert audit([Experiment("a", FAIR), Experiment("b", other)]).fair


def test_tuned_for_all_is_fair_and_tuned_for_some_is_not():
    low, high = FAIR | {"lr": 1e-5}, FAIR | {"lr": 1e-3}
    tuned = frozenset({"lr"})
    assert audit([Experiment("a", low, tuned=tuned), Experiment("b", high, tuned=tuned)]).fair
    (flaw,) = audit([Experiment("a", low, tuned=tuned), Experiment("b", high)]).flaws
    assert flaw.sentence == "Learning rate: tuned for a and fixed for b."


def test_a_baseline_answers_only_for_what_comes_before_training():
    bare = {key: FAIR[key] for key in ("data", "network", "weights", "transform", "image_size")}
    bare["extra_data"] = "none"
    rows = [Experiment("a", FAIR), Experiment("b", FAIR), Experiment("raw", bare, trained=False)]
    assert audit(rows).flaws == ()
    rows[2] = Experiment("raw", {**bare, "network": "vit"}, trained=False)
    assert [flaw.condition for flaw in audit(rows).flaws] == ["network"]


def test_marks_point_at_the_flaws_of_a_row():
    rows = [Experiment("a", FAIR), Experiment("b", {**FAIR, "seeds": 1})]
    result = audit(rows)
    assert [flaw.kind for flaw in result.flaws] == ["differs", "weak"]
    assert (result.marks("a"), result.marks("b")) == ([1], [1, 2])


def test_outdated_rows_are_said_and_marked_but_not_unfair():
    why = "the loss was another"
    rows = [
        Experiment("a", FAIR),
        Experiment("b", FAIR, outdated=why),
        Experiment("c", FAIR, outdated=why),
        Experiment("d", FAIR, outdated="narrower range"),
    ]
    result = audit(rows)
    assert [flaw.sentence for flaw in result.flaws] == [
        "Outdated until trained again (b and c): the loss was another.",
        "Outdated until trained again (d): narrower range.",
    ]
    assert result.fair
    assert [result.marks(name) for name in "abcd"] == [[], [1], [1], [2]]


def test_one_seed_on_folds_is_told_from_one_training():
    once = FAIR | {"seeds": 1}
    rows = [Experiment("a", once, folds=4), Experiment("b", once)]
    assert [(flaw.rows, flaw.sentence) for flaw in audit(rows).flaws] == [
        (("b",), "Only one training run, so no interval, for b."),
        (
            ("a",),
            "Only one seed for a: ± is the standard deviation over the models of the "
            "folds, not a confidence interval over seeds.",
        ),
    ]


def test_many_names_are_shortened():
    rows = [Experiment(f"m{i}", {**FAIR, "seeds": 1}) for i in range(9)]
    rows.append(Experiment("x", FAIR))
    assert "m0, m1, m2, m3, m4 and 4 more" in audit(rows).flaws[0].sentence


TWO = {"experiments": [{"name": "a"}, {"name": "b"}]}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"experiments": [{"name": "a"}]}, "at least two"),
        ({"experimnts": []}, "did you mean 'experiments'"),
        ({"experiments": [{"name": "a"}, {"name": "a"}]}, "called 'a'"),
        ({"experiments": [{"name": "a"}, {"network": "x"}]}, "experiment 2 has no name"),
        ({"experiments": [{"name": "a"}, {"name": "b", "netwrk": "x"}]}, "mean 'network'"),
        ({"experiments": [{"name": "a"}, {"name": "b", "dim": "big"}]}, "whole number"),
        ({"experiments": [{"name": "a"}, {"name": "b", "selection": "tets"}]}, "mean 'test'"),
        ({"experiments": [{"name": "a"}, {"name": "b", "omits": "dim"}]}, "must be a list"),
        ({"experiments": [{"name": "a"}, {"name": "b", "omits": ["dmi"]}]}, "mean 'dim'"),
        ({"experiments": [{"name": "a"}, {"name": "b", "score": "high"}]}, "must be a number"),
        ({"experiments": [{"name": "a"}, 3]}, "keys and values"),
        (TWO | {"same": {"dim": [1]}}, "whole number"),
        (TWO | {"same": {"network": [1]}}, "one value"),
    ],
)
def test_bad_descriptions(values, words):
    with pytest.raises(BadInput, match=words):
        describe(values, "paper.yaml")


def places(values, path=()):
    """The path of every value in nested lists and mappings."""
    if isinstance(values, dict | list):
        for key, value in values.items() if isinstance(values, dict) else enumerate(values):
            yield (*path, key)
            yield from places(value, (*path, key))


ODD = [None, True, 7, 0.5, float("nan"), 10**400, "x", [], [{}], [[]], {}, {"a": {}}, {7: 1}]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd)[:10])
def test_values_of_any_type_are_read_or_refused(odd):
    whole = plain_yaml(AUDITS / "every-flaw.yaml")
    for path in [("added",), (odd,), *places(whole)]:
        if isinstance(path[0], dict | list):
            continue  # no key of a mapping
        values = copy.deepcopy(whole)
        *above, last = path
        reduce(lambda inner, key: inner[key], above, values)[last] = odd
        with suppress(BadInput):
            audit(describe(values, "odd.yaml").experiments)


def test_keys_without_effect_make_no_comparison_unfair():
    def rows(*pairs):
        return [Experiment(name, conditions_of(load(None, given))) for name, *given in pairs]

    orders = [(order, f"protocol.order={order}") for order in ("sequential", "random")]
    assert not [flaw for flaw in audit(rows(*orders)).flaws if flaw.kind == "differs"]
    folds = [(*one, "protocol.name=cross-validation") for one in orders]
    (flaw,) = [flaw for flaw in audit(rows(*folds)).flaws if flaw.kind == "differs"]
    assert flaw.condition == "protocol"
    frozen = ["model.frozen=true", "model.weights=imagenet"]
    norms = [("a", *frozen), ("b", *frozen, "model.freeze_bn_affine=true")]
    assert not [flaw for flaw in audit(rows(*norms)).flaws if flaw.kind == "differs"]


def test_a_run_on_all_classes_has_conditions():
    assert conditions_of(load(None, ["protocol.name=all"]))["protocol"] == "all"
