"""What our studies know of networks."""

from lookalike.report.catalogue import untrained_scores
from lookalike.shipped import shipped_folder
from lookalike.study.table import load_results


def test_scores_are_those_of_the_stored_baselines():
    stored = load_results(shipped_folder("results") / "laptop-reality-check-omniglot")
    (raw,) = [row for row in stored.baselines if row.baseline == "raw-features"]
    found = untrained_scores("map@r")["efficientnet-lite0"]
    assert found["omniglot-small (handwriting)"] == 100 * raw.separate[0]["map@r"]
