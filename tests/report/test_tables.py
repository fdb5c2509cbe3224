import csv
import io
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rich.console import Console

from lookalike.compare.comparison import compare
from lookalike.compare.contenders import gather
from lookalike.report import as_csv, as_latex, as_markdown, as_text, score_table
from lookalike.report.scores import compact, settings_tables, shown_best, unbeaten
from lookalike.report.tables import Cell, Column, Row, Table, escape_latex


def printed(table):
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(as_text(compact(table)))
    return console.export_text()


def best(table):
    """The names of rows and columns that are emphasized."""
    columns = table.columns
    return [(r.name, columns[n].key) for r in table.rows for n, c in enumerate(r.cells) if c.best]


def shown(table):
    """The titles of the columns that are shown."""
    return [column.title for column in table.columns if column.shown]


def test_untrained_network_stands_last_and_gains_are_against_it(three_runs, table_of):
    table = table_of(three_runs)
    assert [row.kind for row in table.rows] == ["", "", "baseline"]
    runs = {run.name: run for run in three_runs}
    for row in table.rows[:2]:
        for metric in ("recall@1", "map@r"):
            expected = runs[row.name].result["test"][metric] - three_runs[0].result["test"][metric]
            told = table.cell(row.name, metric).gain.replace("−", "-")
            assert float(told) == pytest.approx(100 * expected, abs=0.051)
    assert table.cell("untrained network", "recall@1").gain == ""


def test_a_baseline_above_every_trained_row_is_named(make_run, three_runs, table_of):
    """LDA of the untrained network scored higher than all rows, and no page said so."""
    assert unbeaten(table_of.part(three_runs), "recall@1") == []
    poor = [make_run("LDA", noise=0.5, epochs=0), make_run("triplet", noise=2.0), three_runs[1]]
    assert unbeaten(table_of.part(poor), "recall@1") == ["LDA"]


def test_only_what_is_shown_to_be_better_than_all_others_is_best(make_run, table_of):
    scores = [{"recall@1": s, "map@r": 0.5} for s in (0.9, 0.8, 0.7)]
    runs = [make_run(name, test=test) for name, test in zip("abc", scores, strict=True)]
    table = table_of(runs)
    assert best(table) == []  # one training each
    assert r"\textbf" not in as_latex([table])
    part = table_of.part(runs)
    names = [one.name for one in part.contenders]
    holds = [SimpleNamespace(better=names[0], worse=n, holds=True) for n in names[1:]]
    sure = replace(part, differences=tuple(holds))
    assert best(score_table(sure, ["recall@1", "map@r"])) == [(names[0], part.metric)]
    assert best(score_table(replace(sure, ranking="refused"), ["recall@1", "map@r"])) == []


def test_a_difference_to_every_other_row_makes_the_best(make_run, gathered):
    runs = [make_run(name, test={"map@r": 0.5}) for name in "abc"]
    (part,) = compare(gathered(runs), "map@r").datasets
    names = [one.name for one in part.contenders]
    holds = [SimpleNamespace(better=names[0], worse=worse, holds=True) for worse in names[1:]]
    assert shown_best(replace(part, differences=tuple(holds))) == (names[0], part.metric)
    assert shown_best(replace(part, differences=tuple(holds[:1]))) is None


def test_chosen_hyper_parameters_are_a_table(study_table):
    part = study_table(part=True)
    (table,) = settings_tables(part)
    latex, markdown = as_latex([table]), as_markdown([table])
    assert "Hyper-parameters chosen by tuning" in latex
    first = next(one for one in part.contenders if one.row and one.row.tuned)
    for key, value in first.row.tuned.items():
        assert f"{escape_latex(key)} & {value:.4g}" in latex
        assert f"| {key} | {value:.4g} |" in markdown
    assert f"| {first.name} |" in markdown


def test_text_fits_a_terminal_and_cuts_nothing(three_runs, table_of):
    text = printed(table_of(three_runs))
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert "</script><b>" in text  # the only name too long for its column: it is folded
    assert re.search(r"contrastive .* \[\d+\.\d, \d+\.\d\] .* 2 of 3", text)


