"""The page of a reproduction in a real Chromium: it says what it must, and nothing complains."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from lookalike.compare.contenders import ModelScores
from lookalike.config import RunConfig
from lookalike.errors import BadInput
from lookalike.papers.catalogue import entry
from lookalike.papers.charts import by_axis, distance_charts
from lookalike.papers.page import beside, write_list_page, write_page
from lookalike.papers.tables import list_table
from lookalike.runs.run import test_embeddings as embeddings_of

PAGES = {
    "thesis/tournament": {"step": 0.002},
    "thesis/cross-validation": {"repeats": 1, "folds": 10},
    "thesis/years-cub-resnet50": {},
    "reality-check/papers-versus-reality-cub": {"folds": 4, "repeats": 2},
    "roth/sampler-cub": {"scale": "small"},
    "roth/rho-regularization-cub": {"scale": "small"},
    "dr/search": {"trials": 20},
}


def data_of(path):
    text = path.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return json.loads(found[1])


def written(tmp_path, outcome):
    return write_page(tmp_path / "page.html", outcome)[0]


def look(browser, path, width, scheme="light"):
    """Everything that the browser complained about, the width, and how many charts were drawn."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )
    complaints = []
    tab = context.new_page()
    tab.on("console", lambda m: complaints.append(m.text) if m.type in LOUD else None)
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("request", lambda r: None if r.url.startswith(LOCAL) else complaints.append(r.url))
    tab.goto(path.as_uri())
    charts = tab.locator("[id^=chart-]")
    for at in range(charts.count()):
        charts.nth(at).scroll_into_view_if_needed()
        tab.wait_for_selector(f"#{charts.nth(at).get_attribute('id')} .main-svg")
    tab.locator("#theme").click()
    wide = tab.evaluate("document.documentElement.scrollWidth")
    clipped = tab.evaluate(CLIPPED)
    found = charts.count()
    context.close()
    assert complaints == []
    assert wide <= width
    assert not clipped or width < 1280
    return found


CLIPPED = """() => {
  document.querySelectorAll("details").forEach((one) => { one.open = true; });
  const tables = [...document.querySelectorAll(".wide")];
  return tables.some((one) => one.scrollWidth > one.clientWidth);
}"""
"""Whether a table is wider than its place."""
LOUD = ("error", "warning")
LOCAL = ("file:", "data:", "blob:")


@pytest.mark.parametrize("name", PAGES)
def test_every_figure_is_drawn_without_complaint(browser, make_outcome, tmp_path, name):
    path = written(tmp_path, make_outcome(name, **PAGES[name]))
    drawn = len([key for key in data_of(path)["figures"] if key.startswith("chart-")])
    assert look(browser, path, 1280) == drawn
    assert look(browser, path, 390, "dark") == drawn


def test_error_bars_end_where_scores_do(make_outcome):
    outcome = make_outcome("thesis/split-ratio")
    row = outcome.rows[0]
    values = (0.9, 0.99, 1.0)
    scores = tuple(ModelScores(n, 0, {"recall@1": value}) for n, value in enumerate(values))
    wide = replace(row, contender=replace(row.contender, scores=scores))
    rows = (wide, *outcome.rows[1:])
    line = by_axis(rows, "ratio", "method", "recall@1")[0].figure.data[0]
    assert line.y[0] + line.error_y.array[0] == pytest.approx(100)
    assert line.y[0] - line.error_y.arrayminus[0] < 85


def test_the_first_lines_say_what_differs_and_whether_the_claim_held(make_outcome, tmp_path):
    outcome = make_outcome("metrix/cub", scale="small")
    text = written(tmp_path, outcome).read_text(encoding="utf-8")
    lead = text[text.index("<h1>") : text.index('id="published-and-ours"')]
    assert "Small scale." in lead
    assert "It Takes Two to Tango" in lead
    assert "metrix/cub" in lead
    assert outcome.deviations[1] in lead
    for claim in outcome.claims:
        assert claim.says in lead
    assert text.count("small scale</span>") >= 2 + len(outcome.entry.figures)
    plain = written(tmp_path, make_outcome("metrix/cub")).read_text(encoding="utf-8")
    assert 'class="banner"' not in plain
    assert 'class="scale"' not in plain


WIDE, NARROW = ("yes", "generalizes"), ("yes", "this test set")


@pytest.mark.parametrize(
    ("verdicts", "sentence"),
    [
        ([WIDE], "Yes: the claim held (other test classes too)."),
        ([NARROW], "Yes: the claim held (this test set only)."),
        ([("no", "these training runs")], "No: the claim did not hold (these training runs only)."),
        ([("not shown", "")], "Not shown: the intervals do not decide the claim."),
        (
            [WIDE, NARROW, ("no", "generalizes"), ("not shown", "")],
            "Of 4 claims 1 held (other test classes too), 1 held (this test set only), "
            "1 did not hold (other test classes too), 1 could not be decided.",
        ),
        ([], "The document makes no claim that this table or figure could decide."),
    ],
)
def test_the_verdict_in_one_sentence(make_outcome, tmp_path, verdicts, sentence):
    outcome = make_outcome("metrix/cub")
    claims = tuple(
        replace(outcome.claims[0], verdict=verdict, scope=scope) for verdict, scope in verdicts
    )
    text = written(tmp_path, replace(outcome, claims=claims)).read_text(encoding="utf-8")
    assert sentence in text


