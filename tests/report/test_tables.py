import csv
import io
import re

import pytest
from rich.console import Console

from lookalike.errors import BadInput
from lookalike.report import as_csv, as_markdown, as_text, score_table


def printed(table):
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(as_text(table))
    return console.export_text()


def test_untrained_network_stands_last_and_gains_are_against_it(three_runs):
    table = score_table(three_runs)
    assert table.rows[-1] is table.untrained
    assert [row.untrained for row in table.rows] == [False, False, True]
    for row in table.trained:
        for metric in table.metrics:
            expected = row.scores[metric] - three_runs[0].result["test"][metric]
            assert table.gain(row, metric) == pytest.approx(expected)
    assert table.gain(table.untrained, "recall@1") is None


def test_best_is_the_highest_and_equal_figures_share_it(make_run):
    scores = [{"recall@1": s, "map@r": 0.5} for s in (0.80001, 0.80049, 0.7)]
    runs = [make_run(name, test=test) for name, test in zip("abc", scores, strict=True)]
    table = score_table(runs)
    assert [table.is_best(row, "recall@1") for row in table.rows] == [True, True, False]
    assert [table.is_best(row, "map@r") for row in table.rows] == [True] * 3
    assert table.gain(table.rows[0], "recall@1") is None


def test_text_fits_a_terminal_and_cuts_nothing(three_runs):
    text = printed(score_table(three_runs))
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert "</script><b>proxy" in text  # the only name too long for its column: it is folded
    assert re.search(r"contrastive .* 12\.3\s+2 of 3", text)


def test_csv_has_full_digits(three_runs):
    rows = list(csv.DictReader(io.StringIO(as_csv(score_table(three_runs)))))
    assert [row["method"] for row in rows] == [r.name for r in (*three_runs[1:], three_runs[0])]
    assert float(rows[0]["map@r"]) == three_runs[1].result["test"]["map@r"]
    assert rows[0]["chosen_epoch"] == "2"
    assert rows[2]["chosen_epoch"] == ""


def test_markdown_has_one_cell_a_column(three_runs):
    lines = as_markdown(score_table(three_runs)).splitlines()
    assert {len(re.split(r"(?<!\\)\|", line)) for line in lines} == {10}
    assert sum("**" in line for line in lines) == 1


def test_measures_of_structure_are_no_columns(make_run):
    run = make_run("a", test={"recall@1": 0.5, "uniformity": -2.0})
    assert score_table([run]).metrics == ("recall@1",)
    with pytest.raises(BadInput, match="ranking metric"):
        score_table([make_run("a", test={"rho": 0.1})])


def test_a_metric_that_a_run_lacks_is_a_dash(make_run):
    runs = [make_run("a"), make_run("bb", test={"recall@1": 0.5})]
    assert " – " in as_markdown(score_table(runs)).splitlines()[-1]


def test_no_validation_means_the_last_epoch(make_run):
    table = score_table([make_run("a", chosen_epoch=None)])
    assert table.rows[0].epoch == "3 of 3"


def test_what_cannot_be_a_table_is_refused(make_run):
    with pytest.raises(BadInput, match="at least one"):
        score_table([])
    with pytest.raises(BadInput, match="called 'a'"):
        score_table([make_run("a"), make_run("a")])
    with pytest.raises(BadInput, match="one untrained"):
        score_table([make_run("a", epochs=0), make_run("b", epochs=0)])
    with pytest.raises(BadInput, match="not tested"):
        score_table([make_run("a", test=None)])
