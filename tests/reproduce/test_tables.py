"""The table of a reproduction in its four forms."""

import csv
import io

import pytest
from rich.console import Console

from lookalike.reproduce.tables import as_csv, as_latex, as_markdown, as_text, result_table


def text_of(table):
    console = Console(width=200, file=io.StringIO())
    console.print(as_text(table))
    return console.file.getvalue()


def test_published_ours_and_difference_stand_side_by_side(make_outcome):
    outcome = make_outcome("metrix/cub")
    table = result_table(outcome)
    kinds = [(c.metric, c.what) for c in table.columns[:3]]
    assert kinds == [("recall@1", w) for w in ("published", "ours", "difference")]
    row = outcome.rows[0]
    published, ours, difference = table.rows[0].cells[:3]
    assert published == (f"{row.published['recall@1'].value:.1f}", "")
    score = row.ours["recall@1"]
    assert ours == (f"{100 * score.mean:.1f}", f"{100 * score.half:.1f}")
    expected = 100 * score.mean - row.published["recall@1"].value
    assert float(difference[0].replace("−", "-")) == pytest.approx(expected, abs=0.051)
    assert row.difference("recall@1") == pytest.approx(expected / 100)
    assert [at for at, one in enumerate(table.rows) if 1 in one.best] == [
        max(range(12), key=lambda at: round(outcome.rows[at].ours["recall@1"].mean, 3))
    ]


def test_quoted_numbers_stand_beside(make_outcome):
    table = result_table(make_outcome("thesis/in-paper-cub-resnet50"))
    assert [c.what for c in table.columns[:4]] == ["in paper", "published", "ours", "difference"]
    assert {row.method: row.cells[0][0] for row in table.rows if row.trained} == {
        "margin": "63.6",
        "generalized-lifted-structure": "43.6",
        "triplet": "42.6",
    }
    assert any(note.startswith("In paper, by network: margin resnet50, ") for note in table.notes)
    default = result_table(make_outcome("thesis/fixed-validation"))
    assert default.columns[0].what == "authors' default setup"
    assert "average rank" not in str(result_table(make_outcome("thesis/tournament")).columns)


def test_folds_have_a_deviation_and_a_concatenated_score(make_outcome):
    outcome = make_outcome("thesis/cross-validation", repeats=1, folds=10)
    table = result_table(outcome)
    whats = [c.what for c in table.columns if c.metric == "recall@1"]
    assert whats == ["published", "ours", "difference", "concatenated"]
    row = outcome.rows[0]
    assert row.ours["recall@1"].over == "folds"
    assert table.rows[0].cells[1][1] == f"{100 * row.ours['recall@1'].sd:.1f}"
    assert row.published["recall@1"].spread is not None
    assert table.rows[0].cells[0][1] == f"{row.published['recall@1'].spread:.1f}"
    assert any("not a confidence interval" in note for note in table.notes)


def test_split_ratios_have_validation_columns(make_outcome):
    table = result_table(make_outcome("thesis/split-ratio"))
    whats = [c.what for c in table.columns if c.metric == "recall@1"]
    assert whats[-2:] == ["published validation", "our validation"]
    assert table.axes == ("ratio",)


def test_small_scale_is_said_everywhere(make_outcome):
    outcome = make_outcome("metrix/alpha", scale="small")
    table = result_table(outcome)
    for text in (text_of(table), as_markdown(table), as_latex(table)):
        assert "SMALL SCALE" in text
    lines = list(csv.DictReader(io.StringIO(as_csv(outcome))))
    assert {line["scale"] for line in lines} == {"small"}
    assert "SMALL SCALE" not in as_markdown(result_table(make_outcome("metrix/cub")))


def test_measures_of_structure_are_no_percentages(make_outcome):
    outcome = make_outcome("metrix/embedding-space")
    table = result_table(outcome)
    at = [c.metric for c in table.columns].index("uniformity")
    assert table.rows[0].cells[at][0] == f"{outcome.rows[0].ours['uniformity'].mean:.3f}"


def test_the_csv_has_all_digits(make_outcome):
    outcome = make_outcome("metrix/cub")
    lines = list(csv.DictReader(io.StringIO(as_csv(outcome))))
    first, row = lines[0], outcome.rows[0]
    assert (first["method"], first["metric"]) == ("contrastive-baseline", "recall@1")
    assert float(first["ours"]) == row.ours["recall@1"].mean
    assert float(first["published"]) == row.published["recall@1"].value / 100
    assert float(first["difference"]) == row.difference("recall@1")
    assert first["recipe"] == "metrix/cub/contrastive-baseline"


def test_rows_without_published_numbers_say_so(make_outcome):
    table = result_table(make_outcome("roth/sampler-cub"))
    assert "The document prints no numbers for these rows." in table.notes
    assert all(column.what == "" for column in table.columns)


@pytest.mark.parametrize("name", ["metrix/cub", "metrix/alpha", "thesis/tournament"])
def test_the_table_fits_a_terminal(make_outcome, name):
    table = result_table(make_outcome(name, keep=12))
    console = Console(width=80, file=io.StringIO())
    console.print(as_text(table))
    lines = console.file.getvalue().splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert sum(row.method in line for row in table.rows[:1] for line in lines) >= 1
    assert any("ours" in line or "Recall@1" in line for line in lines)
    assert "In the files:" in console.file.getvalue()
