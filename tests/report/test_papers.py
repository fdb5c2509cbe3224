import pytest

from lookalike.compare.contenders import gather
from lookalike.errors import BadInput
from lookalike.published import load
from lookalike.report.papers import (
    check_paper,
    paper_table,
    papers_and_reality,
    published_scores,
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
    found = {one.name: one for one in published_scores("cub", contenders)}
    assert set(found) == {"contrastive", "triplet", "circle"}
    mixed = found["circle"]  # contrastive with mixed features, as Metrix calls it
    assert [(row.paper, row.value) for row in mixed.published] == [("metrix", 67.4)]
    every = [
        row.value
        for row in load(dataset="cub", metric="recall@1")
        if row.method in ("contrastive", "contrastive-baseline") and row.value is not None
        if row.part == "test"
    ]
    assert (found["contrastive"].low, found["contrastive"].high) == (min(every), max(every))
    assert published_scores("glyphs", contenders) == []


def test_our_rows_in_the_papers_table(contenders):
    table = paper_table("metrix", "cub", contenders)
    printed = [row for row in load("metrix", "cub") if row.metric == "recall@1"]
    theirs = [row for row in table.rows if not row.ours]
    assert [row.scores["recall@1"] for row in theirs] == [
        pytest.approx(row.value / 100) for row in printed
    ]
    assert [row.label for row in table.rows if row.ours] == [
        "contrastive (ours)", "triplet (ours)", "circle (ours)",
    ]  # fmt: skip
    said = {(flaw.kind, flaw.condition) for flaw in table.audit.flaws}
    assert {("differs", "network"), ("differs", "dim"), ("differs", "image_size")} <= said
    assert ("not said", "seeds") in said
    words = next(f.sentence for f in table.audit.flaws if f.condition == "network")
    assert words.endswith("small-cnn (our rows).")
    assert paper_table("metrix", "glyphs", contenders) is None


def test_papers_that_say_nothing_are_refused():
    with pytest.raises(BadInput, match="'metrix' reports nothing about glyphs; it has cars, cub"):
        check_paper("metrix", ["glyphs"])
    with pytest.raises(BadInput, match="did you mean 'metrix'"):
        check_paper("metrics", ["cub"])


def test_every_table_can_take_our_rows(contenders):
    for paper in ("thesis", "metrix", "dr", "reality-check"):
        table = paper_table(paper, "cub", contenders)
        labels = [row.label for row in table.rows]
        assert len(labels) == len(set(labels)) > 3, paper


def test_reality_has_the_years_of_papers_and_of_methods(contenders):
    found = papers_and_reality("cub", contenders)
    lifted = [one for one in found.reported if "Lifted Structured" in one.paper]
    assert {(one.method, one.year, one.score) for one in lifted} == {
        ("contrastive", 2016, 0.264), ("triplet", 2016, 0.361),
    }  # fmt: skip
    assert {one.name: one.year for one in found.tested} == {
        "contrastive": 2006, "triplet": 2009, "circle": 2006,
    }  # fmt: skip
    assert papers_and_reality("glyphs", contenders) is None
