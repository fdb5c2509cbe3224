"""What our studies know of networks."""

import json

from lookalike.report.catalogue import untrained_scores
from lookalike.shipped import shipped_folder


def test_scores_are_those_of_the_stored_baselines():
    stored = shipped_folder("results") / "laptop-reality-check-omniglot" / "omniglot-small"
    rows = json.loads((stored / "baselines.json").read_text(encoding="utf-8"))
    (raw,) = [row for row in rows["baselines"] if row["baseline"] == "raw-features"]
    found = untrained_scores("map@r")["efficientnet-lite0"]
    assert found["omniglot-small (handwriting)"] == 100 * raw["separate"][0]["map@r"]
