"""The scripts of examples/methods: each runs, learns something and says what is not the paper's."""

import ast
import re
import runpy
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[2] / "examples" / "methods").glob("*.py"))
QUICK = {"cross_batch_memory", "proxy_anchor", "triplet_semi_hard"}
REQUIRED = {
    "arcface",
    "batch_samplers",
    "contrastive",
    "cross_batch_memory",
    "direction_triplet",
    "lifted_structure",
    "margin",
    "metrix_embed",
    "multi_similarity",
    "n_pairs",
    "proxy_anchor",
    "proxy_nca",
    "proxy_to_proxy",
    "rho_margin",
    "soft_triple",
    "triplet_semi_hard",
}


def test_every_method_has_a_script():
    assert {path.stem for path in SCRIPTS} >= REQUIRED


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_is_short_and_says_what_is_not_the_papers(script):
    text = script.read_text(encoding="utf-8")
    assert 40 <= len(text.splitlines()) <= 110
    docstring = ast.get_docstring(ast.parse(text))
    assert all(f"\n{part}: " in docstring for part in ("Paper", "As in the paper"))
    assert "\nNot the paper's: " in docstring


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(path, id=path.stem, marks=[] if path.stem in QUICK else [pytest.mark.slow])
        for path in SCRIPTS
    ],
)
def test_a_script_learns(script, capsys):
    """Recall@1 on characters that were not seen is higher after training, by a wide margin."""
    runpy.run_path(str(script), run_name="__main__")
    printed = capsys.readouterr().out
    (before,) = re.findall(r"Recall@1 before (\S+)", printed)
    after = re.findall(r"after (\S+)", printed)
    assert after
    assert all(float(value) > float(before) + 0.05 for value in after)
