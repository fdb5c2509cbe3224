"""One entry of each kind of table and figure, from its plan to its page."""

import json
import re

import pytest

from lookalike.papers.catalogue import entries, entry
from lookalike.papers.page import write_page
from lookalike.papers.plan import make_plan
from lookalike.papers.run import NEED_RUNS, page_of

KINDS = {
    "thesis/cub-resnet50-128": ("paper", {}),
    "thesis/years-cub-resnet50": ("small", {}),
    "thesis/sizes-cub-resnet50": ("paper", {}),
    "thesis/in-paper-cub-resnet50": ("paper", {}),
    "thesis/tournament": ("small", {"step": 0.002}),
    "thesis/embeddings": ("paper", {"step": 0.002}),
    "thesis/datasets": ("small", {}),
    "thesis/cross-validation": ("paper", {"repeats": 1, "folds": 10}),
    "thesis/split-ratio": ("small", {}),
    "thesis/grid-search": ("paper", {"repeats": 1, "trials": 20}),
    "thesis/projection": ("small", {"repeats": 1}),
    "reality-check/search-cub": ("small", {"folds": 4, "repeats": 2, "trials": 6}),
    "reality-check/papers-versus-reality-cub": ("paper", {"folds": 4, "repeats": 2}),
    "reality-check/reality-map@r-cub": ("small", {"folds": 4, "repeats": 2}),
    "roth/preprocessing-cub": ("small", {}),
    "roth/losses-cub": ("paper", {}),
    "roth/public-code-correlation-cub": ("small", {}),
    "metrix/cub": ("paper", {}),
    "metrix/negatives": ("small", {}),
    "metrix/distances": ("paper", {}),
    "dr/retrieval": ("small", {"repeats": 1}),
}
"""An entry of each kind of figure, of claims and of a study, with its scale."""


@pytest.mark.parametrize("name", KINDS)
def test_from_the_plan_to_the_page(make_outcome, tmp_path, name):
    one, (scale, options) = entry(name), KINDS[name]
    photographs = ["data.name=cub", "data.root=nowhere"] if one.photographs else []
    plan = make_plan(one, scale, photographs if scale == "small" else [])
    assert plan.trainings > 0
    assert json.loads(json.dumps(plan.as_mapping()))["rows"]
    outcome = make_outcome(name, plan.scale, **options)
    path = write_page(page_of(plan, tmp_path), outcome)[0]
    text = path.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    figures = json.loads(found[1])["figures"]
    drawn = [figure for key, figure in figures.items() if key.startswith("chart-")]
    shown = {figure.kind for figure in one.figures}
    if shown & set(NEED_RUNS):
        assert "Not drawn: " in text  # without runs it says why there is nothing
    if charted := shown - set(NEED_RUNS) - {"tuning"}:
        collapsed = scale == "small" and one.axes and not plan.rows[0].axes
        assert drawn or collapsed, charted
    assert all(trace["x"] for figure in drawn for trace in figure["data"])
    if "tuning" in shown:
        assert any(key.startswith("history-") for key in figures)
    tables = re.findall(r'<table class="results">.*?</table>', text, re.S)
    rows = re.findall(r'<tr[^>]*><th scope="row">', tables[0])
    assert len(rows) == len(outcome.rows) + len(outcome.baselines)
    for claim in outcome.claims:
        assert claim.evidence


def test_every_kind_of_figure_is_here():
    shown = {figure.kind for name in KINDS for figure in entry(name).figures}
    assert shown == {figure.kind for one in entries().values() for figure in one.figures}
