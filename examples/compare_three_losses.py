# %% [markdown]
# # Compare three losses with intervals
#
# A study tunes every method with the same number of trials on validation classes, trains the best
# setting again with new seeds, and tests those once. Here with few pictures, two trials and
# three repeats: what matters is the shape of the answer.

# %%
from pathlib import Path

from PIL import Image

import lookalike as la

images = la.data.load("glyphs")
for index in range(1000):
    folder = Path("characters") / f"{images.labels[index]:03}"
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(images.decode(index).squeeze()).save(folder / f"{index}.png")

Path("three.yaml").write_text("""
name: three
data: {name: folder, root: characters, transform: glyphs}
base:
  model: {network: small-cnn, dim: 32}
  sampler: {name: spc, batch_size: 64, per_class: 4}
  optim: {lr: 2e-3}
  train: {epochs: 2, batches_per_epoch: 12, device: cpu}
methods: [triplet, contrastive, multi-similarity]
protocol: {name: fixed-validation, ratio: 0.8, metrics: [recall@1, map@r]}
tuner: {name: tpe, trials: 2}
repeats: 3
checkpoints: false
""")
results = la.study("three.yaml", workers=1, results="results", progress=False)
for row in results.rows:
    settings = {key: round(value, 3) for key, value in row.tuned.items()}
    print(f"{row.method:16} {settings}")

# %% [markdown]
# The table has the baselines that need no training beside the methods; "±" is half of the 95 %
# interval over the repeats. Below it stand the differences that are shown to hold, if any.

# %%
compared = la.compare(results)
print(compared)

# %% [markdown]
# `compared.to_pandas()` has all of it as a data frame, and `la.report(results, output="page.html")`
# writes it as a page with figures, CSV and LaTeX.
