import pytest

from lookalike.compare.contenders import gather
from lookalike.errors import BadInput
from lookalike.published import load
from lookalike.report.charts import method_styles
from lookalike.report.papers import (
    check_paper,
    paper_table,
    published_table,
    reality_charts,
)


@pytest.fixture(scope="module")
def contenders(make_study, tmp_path_factory):
    methods = {"contrastive": 0.6, "triplet": 0.61, "circle": 0.62}
    mixed = {"circle": {"loss": {"name": "contrastive"}, "mix": {"where": "feature"}}}
    folder = make_study(
        tmp_path_factory.mktemp("s") / "s", methods, datasets=("cub",), changes=mixed
    )
    return gather([folder]).contenders


def test_published_numbers_stand_beside_the_same_method(contenders):
    table = published_table("cub", contenders)
    assert {row.name for row in table.rows} == {"contrastive", "triplet", "circle"}
    mixed = table.cell("circle", "where").more  # contrastive with mixed features, as in Metrix
    assert [one.partition(",")[0] for one in mixed] == ["67.4: metrix"]
    every = [
        row.value
        for row in load(dataset="cub", metric="recall@1")
        if row.method in ("contrastive", "contrastive-baseline") and row.value is not None
        if row.part == "test"
    ]
    span = f"{min(every):.1f} to {max(every):.1f}"
    assert table.cell("contrastive", "published").text == span
    assert published_table("glyphs", contenders) is None


def test_our_rows_in_the_papers_table(contenders):
    found = paper_table("metrix", "cub", contenders)
    table = found.table
    printed = [row for row in load("metrix", "cub") if row.metric == "recall@1"]
    theirs = [row.name for row in table.rows if row.kind != "ours"]
    shown = [table.cell(name, "recall@1").text for name in theirs]
    assert shown == [f"{row.value:.1f}" for row in printed]
    assert [row.name for row in table.rows if row.kind == "ours"] == [
        "contrastive (ours)", "triplet (ours)", "circle (ours)",
    ]  # fmt: skip
    said = {(flaw.kind, flaw.condition) for flaw in found.audit.flaws}
    assert {("differs", "network"), ("differs", "dim"), ("differs", "image_size")} <= said
    assert ("not said", "seeds") in said
    words = next(f.sentence for f in found.audit.flaws if f.condition == "network")
    assert words.endswith("small-cnn (our rows).")
    assert paper_table("metrix", "glyphs", contenders) is None


def test_papers_that_say_nothing_are_refused():
    with pytest.raises(BadInput, match="'metrix' reports nothing about glyphs; it has cars, cub"):
        check_paper("metrix", ["glyphs"])
    with pytest.raises(BadInput, match="did you mean 'metrix'"):
        check_paper("metrics", ["cub"])


def test_every_table_can_take_our_rows(contenders):
    for paper in ("thesis", "metrix", "dr", "reality-check"):
        table = paper_table(paper, "cub", contenders).table
        labels = [row.name for row in table.rows]
        assert len(labels) == len(set(labels)) > 3, paper


def test_reality_has_the_years_of_papers_and_of_methods(contenders):
    styles = method_styles(contenders)
    reported, tested = reality_charts("cub", contenders, styles)
    lifted = {
        (trace.name, x, y)
        for trace in reported.figure.data
        for x, y, text in zip(trace.x, trace.y, trace.text, strict=True)
        if "Lifted Structured" in text
    }
    assert lifted == {("contrastive", 2016, 26.4), ("triplet", 2016, 36.1)}
    years = {trace.name: trace.x[0] for trace in tested.figure.data}
    assert years == {"contrastive": 2006, "triplet": 2009, "circle": 2006}
    assert reported.figure.layout.yaxis.range == tested.figure.layout.yaxis.range
    assert reality_charts("glyphs", contenders, styles) == []
