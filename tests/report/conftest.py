import pytest


@pytest.fixture(scope="session")
def gathered():
    """Runs of the report as contenders, under their names."""
    from lookalike.compare.contenders import gather

    def make(runs):
        return gather([run.run.folder for run in runs], {run.run.folder: run.name for run in runs})

    return make


@pytest.fixture(scope="session")
def table_of(gathered):
    """The table of some runs, by all their metrics."""
    from lookalike.compare.comparison import chosen_metric, compare
    from lookalike.report import score_table

    def make(runs, **options):
        part = part_of_runs(runs, **options)
        return score_table(
            part, [m for m in runs[0].result["test"] if m not in ("rho", "uniformity")]
        )

    def part_of_runs(runs, **options):
        found = gathered(runs)
        (part,) = compare(found, chosen_metric(found), **options).datasets
        return part

    make.part = part_of_runs
    return make


@pytest.fixture(scope="session")
def three_runs(make_run):
    """An untrained network, a middling method and a good one whose name tries to break out."""
    return [
        make_run("untrained network", noise=3.0, epochs=0),
        make_run("contrastive", noise=1.0),
        make_run("</script><b>proxy & |anchor|", noise=0.4),
    ]


@pytest.fixture(scope="session")
def page(three_runs, gathered, tmp_path_factory):
    from lookalike.report import write_page

    return write_page(
        tmp_path_factory.mktemp("page") / "index.html",
        gathered(three_runs),
        "A title with <angles>",
        "A lead.",
        commands=["lookalike train a.yaml", "lookalike train b.yaml"],
    )[0]
