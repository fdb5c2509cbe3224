"""A metric that is added to the protocol is read from the trained model; nothing is trained."""

import pytest

from lookalike import evaluation
from lookalike.runs.run import test_embeddings as stored_embeddings
from lookalike.training import Watcher, train


class NoTraining(Watcher):
    """Fails where a step of training is told."""

    def stage(self, name, done, total, detail=""):
        assert name != "training"


@pytest.mark.parametrize("frozen", [False, True])
def test_only_the_test_is_read_again(tiny, patterns, frozen):
    given = ["protocol.test_untrained=true"]
    if frozen:
        given += ["model.network=efficientnet-lite0", "model.weights=imagenet", "model.frozen=true"]
        given += ["model.frozen_views=0", "data.transform=none"]
        given += ["data.name=folder", f"data.root={patterns}"]
    run = train(tiny(*given))
    before, model = run.result, run.weights.read_bytes()
    more = tiny(*given, "protocol.metrics=[mrr,utilization]", "train.eval_batch_size=100")
    again = train(more, NoTraining())
    assert again.folder == run.folder
    assert run.weights.read_bytes() == model
    found = stored_embeddings(run)
    mrr = evaluation.score(found.embeddings, found.labels, ("mrr",)).scores["mrr"]
    assert run.result["test"]["mrr"] == pytest.approx(mrr, abs=1e-6)
    assert run.result["test"]["utilization"] > 0
    kept = {key: value for key, value in run.result.items() if key != "test"}
    assert kept == {key: value for key, value in before.items() if key != "test"}
    assert run.result["test"]["recall@1"] == before["test"]["recall@1"]
    assert set(run.classes.metrics) >= {"recall@1", "mrr"}
    written = (run.folder / "result.json").stat().st_mtime_ns
    train(tiny(*given, "protocol.metrics=[mrr]"), NoTraining())  # nothing is missing
    assert (run.folder / "result.json").stat().st_mtime_ns == written
