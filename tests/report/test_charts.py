from lookalike.report.charts import curves, validation_metric


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
    curve = curves(gathered([run]).contenders)[0]
    assert curve.epochs == [1, 2, 3]
    assert curve.validated == [1, 3]
