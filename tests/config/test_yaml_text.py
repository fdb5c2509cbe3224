"""YAML from anywhere: one sentence for what is not plain settings, and no code."""

import pytest

from lookalike.config import load
from lookalike.config.yaml_text import parse_yaml
from lookalike.errors import BadInput
from lookalike.shipped import shipped_folder


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
        ("a: 1\nb: 2\na: 3", "the key 'a' is there twice"),
        ("seed: 2020-01-31", "seed = '2020-01-31' is invalid"),
        ("sampler: {batch_size: !!binary aGVsbG8=}", "could not determine a constructor"),
        ("sampler: {batch_size: !!set {a, b}}", "could not determine a constructor"),
        ("seed: " + "9" * 6000, "digits"),
        ("seed: 9223372036854775808", "the number 9223372036854775808 has more than 64 bits"),
        ("data: {transform: {size: 1" + "0" * 90 + "}}", "has more than 64 bits"),
        ("data: {transform: {size: 1000000}}", "less than or equal to 16384"),
        ("model: {dim: 9223372036854775807}", "less than or equal to 1000000"),
        ("x: !!python/object/apply:os.mkdir [{folder}]", "could not determine a constructor"),
        ("x: !!python/name:os.system ''", "could not determine a constructor"),
        ("a: \0", "special characters"),
        ('extends: "\\ud800"', "surrogates not allowed"),
        ('"\\ud800": 1', "surrogates not allowed"),
        ('extends: "a\\0b"', "the character NUL"),
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


def test_merge_keys_are_not_keys_twice():
    found = parse_yaml("a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3}\nc: {<<: *a, y: 5}")
    assert found["b"] == {"x": 3, "y": 2}
    assert found["c"] == {"x": 1, "y": 5}


def test_a_sentence_repeats_no_huge_value(tmp_path):
    with pytest.raises(BadInput) as refused:
        load(None, ["model.dim=" + "x" * 10**6])
    assert len(str(refused.value)) < 500


def test_every_file_that_comes_with_the_package_can_be_read():
    for folder in ("recipes", "docs/audits"):
        for path in shipped_folder(folder).rglob("*.yaml"):
            assert parse_yaml(path.read_text(encoding="utf-8"))
