"""Several studies of one design are repeats of the whole: split, search, training runs."""

import numpy as np
import pytest
from typer.testing import CliRunner

from lookalike.cli import app
from lookalike.compare.comparison import compare
from lookalike.compare.contenders import gather
from lookalike.compare.variance import Sources
from lookalike.study.table import load_results


@pytest.fixture(scope="module")
def folders(make_study, tmp_path_factory):
    place = tmp_path_factory.mktemp("studies")
    return [
        make_study(place / f"s{seed}", name=f"s{seed}", seed=seed, repeats=3, folds=2)
        for seed in range(4)
    ]


def test_studies_that_differ_in_their_seed_are_repeats(folders):
    (part,) = compare(gather(folders), "map@r").datasets
    names = {one.name for one in part.contenders}
    assert names == {
        "contrastive", "triplet", "multi-similarity", "raw features", "PCA", "LDA, shrunk",
    }  # fmt: skip
    assert (part.trainings, part.studies, part.classes) == (4, 4, 40)
    assert part.basis == (
        "Intervals are over 4 whole studies and 40 test classes, crossed. Each study has its own "
        "split, search and training runs, so a verdict holds for others of the same design."
    )
    one = next(one for one in part.trained if one.name == "triplet")
    at = part.sample.names.index("triplet")
    rows = [load_results(folder).row("glyphs", "triplet") for folder in folders]
    means = [np.mean([repeat.score("map@r", "separate") for repeat in row.repeats]) for row in rows]
    assert part.sample.totals[at].tolist() == pytest.approx(means)
    found = one.interval("map@r")
    assert (found.count, found.mean) == (4, pytest.approx(np.mean(means)))
    models = [fold["map@r"] for row in rows for r in row.repeats for fold in r.separate]
    assert found.models == pytest.approx(np.std(models, ddof=1))


def test_a_baseline_has_its_own_score_in_every_study(folders):
    (part,) = compare(gather(folders), "map@r").datasets
    at = part.sample.names.index("LDA, shrunk")
    bases = [next(b for b in load_results(f).baselines if b.baseline == "lda") for f in folders]
    expected = [base.score("map@r", "separate") for base in bases]
    assert part.sample.totals[at].tolist() == pytest.approx(expected)


def test_other_designs_are_compared_and_not_joined(folders, make_study, tmp_path):
    other = make_study(tmp_path / "o", {"margin": 0.6}, name="o", data={"name": "cub"})
    gathered = gather([folders[0], other])
    assert {one.studies for one in gathered.contenders} == {1}
    assert any(one.name.startswith("o: ") for one in gathered.contenders)


def test_the_command_and_the_page_say_where_the_variance_comes_from(folders, tmp_path):
    told = CliRunner().invoke(app, ["compare", *map(str, folders)]).stdout
    told = " ".join(told.split())
    assert "Of the variance of a score of one study: " in told
    assert "Of the variance of a difference of two methods of one study: " in told
    assert "t-interval of the mean of 4 whole studies of 6 models" in told
    page = tmp_path / "page.html"
    made = CliRunner().invoke(app, ["report", *map(str, folders), "-o", str(page)])
    assert made.exit_code == 0, made.output
    assert "Of the variance of a score of one study" in page.read_text(encoding="utf-8")


def test_the_sources_of_the_variance_are_found():
    """By simulation: the expected variance of one study's mean, source by source."""
    rng = np.random.default_rng(0)
    studies, runs, classes = 5, 4, 60
    sd = {"class": 0.05, "study": 0.01, "run": 0.006, "study class": 0.02, "run class": 0.03}
    found = []
    for _ in range(400):
        values = 0.5 + rng.normal(0, sd["class"], (1, 1, classes))
        values = values + rng.normal(0, sd["study"], (studies, 1, 1))
        values = values + rng.normal(0, sd["run"], (studies, runs, 1))
        values = values + rng.normal(0, sd["study class"], (studies, 1, classes))
        values = values + rng.normal(0, sd["run class"], (studies, runs, classes))
        found.append(Sources.of(values, np.full(classes, 10)))
    classes_found, runs_found, studies_found = (
        np.mean([getattr(one, source) for one in found])
        for source in ("classes", "runs", "studies")
    )
    assert classes_found == pytest.approx(sd["class"] ** 2 / classes, rel=0.1)
    expected = sd["run"] ** 2 / runs + sd["run class"] ** 2 / runs / classes
    assert runs_found == pytest.approx(expected, rel=0.1)
    expected = sd["study"] ** 2 + sd["study class"] ** 2 / classes
    assert studies_found == pytest.approx(expected, rel=0.1)


def test_one_study_says_nothing_of_split_and_search(folders):
    (part,) = compare(gather(folders[:1]), "map@r").datasets
    assert part.shares == ()
