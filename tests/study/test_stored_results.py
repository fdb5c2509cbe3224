"""The results in ``results/``: each row is what this version would find, or says why it is not."""

from pathlib import Path

import pytest

from lookalike.compare.comparison import compare
from lookalike.compare.contenders import gather
from lookalike.config import recipes
from lookalike.study import methods
from lookalike.study.config import load_study
from lookalike.study.table import class_scores, load_results

RESULTS = Path(__file__).parents[2] / "results"
WHOLE = sorted(path.parent for path in RESULTS.glob("whole-study-*/*/study.db"))
STORED = [*sorted(path.parent for path in RESULTS.glob("*/study.db")), *WHOLE]

REPRODUCED = sorted(path.parent for path in RESULTS.glob("reproduce/*/*/study.db"))

COMMANDS = {  # as in docs/studies.md
    "cub-last-stage": ("cub-last-stage",),
    "laptop-reality-check": ("laptop-reality-check",),
    "laptop-reality-check-cub": (
        "laptop-reality-check", "name=laptop-reality-check-cub", "data.name=cub",
        "data.transform=small", "base.optim.lr=1e-3", "base.train.epochs=8",
    ),
    "laptop-reality-check-omniglot": (
        "laptop-reality-check", "name=laptop-reality-check-omniglot", "data.name=omniglot-small",
        "data.transform=handwriting", "base.optim.lr=3e-3", "base.train.epochs=8",
    ),
    "whole-study-cub": (
        "whole-study", "data.name=cub", "data.transform=small", "base.optim.lr=1e-3",
    ),
    "whole-study-glyphs": ("whole-study",),
}  # fmt: skip


def study_of(folder):
    """The study that the command in docs/studies.md ran; whole studies have a seed each."""
    seed = [f"seed={folder.name}"] if folder in WHOLE else []
    recipe, *overrides = COMMANDS[folder.parent.name if seed else folder.name]
    return load_study(recipes.folder() / "studies" / f"{recipe}.yaml", [*overrides, *seed])


@pytest.mark.parametrize("folder", STORED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_rows_of_other_settings_are_marked_as_outdated(folder):
    found = load_results(folder)
    study = study_of(folder)
    for data in study.data:
        facts = found.facts[data.display_name]
        known = methods.DatasetFacts(facts["fingerprint"], facts["weights"], facts["train_classes"])
        for asked in methods.rows_of(study):
            method = asked.resolve(study, known)
            row = found.row(data.display_name, method.name)
            assert row.outdated or row.identity == method.identity, row.method


@pytest.mark.parametrize("folder", STORED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_rows_that_lost_to_their_start_are_marked_as_outdated(folder):
    """Heads began as PCA, whose validation score is known: now validation would keep it."""
    found = load_results(folder)
    for dataset in found.datasets:
        (start,) = [
            row for row in found.baselines if (row.dataset, row.baseline) == (dataset, "pca")
        ]
        for row in found.of(dataset):
            assert row.config["model"]["head_init"] == "pca"
            lost = any(
                score < before
                for repeat in row.repeats
                for score, before in zip(repeat.validation, start.validation, strict=True)
            )
            assert row.outdated or not lost, row.method


@pytest.mark.parametrize("folder", STORED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_comparison_shows_the_marks(folder):
    outdated = {row.method for row in load_results(folder).rows if row.outdated}
    (part,) = compare(gather([folder]), "map@r", allow_unfair=True).datasets
    flaws = [flaw for flaw in part.audit.flaws if flaw.kind == "outdated"]
    assert {name for flaw in flaws for name in flaw.rows} == outdated


@pytest.mark.parametrize("folder", REPRODUCED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_reproductions_are_what_their_recipes_train(folder):
    """Whole, undamaged and finished; lifted structure of the thesis mines, pools hold 512."""
    found = load_results(folder)
    assert found.finished
    assert found.planned
    for row in found.rows:
        assert not row.outdated
        if row.method == "generalized-lifted-structure":
            assert row.config["miner"] == {"name": "multi-similarity", "epsilon": 0.1}
        if row.config["sampler"]["name"] in ("ddm", "frd"):  # those with smaller pools kept none
            assert class_scores(folder, row).separate


@pytest.mark.parametrize("data", ["cub", "glyphs"])
def test_five_whole_studies_are_compared_as_repeats(data):
    folders = [folder for folder in WHOLE if folder.parent.name == f"whole-study-{data}"]
    assert sorted(folder.name for folder in folders) == ["0", "10", "20", "30", "40"]
    (part,) = compare(gather(folders), "map@r").datasets
    assert (part.studies, len(part.trained), part.audit.flaws) == (5, 5, ())
    assert len(part.shares) == 2
