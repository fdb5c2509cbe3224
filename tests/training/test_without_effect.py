"""Settings that change nothing are said, and nothing else is."""

import pytest

from lookalike.config import without_effect
from lookalike.training import Watcher, train


@pytest.mark.parametrize(
    ("overrides", "sentences"),
    [
        ([], []),
        (["protocol.name=paper", "train.patience=2"], ["train.patience has no effect"]),
        (
            ["protocol.name=paper", "train.patience_epochs=2"],
            ["train.patience_epochs has no effect"],
        ),
        (["optim.momentum=0.5"], ["optim.momentum has no effect with optim.name=adamw"]),
        (["optim.momentum=0.5", "optim.name=sgd"], []),
        (["optim.gamma=0.5"], ["optim.gamma has no effect"]),
        (["model.head_shrink=3"], ["model.head_shrink has no effect"]),
        (["protocol.name=paper", "protocol.folds=3"], ["protocol.folds has no effect"]),
    ],
)
def test_each_is_one_sentence(tiny, overrides, sentences):
    found = without_effect(tiny(*overrides))
    assert len(found) == len(sentences)
    assert all(wanted in text for wanted, text in zip(sentences, found, strict=True))


def test_the_watcher_is_told(tiny):
    class Listening(Watcher):
        heard: tuple[str, ...] = ()

        def note(self, text):
            self.heard += (text,)

    watcher = Listening()
    train(tiny("optim.momentum=0.5", "train.epochs=0", "protocol.test=false"), watcher)
    assert any("optim.momentum" in text for text in watcher.heard)
