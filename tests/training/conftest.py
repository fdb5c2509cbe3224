import pytest

from lookalike.config import load

TINY = [
    "model.dim=16",
    "sampler.name=spc",
    "sampler.batch_size=32",
    "sampler.per_class=4",
    "train.batches_per_epoch=8",
    "train.epochs=3",
    "train.eval_batch_size=512",
    "train.checkpoint_seconds=0",
    "train.device=cpu",
    "protocol.metrics=[recall@1]",
]


@pytest.fixture
def tiny(tmp_path):
    """A run of seconds on glyphs, with overrides."""

    def config(*overrides):
        return load(None, [*TINY, f"runs_dir={tmp_path / 'runs'}", *overrides])

    return config
