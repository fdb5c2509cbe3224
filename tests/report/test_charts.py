import pytest

from lookalike.compare.contenders import gather
from lookalike.report.charts import curves, recall_curves, scatters, validation_metric


@pytest.fixture(scope="module")
def study(make_study, tmp_path_factory):
    return gather([make_study(tmp_path_factory.mktemp("s") / "s", trials=20)])


def test_curves_of_trained_runs_only(three_runs, gathered):
    found = curves(gathered(three_runs).contenders)
    assert [curve.name for curve in found] == [run.name for run in three_runs[1:]]
    assert found[0].epochs == found[0].validated == [1, 2, 3]
    assert found[0].loss == [1, 1 / 2, 1 / 3]
    assert found[0].scores == [0.6, 0.7, 0.8]
    assert found[0].chosen_epoch == 2


def test_the_metric_is_the_one_that_chose_the_epoch(make_run, gathered):
    runs = gathered(
        [make_run("a", epochs=0), make_run("b", overrides=["train.metric=recall@1"])]
    ).contenders
    assert validation_metric(runs) == "recall@1"
    assert curves(runs)[0].scores == [0.6 + 0.1 * e for e in (1, 2, 3)]


def test_epochs_that_were_not_validated_leave_a_gap(make_run, gathered):
    run = make_run("a")
    lines = run.run.log.read_text().splitlines()
    lines[1] = '{"epoch": 2, "loss": 0.5}'
    run.run.log.write_text("\n".join(lines))
    run.run.finish(run.run.result, 12.34)
    curve = curves(gathered([run]).contenders)[0]
    assert curve.epochs == [1, 2, 3]
    assert curve.validated == [1, 3]


def test_recall_curves_have_all_k(study):
    curve = recall_curves(study.contenders)[0]
    assert curve.ks == [1, 2, 4, 8]
    assert curve.scores == [study.contenders[0].interval(f"recall@{k}").mean for k in (1, 2, 4, 8)]
    base = recall_curves([c for c in study.contenders if c.baseline])[0]
    assert base.halves == [None] * 4


def test_scatters_only_where_something_varies(study):
    found = scatters(study.contenders, "map@r", {})
    assert [chart.key for chart in found] == ["size", "pi-ratio", "rho"]
    trained = [one for one in study.contenders if not one.baseline]
    assert [c.key for c in scatters(trained, "map@r", {})] == ["pi-ratio", "rho"]


def test_structure_of_embeddings_fills_what_results_do_not_tell(three_runs, gathered):
    contenders = gathered(three_runs).contenders
    assert [chart.key for chart in scatters(contenders, "map@r", {})] == []
    known = {one.name: {"rho": 0.1 * at} for at, one in enumerate(contenders)}
    (chart,) = scatters(contenders, "map@r", known)
    assert chart.key == "rho"
    assert {point.name: point.x for point in chart.points} == pytest.approx(
        {name: values["rho"] for name, values in known.items()}
    )
