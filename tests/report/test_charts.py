import pytest

from lookalike.compare.contenders import gather
from lookalike.report.charts import Point, chart, json_of, method_styles
from lookalike.report.method_charts import (
    property_charts,
    recall_chart,
    training_charts,
)


@pytest.fixture(scope="module")
def study(make_study, tmp_path_factory):
    return gather([make_study(tmp_path_factory.mktemp("s") / "s", trials=20)])


def training(contenders):
    return training_charts(contenders, method_styles(contenders))


def test_curves_of_trained_runs_only(three_runs, gathered):
    validation, *losses = training(gathered(three_runs).contenders)
    assert [chart.title for chart in losses] == [run.name for run in three_runs[1:]]
    first, _, rings = validation.figure.data
    assert list(first.x) == list(losses[0].figure.data[0].x) == [1, 2, 3]
    assert list(losses[0].figure.data[0].y) == [1, 1 / 2, 1 / 3]
    assert list(first.y) == pytest.approx([60, 70, 80])
    assert list(rings.x) == [2, 2]


def test_the_metric_is_the_one_that_chose_the_epoch(make_run, gathered):
    runs = gathered(
        [make_run("a", epochs=0), make_run("b", overrides=["train.metric=recall@1"])]
    ).contenders
    validation, _ = training(runs)
    assert validation.title == "Recall@1 on validation classes"
    assert list(validation.figure.data[0].y) == pytest.approx([70, 80, 90])


def test_epochs_that_were_not_validated_leave_a_gap(make_run, gathered):
    run = make_run("a")
    lines = run.run.log.read_text().splitlines()
    lines[1] = '{"epoch": 2, "loss": 0.5}'
    run.run.log.write_text("\n".join(lines))
    run.run.finish(run.run.result, 12.34)
    validation, loss = training(gathered([run]).contenders)
    assert list(loss.figure.data[0].x) == [1, 2, 3]
    assert list(validation.figure.data[0].x) == [1, 3]


def test_recall_has_all_k_above_the_median(study):
    rows = study.contenders
    chart = recall_chart(rows, method_styles(rows))
    line = chart.figure.data[0]
    assert list(line.x) == [1, 2, 4, 8]
    assert chart.figure.layout.xaxis.type == "log"
    for n, k in enumerate(line.x):
        scores = sorted(100 * one.interval(f"recall@{k}").mean for one in rows[:8])
        middle = (scores[(len(scores) - 1) // 2] + scores[len(scores) // 2]) / 2
        expected = 100 * rows[0].interval(f"recall@{k}").mean - middle
        assert line.y[n] == pytest.approx(expected)
    bare = next(t for t in chart.figure.data if t.name == "raw features")
    assert bare.error_y.array is None


def test_properties_only_where_something_varies(study):
    rows = study.contenders

    def titles(contenders):
        found = property_charts(contenders, "map@r", {}, method_styles(rows))
        return [chart.title for chart in found]

    names = [
        f"MAP@R by {what}" for what in ("embedding size", "embedding density", "spectral decay")
    ]
    assert titles(rows) == names
    assert titles([one for one in rows if not one.baseline]) == names[1:]


def test_structure_of_embeddings_fills_what_results_do_not_tell(three_runs, gathered):
    rows = gathered(three_runs).contenders
    assert property_charts(rows, "map@r", {}, method_styles(rows)) == []
    known = {one.name: {"rho": 0.1 * at} for at, one in enumerate(rows)}
    (chart,) = property_charts(rows, "map@r", known, method_styles(rows))
    assert sorted(trace.x[0] for trace in chart.figure.data) == pytest.approx([0, 0.1, 0.2])


def test_intervals_end_where_scores_do():
    trace = chart("dots", "", [Point("a", 1, 99, 3), Point("a", 2, 50, 3)]).figure.data[0]
    assert list(trace.error_y.array) == [1, 3]
    assert list(trace.error_y.arrayminus) == [3, 3]
    row = chart("rows", "", [Point("a", 99, "first", 3)]).figure.data[0]
    assert (list(row.error_x.array), list(row.y)) == ([1], [0])
    assert chart("dots", "", [Point("a", 1, 2)]).figure.data[0].error_y.array is None


def test_names_are_no_markup():
    bad, shown = "<b>a</b> & b", "&lt;b&gt;a&lt;/b&gt; &amp; b"
    made = chart("rows", bad, [Point(bad, 1, bad, text=bad)], x=bad).figure
    assert (made.data[0].name, made.data[0].text[0]) == (shown, f"<br>{shown}")
    assert (made.layout.annotations[0].text, made.layout.xaxis.title.text) == (shown, shown)
    assert chart("lines", "", [Point("a", bad, 1)]).figure.data[0].x[0] == shown


def test_a_figure_does_not_bring_the_theme(study):
    rows = study.contenders
    assert "template" not in json_of(recall_chart(rows, method_styles(rows)).figure)["layout"]
