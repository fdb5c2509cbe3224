"""The table of a reproduction in its four forms."""

import csv
import io

import pytest
from rich.console import Console

from lookalike.config import recipes
from lookalike.losses import tuned
from lookalike.papers.catalogue import entry
from lookalike.papers.plan import make_plan, open_questions
from lookalike.papers.selection import printed_rows
from lookalike.papers.tables import result_table
from lookalike.published import hyperparameters
from lookalike.report.tables import as_csv, as_latex, as_markdown, as_text


def whats(table, metric):
    """What the columns of a metric are."""
    return [c.name for c in table.columns if c.group == metric]


def cells(table, what):
    """The cells of the first column of this name, by method."""
    at = next(n for n, c in enumerate(table.columns) if c.group and c.name == what)
    return {row.name: row.cells[at] for row in table.rows}


def lines_of(table):
    """The table as programs read it."""
    return list(csv.DictReader(io.StringIO(as_csv([table]))))


def text_of(table):
    console = Console(width=200, file=io.StringIO())
    console.print(as_text(table))
    return console.file.getvalue()


def test_published_ours_and_difference_stand_side_by_side(make_outcome):
    outcome = make_outcome("metrix/cub")
    table = result_table(outcome)
    assert whats(table, "Recall@1") == ["published", "ours", "difference"]
    row = outcome.rows[0]
    score = row.ours["recall@1"]
    published, ours, difference = table.rows[0].cells[1:4]
    assert published.line() == f"{row.published['recall@1'].value:.1f}"
    assert ours.line().strip("*") == f"{100 * score.mean:.1f} ± {100 * score.half:.1f}"
    expected = 100 * score.mean - row.published["recall@1"].value
    assert float(difference.text.replace("−", "-")) == pytest.approx(expected, abs=0.051)
    assert row.difference("recall@1") == pytest.approx(expected / 100)
    assert [name for name, cell in cells(table, "ours").items() if cell.best] == [
        max(outcome.rows, key=lambda row: round(row.ours["recall@1"].mean, 3)).method
    ]


def test_quoted_numbers_stand_beside(make_outcome):
    table = result_table(make_outcome("thesis/in-paper-cub-resnet50"))
    assert whats(table, "Recall@1") == ["in paper", "published", "ours", "difference"]
    quoted = {name: cell.text for name, cell in cells(table, "in paper").items()}
    assert {name: text for name, text in quoted.items() if text != "–"} == {
        "margin": "63.6",
        "generalized-lifted-structure": "43.6",
        "triplet": "42.6",
    }
    assert any(note.startswith("In paper, by network: margin resnet50, ") for note in table.notes)
    default = result_table(make_outcome("thesis/fixed-validation"))
    assert default.columns[1].name == "authors' default setup"
    assert "average rank" not in str(result_table(make_outcome("thesis/tournament")).columns)


def test_folds_have_a_deviation_and_a_concatenated_score(make_outcome):
    outcome = make_outcome("thesis/cross-validation", repeats=1, folds=10)
    table = result_table(outcome)
    assert whats(table, "Recall@1") == ["published", "ours", "difference", "concatenated"]
    row = outcome.rows[0]
    assert row.ours["recall@1"].over == "folds"
    assert cells(table, "ours")[row.method].spread == f"{100 * row.ours['recall@1'].sd:.1f}"
    assert row.published["recall@1"].spread is not None
    spread = cells(table, "published")[row.method].spread
    assert spread == f"{row.published['recall@1'].spread:.1f}"
    assert any("not a confidence interval" in note for note in table.notes)


def test_split_ratios_have_validation_columns(make_outcome):
    table = result_table(make_outcome("thesis/split-ratio"))
    assert whats(table, "Recall@1")[-2:] == ["published validation", "our validation"]
    assert table.columns[1].name == "ratio"


def test_small_scale_is_said_everywhere(make_outcome):
    outcome = make_outcome("metrix/alpha", scale="small")
    table = result_table(outcome)
    for text in (text_of(table), as_markdown([table]), as_latex([table])):
        assert "SMALL SCALE" in text
    assert {line["scale"] for line in lines_of(table)} == {"small"}
    assert "SMALL SCALE" not in as_markdown([result_table(make_outcome("metrix/cub"))])


def test_measures_of_structure_are_no_percentages(make_outcome):
    outcome = make_outcome("metrix/embedding-space")
    table = result_table(outcome)
    at = [c.group for c in table.columns].index("Uniformity")
    assert table.rows[0].cells[at].text == f"{outcome.rows[0].ours['uniformity'].mean:.3f}"


@pytest.mark.parametrize("name", ["metrix/cub", "thesis/tournament", "dr/cub"])
def test_scores_of_other_images_are_not_subtracted_from_published_ones(make_outcome, name):
    """Glyphs by a small network, minus CUB by ResNet-50: that is no difference."""
    small = make_outcome(name, scale="small")
    assert all(column.name != "difference" for column in result_table(small).columns)
    assert not any("difference" in key for key in lines_of(result_table(small))[0])
    stored = small.as_mapping()["rows"]
    assert {one["difference"] for row in stored for one in row["scores"].values()} == {None}
    assert any(one["published"] for row in stored for one in row["scores"].values())
    paper = make_outcome(name)
    assert any(column.name == "difference" for column in result_table(paper).columns)


