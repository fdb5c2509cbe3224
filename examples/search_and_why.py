# %% [markdown]
# # Search, and why
#
# Index pictures, find the nearest ones of a query, and see which parts of the query make it similar
# to what was found. The network is pretrained and not trained further.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image, ImageDraw

import lookalike as la

random = np.random.default_rng(1)
shapes = {
    "circle": lambda draw, box, colour: draw.ellipse(box, fill=colour),
    "square": lambda draw, box, colour: draw.rectangle(box, fill=colour),
    "wedge": lambda draw, box, colour: draw.pieslice(box, 20, 120, fill=colour),
}
for name, shape in shapes.items():
    (Path("photos") / name).mkdir(parents=True)
    for number in range(12):
        image = Image.new("RGB", (128, 128), tuple(random.integers(150, 256, 3)))
        x, y, side = random.integers(10, 50), random.integers(10, 50), random.integers(45, 70)
        shape(ImageDraw.Draw(image), [x, y, x + side, y + side], tuple(random.integers(0, 120, 3)))
        image.save(Path("photos") / name / f"{number:02}.png")

# %%
embedder = la.load("efficientnet-lite0", weights="imagenet", transform="small")
index = la.Index.create("shapes.index", embedder)
index.add("photos")
query = "photos/circle/00.png"
hits = index.query([query], k=5)[0]
for hit in hits:
    print(f"{hit.similarity:.2f}  {hit.path}")

# %% [markdown]
# Why? The similarity is a sum over the places of the query; the map shows the share of each.

# %%
from lookalike.serve.attribution import attribute

picture, other = Image.open(query), Path("photos") / hits[1].path
shares = attribute(embedder, picture, embedder.embed([other])[0])
print(shares.shape, "the shares add up to", round(float(shares.sum()), 2))

figure, axes = plt.subplots(1, 3, figsize=(7, 2.6))
for axis, shown, title in zip(
    axes, [picture, Image.open(other), picture], ["query", "found", "why"], strict=True
):
    axis.imshow(shown)
    axis.set_title(title)
    axis.axis("off")
axes[2].imshow(shares, cmap="inferno", alpha=0.6, extent=(0, 128, 128, 0), interpolation="bilinear")

# %% [markdown]
# `lookalike serve shapes.index` shows the same on a page, for every result.
