# %% [markdown]
# # Your own loss under the whole protocol
#
# Write the formula; miners, memory, distances, mixing and the protocol come with it.

# %%
import sys
from pathlib import Path

Path("my_losses.py").write_text('''
from lookalike.losses import PairLoss, Terms


class SquaredHingeLoss(PairLoss):
    """Squared distance to two margins: ``mean_P [pos - s]+^2 + mean_N [s - neg]+^2``.

    Args:
        pos: Positives below this cosine are pulled.
        neg: Negatives above this cosine are pushed.
    """

    additive = True  # a sum over pairs by weight, so mixed examples make sense
    pos: float = 0.9
    neg: float = 0.4

    def terms(self, relations):
        r = relations
        pull = (self.pos - r.similarity).relu().square()
        push = (r.similarity - self.neg).relu().square()
        return (
            Terms(pull, r.positives, r.positive_counts),
            Terms(push, r.negatives, r.negative_counts),
        )
''')
sys.path.insert(0, ".")  # the command line finds modules of the current folder by itself

# %% [markdown]
# It is a loss as any other: called on a batch, with a miner, with other candidates.

# %%
import torch
from my_losses import SquaredHingeLoss

import lookalike as la

torch.manual_seed(0)
embeddings, labels = torch.randn(32, 16, requires_grad=True), torch.arange(32) // 4
loss = SquaredHingeLoss(neg=0.3)
print(loss)
print(f"{loss(embeddings, labels):.3f}")
print(f"{loss(embeddings, labels, la.miners.create('multi-similarity')(embeddings, labels)):.3f}")

# %% [markdown]
# And in a run, by the path of its class: validated on held-out classes, tested once, beside the
# network before training. The pictures are some characters, a folder each.

# %%
from PIL import Image

images = la.data.load("glyphs")
for index in range(1200):
    folder = Path("characters") / f"{images.labels[index]:03}"
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(images.decode(index).squeeze()).save(folder / f"{index}.png")

settings = {
    "data.name": "folder",
    "data.root": "characters",
    "data.transform": "glyphs",
    "model.network": "small-cnn",
    "model.weights": "none",
    "model.dim": 32,
    "sampler.batch_size": 64,
    "optim.lr": 2e-3,
    "train.epochs": 3,
    "train.batches_per_epoch": 15,
    "runs_dir": "runs",
}
for name in ("my_losses:SquaredHingeLoss", "contrastive"):
    run = la.train("recipe:glyphs", settings | {"loss.name": name}, progress=False)
    before, after = run.result["untrained"]["map@r"], run.result["test"]["map@r"]
    print(f"{name:28} MAP@R {before:.3f} before, {after:.3f} after")

# %% [markdown]
# One seed of each shows nothing yet: to tune both fairly, repeat them and get a table with
# intervals for a paper, write a study ([a loss of your own](../extending.md#add-a-loss) has one to
# copy), run it by `lookalike study run` and make page and LaTeX by `lookalike report`.
