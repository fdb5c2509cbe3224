"""The results in ``results/``: each row is what this version would find, or says why it is not."""

from pathlib import Path

import pytest

from lookalike.compare.comparison import compare
from lookalike.compare.contenders import gather
from lookalike.config import recipes
from lookalike.study import methods
from lookalike.study.config import load_study
from lookalike.study.result_files import load_results

STORED = sorted(
    path.parent for path in (Path(__file__).parents[2] / "results").glob("*/study.json")
)

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
}  # fmt: skip


@pytest.mark.parametrize("folder", STORED, ids=lambda path: path.name)
def test_rows_of_other_settings_are_marked_as_outdated(folder):
    found = load_results(folder)
    recipe, *overrides = COMMANDS[folder.name]
    study = load_study(recipes.folder() / "studies" / f"{recipe}.yaml", overrides)
    for data in study.data:
        facts = found.facts[data.display_name]
        known = methods.DatasetFacts(facts["fingerprint"], facts["weights"], facts["train_classes"])
        for method in methods.resolve(study, data, known):
            row = found.row(data.display_name, method.name)
            assert row.outdated or row.identity == method.identity, row.method


@pytest.mark.parametrize("folder", STORED, ids=lambda path: path.name)
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


@pytest.mark.parametrize("folder", STORED, ids=lambda path: path.name)
def test_a_comparison_shows_the_marks(folder):
    outdated = {row.method for row in load_results(folder).rows if row.outdated}
    (part,) = compare(gather([folder]), "map@r", anyway=True).datasets
    flaws = [flaw for flaw in part.audit.flaws if flaw.kind == "outdated"]
    assert {name for flaw in flaws for name in flaw.rows} == outdated
