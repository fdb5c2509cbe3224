"""Parts of one's own that are not what they must be: a sentence, never a traceback."""

import pytest

from lookalike.errors import BadInput
from lookalike.training import train

pytestmark = pytest.mark.trust(
    "wrong_parts:Batches",
    "wrong_parts:Miner",
    "wrong_parts:broken_dataset",
    "wrong_parts:dataset",
    "wrong_parts:loss",
    "wrong_parts:network",
)

PARTS = """
from torch import nn

class Batches:
    def __init__(self, labels, batch_size=32, seed=0):
        pass

def network(channels=3):
    return nn.Linear(3, 3)

def dataset(root=None):
    return [1, 2, 3]

def broken_dataset(root=None):
    raise KeyError("oops")

class Miner(nn.Module):
    def forward(self, embeddings, labels):
        return 3

def loss():
    return 3
"""


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("sampler.name=wrong_parts:Batches", "must be a lookalike.samplers.BatchSampler"),
        ("model.network=wrong_parts:network", "must return a lookalike.models.Backbone"),
        ("data.name=wrong_parts:dataset", "must return a lookalike.data.ImageSet, or .*, not list"),
        ("data.name=wrong_parts:broken_dataset", "could not be loaded: KeyError: 'oops'"),
        ("miner.name=wrong_parts:Miner", "3 tensors .triplets. or 4 .pairs.; this one has int"),
        ("loss.name=wrong_parts:loss", "a loss must be a torch.nn.Module or a function, not int"),
    ],
)
def test_a_wrong_part_gets_a_sentence(tiny, tmp_path, monkeypatch, setting, sentence):
    (tmp_path / "wrong_parts.py").write_text(PARTS)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BadInput, match=sentence):
        train(tiny(setting))