def test_the_heading_names_what_was_used(make_outcome):
    """Not the paper's data and network over glyphs."""
    for name in ("thesis/cub-resnet50-64", "metrix/cub", "roth/size-cub", "thesis/tournament"):
        small, paper = make_outcome(name, scale="small"), make_outcome(name)
        assert small.heading.startswith("Glyphs, ")
        assert small.rows[0].config.model.network in small.heading
        for theirs in ("CUB", "ResNet50", "resnet50"):
            assert theirs not in small.heading
            assert theirs not in result_table(small).title.removeprefix(name)
        assert "CUB" in paper.heading
    small = make_outcome("thesis/cub-resnet50-64", scale="small")
    assert small.heading == "Glyphs, efficientnet-lite0, 64 dimensions: ten losses"
    assert make_plan(entry("thesis/cub-resnet50-64"), "small").as_mapping()["title"] == (
        small.heading
    )


def test_the_note_on_epochs_says_who_chose(make_outcome):
    """Where validation classes choose, nothing is said of last epochs."""
    told = "\n".join(result_table(make_outcome("thesis/cub-resnet50-64")).notes)
    assert "No validation classes in 10 of 10 rows: the last epoch is tested." in told
    assert "last epoch" not in "".join(result_table(make_outcome("thesis/fixed-validation")).notes)
    for name, chosen in {
        "thesis/cub-resnet50-64": "The last epoch is tested.",
        "thesis/fixed-validation": "best score on the validation classes",
        "thesis/cross-validation": "best score on the validation classes",
        "thesis/split-ratio": "best score on the validation classes",
    }.items():
        open_ = " ".join(open_questions(entry(name), printed_rows(entry(name))))
        assert chosen in open_
        assert ("The last epoch is tested." in open_) == (name == "thesis/cub-resnet50-64")


def test_values_that_are_the_reality_checks_are_said_to_be():
    """Where they are shown: the pages of both entries, their recipes, and tuned settings."""
    for name in ("thesis/grid-search", "thesis/fixed-validation"):
        told = " ".join(open_questions(entry(name), printed_rows(entry(name))))
        assert "Reality Check's for CUB" in told
        assert "58 is no point of the grid" in told
    for loss in ("multi-similarity", "soft-triple"):
        page = recipes.recipe(f"thesis/cub/bn-inception/512/{loss}-fixed").notes
        assert "Reality Check's for CUB" in page
        sources = [one.source for one in tuned(loss) if "fixed" in one.source]
        assert sources
        assert all("Reality Check's values for CUB" in source for source in sources)
    theirs = {
        (r.method, r.parameter): r.value
        for r in hyperparameters()
        if (r.paper, r.dataset, r.batch) == ("reality-check", "cub", 32)
    }
    for row in hyperparameters():
        if row.method in ("multi-similarity-fixed", "soft-triple-fixed"):
            told = row.conditions.rpartition(": ")[2].partition(";")[0]
            assert told in {v for (m, _), v in theirs.items() if m.startswith(row.loss)}, row


def test_untrained_networks_above_every_row_are_named(make_outcome):
    """LDA of the untrained network was above all trained rows, and no page said so."""
    assert make_outcome("thesis/cub-resnet50-64").unbeaten == []
    found = make_outcome("thesis/cub-resnet50-64", base=0.9)
    best = max(found.rows, key=lambda row: row.ours["recall@1"].mean)
    told, _ = found.unbeaten
    assert told.startswith("Higher in Recall@1 than every trained row: raw features of the untr")
    assert f"{best.label}, has {100 * best.ours['recall@1'].mean:.2f}" in told
    assert told in result_table(found).notes
    assert found.as_mapping()["unbeaten"] == found.unbeaten


def test_a_deviation_is_never_zero(make_outcome):
    outcome = make_outcome("thesis/cross-validation", repeats=1, folds=10)
    shown = [cell.spread for row in result_table(outcome).rows for cell in row.cells]
    assert not {"0.0", "0.000"} & set(shown)


@pytest.mark.parametrize("room", [60, 80, 120])
def test_a_wide_table_is_cut_between_metrics(make_outcome, room):
    table = result_table(make_outcome("thesis/cross-validation", repeats=1, folds=10))
    parts = table.parts(room)
    assert len(parts) > 1
    own = [c for c in table.columns if c.group]
    assert [c for part in parts for c in part.columns if c.group] == own
    for row, *cut in zip(table.rows, *(part.rows for part in parts), strict=True):
        assert {one.name for one in cut} == {row.name}
    groups = [{c.group for c in part.columns if c.group} for part in parts]
    assert sum(map(len, groups)) == len(set().union(*groups))


def test_the_csv_has_all_digits(make_outcome):
    outcome = make_outcome("metrix/cub")
    first, row = lines_of(result_table(outcome))[0], outcome.rows[0]
    assert first["method"] == "contrastive-baseline"
    assert float(first["recall@1 ours"]) == row.ours["recall@1"].mean
    assert float(first["recall@1 published"]) == row.published["recall@1"].value / 100
    assert float(first["recall@1 difference"]) == row.difference("recall@1")
    assert first["recipe"] == "metrix/cub/contrastive-baseline"


def test_rows_without_published_numbers_say_so(make_outcome):
    table = result_table(make_outcome("roth/sampler-cub"))
    assert "No published numbers of these rows are stored." in table.notes
    assert all(column.name == "" for column in table.columns if column.group)


@pytest.mark.parametrize("name", ["metrix/cub", "metrix/alpha", "thesis/tournament"])
def test_the_table_fits_a_terminal(make_outcome, name):
    table = result_table(make_outcome(name, keep=12))
    console = Console(width=80, file=io.StringIO())
    console.print(as_text(table))
    lines = console.file.getvalue().splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert sum(row.name in line for row in table.rows[:1] for line in lines) >= 1
    assert any("ours" in line or "Recall@1" in line for line in lines)
    assert "In the files:" in console.file.getvalue()