def test_the_published_numbers_are_judged_beside_ours(make_outcome, tmp_path):
    outcome = make_outcome("thesis/cub-bn-inception-64", scale="small", classes=True)
    text = written(tmp_path, outcome).read_text(encoding="utf-8")
    table = text[text.index('<table class="verdicts">') : text.index("Points of Recall@1")]
    assert "In the published numbers</th>" in table
    assert table.count("no, they contradict it") == 2
    assert "Said of the network, over four sizes." in table
    assert "over 20 test classes too" in table
    silent = written(tmp_path, make_outcome("roth/sampler-cub")).read_text(encoding="utf-8")
    assert "none are printed" in silent


def test_an_untrained_network_above_every_row_is_in_the_first_lines(make_outcome, tmp_path):
    outcome = make_outcome("thesis/cub-resnet50-64", step=-0.02, base=0.9)
    text = written(tmp_path, outcome).read_text("utf-8")
    lead = text[text.index("<h1>") : text.index('id="published-and-ours"')]
    assert "Higher in Recall@1 than every trained row: raw features of the untrained" in lead


def test_content_is_escaped_and_nothing_is_fetched(browser, make_outcome, tmp_path):
    outcome = make_outcome("metrix/alpha", keep=5)
    bad = "</script><img src=x onerror=alert(1)>"
    rows = [replace(row, method=bad) for row in outcome.rows]
    outcome = replace(
        outcome,
        rows=tuple(rows),
        deviations=(bad,),
        unfinished=(bad,),
        claims=(),
        command=bad,
        open_questions=(bad,),
    )
    path = written(tmp_path, outcome)
    assert bad not in path.read_text(encoding="utf-8")
    look(browser, path, 1280)


def test_rows_that_are_not_finished_are_named(make_outcome, tmp_path):
    outcome = replace(make_outcome("metrix/cub"), rows=(), gathered=None)
    outcome = replace(outcome, unfinished=("contrastive-input",))
    text = written(tmp_path, outcome).read_text(encoding="utf-8")
    assert "contrastive-input" in text
    assert "No row has a test score yet." in text


def test_a_page_ends_in_html(make_outcome, tmp_path):
    with pytest.raises(BadInput, match=r"must end in \.html"):
        write_page(tmp_path / "page.txt", make_outcome("metrix/cub"))


@pytest.mark.parametrize("name", ["claimed-gains", "hyperparameters", "unfair-crop-method"])
def test_lists_are_pages_too(browser, name, tmp_path):
    one = entry(f"reality-check/{name}")
    path = write_list_page(tmp_path / "page.html", one, "a command")[0]
    text = path.read_text(encoding="utf-8")
    assert "nothing was trained" in text
    assert text.count("<tr>") == len(list_table(one.lists).rows) + 1
    look(browser, path, 1280)
    look(browser, path, 390)


@pytest.fixture(scope="module")
def two_runs(make_run):
    return [make_run("plain", noise=1.4).run, make_run("with", noise=0.7).run]


def test_two_methods_answer_the_same_queries(two_runs):
    first, second = map(embeddings_of, two_runs)
    found = beside(("plain", "with"), first, second, RunConfig())
    assert sum(one["count"] for one in found["groups"]) == found["queries"] == len(first.labels)
    right = []
    for tested in (first, second):
        unit = torch.nn.functional.normalize(tested.embeddings)
        similarity = (unit @ unit.T).fill_diagonal_(-2)
        right.append(tested.labels[similarity.argmax(1).numpy()] == tested.labels)
    both = [right[0] & right[1], ~right[0] & right[1], right[0] & ~right[1], ~right[0] & ~right[1]]
    assert [group["count"] for group in found["groups"]] == [int(one.sum()) for one in both]
    for group in found["groups"]:
        for one, other in group["strips"]:
            assert one.position == other.position
            assert len(one.neighbours) == len(other.neighbours) == 5
            assert one.position not in {near.position for near in one.neighbours}
    assert {s.position for g in found["groups"] for s, _ in g["strips"]} <= set(found["shots"])


def test_methods_on_other_images_are_not_compared(two_runs):
    first, second = map(embeddings_of, two_runs)
    other = replace(second, embeddings=second.embeddings[1:], indices=second.indices[1:])
    with pytest.raises(BadInput, match="different images"):
        beside(("a", "b"), first, other, RunConfig())


def test_histograms_of_clean_and_mixed_pairs_have_an_area_of_one(two_runs):
    charts = distance_charts("plain", embeddings_of(two_runs[0]))
    assert [chart.title for chart in charts] == ["plain: clean pairs", "plain: mixed pairs"]
    for chart in charts:
        for one in chart.figure.data:
            width = 2 / len(one.x)  # of distances from 0 to 2
            assert sum(one.y) * width == pytest.approx(1, abs=1e-3)
    means = [np.average(one.x, weights=one.y) for one in charts[0].figure.data]
    assert means[0] < means[1]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("dr/retrieval", "retrieval"),
        ("metrix/distances", "distances"),
        ("thesis/projection", "projection"),
    ],
)
def test_pages_with_embeddings(browser, make_outcome, two_runs, tmp_path, name, kind):
    folders = [[run.folder] for run in (*two_runs, *two_runs)]
    outcome = make_outcome(name, scale="small", runs=folders, keep=2)
    path = written(tmp_path, outcome)
    text = path.read_text(encoding="utf-8")
    assert "Not drawn" not in text
    if kind == "retrieval":
        assert text.count('class="shot') > 50
    elif kind == "projection":
        assert data_of(path)["maps"]["0"]["layouts"]
    else:
        assert [key for key in data_of(path)["figures"] if key == "chart-3"]
    look(browser, path, 1280)
    look(browser, path, 390)


def test_figures_without_runs_say_why(make_outcome, tmp_path):
    text = written(tmp_path, make_outcome("metrix/distances")).read_text(encoding="utf-8")
    assert "Not drawn: its runs were not kept" in text