def test_csv_has_full_digits(three_runs, table_of):
    rows = list(csv.DictReader(io.StringIO(as_csv([table_of(three_runs)]))))
    assert [row["method"] for row in rows] == [
        three_runs[2].name, three_runs[1].name, three_runs[0].name,
    ]  # fmt: skip
    assert float(rows[1]["map@r"]) == three_runs[1].result["test"]["map@r"]
    assert (rows[0]["data"], rows[0]["ranking"], rows[0]["map@r low"]) == ("glyphs", "fair", "")
    assert rows[0]["chosen_epoch"] == "2"
    assert rows[2]["chosen_epoch"] == ""
    assert rows[0]["epochs"] == "3"


def test_markdown_has_one_cell_a_column(three_runs, table_of):
    lines = [x for x in as_markdown([table_of(three_runs)]).splitlines() if x.startswith("|")]
    assert {len(re.split(r"(?<!\\)\|", line)) for line in lines} == {10}
    assert not any("**" in line for line in lines)  # one training each shows nothing


def test_a_metric_that_a_run_lacks_is_a_dash(make_run, table_of):
    table = table_of([make_run("a"), make_run("bb", test={"recall@1": 0.9})])
    assert " – " in as_markdown([table])
    assert as_csv([table]).count(",,,") >= 1


def test_no_validation_means_the_last_epoch(make_run, table_of):
    table = table_of([make_run("a", chosen_epoch=None)])
    assert table.cell("a", "epoch").text == "3 of 3"


@pytest.fixture(scope="module")
def study_table(make_study, tmp_path_factory):
    def make(**options):
        anyway, as_part = options.pop("anyway", False), options.pop("part", False)
        found = gather([make_study(tmp_path_factory.mktemp("s") / "s", **options)])
        (part,) = compare(found, "map@r", allow_unfair=anyway).datasets
        return part if as_part else score_table(part, ["recall@1", "map@r"])

    return make


def test_studies_have_intervals_trials_and_baselines(study_table):
    part = study_table(part=True)
    table = score_table(part, ["recall@1", "map@r"])
    assert shown(table)[-3:] == ["trials", "trainings", "seconds"]
    name = table.rows[0].name
    assert table.cell(name, "trials").text == "12 (1 failed)"
    score = part.contenders[0].interval("map@r")
    own = table.cell(name, "map@r")
    bounds = own.values[" classes low"], own.values[" classes high"]
    over_classes = f"[{100 * bounds[0]:.1f}, {100 * bounds[1]:.1f}]"
    text = as_markdown([table])
    half = f"{50 * (score.high - score.low):.1f} ({100 * score.models:.1f})"
    assert f"| **{100 * score.mean:.1f}** ± {half} {over_classes} | 12 (1 failed) | 20 |" in text
    assert "in brackets the 95 % interval over trainings x test classes, searched in this" in text
    assert over_classes in as_latex([table])
    assert "60 training runs, 36 trials, " in as_latex([table])
    assert r"\label{tab:glyphs}" in as_latex([table])
    row = next(csv.DictReader(io.StringIO(as_csv([table]))))
    assert float(row["map@r low"]) == score.low
    assert float(row["map@r classes high"]) == bounds[1]
    assert "[" not in as_markdown([study_table(classes=0)])
    assert max(map(len, printed(table).splitlines())) <= 80


