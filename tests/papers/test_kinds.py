"""One entry of each kind of table and figure, from its plan to its page."""

import json
import re

import pytest

from lookalike.papers.catalogue import entries, entry
from lookalike.papers.page import write_page
from lookalike.papers.plan import make_plan
from lookalike.papers.run import NEED_RUNS, page_of

KINDS = {
    "thesis/cub-resnet50-128": {},
    "thesis/cars-bn-inception-64": {},
    "thesis/years-cub-resnet50": {},
    "thesis/sizes-cub-resnet50": {},
    "thesis/in-paper-cub-resnet50": {},
    "thesis/networks": {},
    "thesis/tournament": {"step": 0.002},
    "thesis/embeddings": {"step": 0.002},
    "thesis/datasets": {},
    "thesis/cross-validation": {"repeats": 1, "folds": 10},
    "thesis/split-ratio": {},
    "thesis/grid-search": {"repeats": 1, "trials": 20},
    "thesis/fixed-validation": {},
    "thesis/our-method-cub": {},
    "thesis/projection": {"repeats": 1},
    "reality-check/printed-cub": {"folds": 4, "repeats": 2},
    "reality-check/search-cub": {"folds": 4, "repeats": 2, "trials": 6},
    "reality-check/optimization-plots-cub": {"folds": 4, "repeats": 2, "trials": 6},
    "reality-check/papers-versus-reality-cub": {"folds": 4, "repeats": 2},
    "reality-check/reality-map@r-cub": {"folds": 4, "repeats": 2},
    "roth/network-cub": {},
    "roth/weight-decay-cub": {},
    "roth/size-cub": {},
    "roth/preprocessing-cub": {},
    "roth/batch-size-cub": {},
    "roth/sampler-cub": {},
    "roth/losses-cub": {},
    "roth/correlation-cub": {},
    "roth/public-code-correlation-cub": {},
    "roth/rho-regularization-cub": {},
    "metrix/cub": {},
    "metrix/negatives": {},
    "metrix/pairs": {},
    "metrix/weight": {},
    "metrix/alpha": {},
    "metrix/layer": {},
    "metrix/embedding-space": {},
    "metrix/distances": {},
    "dr/cub": {},
    "dr/search": {"trials": 20},
    "dr/retrieval": {"repeats": 1},
    "dr/direction": {"trials": 6},
}
LARGER = re.compile(r"-(cub|cars|sop|inshop|cub-256|resnet50|bn-inception|googlenet|\d+)\b")


def test_every_kind_has_one_here():
    """An entry is of the kind of another that differs from it in data set, network or size only."""

    def kind(name):
        return re.sub(LARGER, "", name.replace("/cub", "/-cub").replace("/cars", "/-cub"))

    known = {kind(name) for name in KINDS} | {"metrix/sop", "metrix/inshop"}
    assert {kind(one.name) for one in entries().values() if not one.lists} <= known


@pytest.mark.parametrize("name", KINDS)
def test_from_the_plan_to_the_page(make_outcome, tmp_path, name):
    one, options = entry(name), KINDS[name]
    photographs = ["data.name=cub", "data.root=nowhere"] if one.photographs else []
    for scale in ("paper", "small"):
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