def test_one_repeat_is_labelled_as_a_deviation_over_folds(study_table):
    table = study_table(repeats=1, classes=0)
    words = "± the standard deviation over the models of the folds, not a confidence interval."
    score = study_table(repeats=1, classes=0, part=True).contenders[0].interval("map@r")
    assert f"| {100 * score.mean:.1f} ± {100 * score.sd:.1f} |" in as_markdown([table])
    assert words in as_markdown([table])
    assert words.replace("±", r"$\pm$") in as_latex([table])
    assert words.removesuffix(".") in " ".join(printed(table).split())
    assert "95 %" not in as_markdown([table]) + as_latex([table])
    first, *_, last = csv.DictReader(io.StringIO(as_csv([table])))
    assert (first["deviation over"], float(first["map@r sd"])) == ("folds", score.sd)
    assert (first["map@r low"], first["map@r high"]) == ("", "")
    assert (last["deviation over"], last["map@r sd"]) == ("", "")
    assert (
        study_table(repeats=1)
        .notes[0]
        .endswith("; in brackets the 95 % interval over test classes, searched in this gallery.")
    )
    assert (
        study_table(repeats=3)
        .notes[0]
        .startswith(
            "± half the 95 % t-interval of the mean of 3 repeats of 4 folds, on these test "
            "classes; (sd) the standard deviation of single models"
        )
    )
    assert study_table(repeats=1, folds=1, classes=0).notes == ("",)


def test_latex_is_balanced_and_escaped(study_table, three_runs, table_of):
    for table in (study_table(), table_of(three_runs)):
        text = as_latex([table])
        assert text.count("{") == text.count("}")
        assert text.count(r"\begin{") == text.count(r"\end{") == 2
        body = text[text.index(r"\toprule") : text.index(r"\bottomrule")]
        rows = [line for line in body.splitlines() if line.endswith(r"\\")]
        assert {len(re.split(r"(?<!\\)&", row)) for row in rows} == {len(shown(table))}
        assert len(rows) == len(table.rows) + 1
    assert r"\textless{}/script\textgreater{}" in text
    assert r"proxy \& \textbar{}anchor\textbar{}" in text


def test_unfair_rows_are_marked_and_nothing_is_best(study_table):
    wide = {"triplet": {"model": {"dim": 512}}}
    table = study_table(changes=wide)
    assert [row.marks for row in table.rows] == [(), (1,), (), (), (), ()]
    assert best(table) == []
    text = as_markdown([table])
    assert "triplet [1]" in text
    assert "[1] Embedding size: 128 (contrastive and multi-similarity); 512 (triplet)." in text
    assert "Not ranked" in text
    ranked = study_table(changes=wide, anyway=True)
    assert "Ranked although the comparison is not fair." in as_markdown([ranked])
    assert r"triplet\textsuperscript{1}" in as_latex([ranked])
    assert "triplet [1]" in printed(ranked)


def test_twenty_methods_have_twenty_marks():
    from lookalike.report.charts import styles

    found = {(one.ink, one.symbol) for one in styles(map(str, range(36))).values()}
    assert len(found) == 36  # the shape, in the legend and in the charts, beside the colour


HOSTILE = "<script>x</script> [x](javascript:x) `a`|b\n\n# \\input{/etc/passwd} \x1b[31m\u2028\0\1"


def test_hostile_texts_are_text_in_markdown_and_latex():
    """A name ends neither its line nor its cell, and is no markup."""
    columns = (Column(HOSTILE), Column("score"))
    rows = (Row((Cell(HOSTILE), Cell(HOSTILE, best=True))), Row((Cell("[x] *"), Cell("1"))))
    table = Table(HOSTILE, columns, rows, notes=(HOSTILE,), flaws=(HOSTILE,))
    markdown, latex = as_markdown([table]), as_latex([table])
    shown = r"\<script>x\</script> \[x](javascript:x) \`a\`\|b  # "
    shown += r"\\input{/etc/passwd} \\x1b\[31m \\x00\\x01"
    assert markdown.splitlines() == [
        f"### {shown}",
        "",
        f"| {shown} | score |",
        "| --- | ---: |",
        f"| {shown} | **{shown}** |",
        r"| \[x] * | 1 |",
        "",
        f"[1] {shown}",
        "",
        shown,
    ]
    assert latex.count("\n\n") == 0
    assert not set("\0\1\x1b\u2028") & set(latex)
    assert r"\textbackslash{}input\{/etc/passwd\}" in latex
    assert "    {}[x] * & 1 " in latex
