# %% [markdown]
# # Fine-tune on a folder
#
# One folder per class is all that a training needs. The pictures of this example are characters of
# the built-in data set, written to files as your photographs would be.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
from PIL import Image

import lookalike as la

images = la.data.load("glyphs")
for index in range(800):
    folder = Path("photos") / f"character {images.labels[index]:03}"
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(images.decode(index).squeeze()).resize((64, 64)).save(folder / f"{index}.png")
print(len(list(Path("photos").iterdir())), "classes")

# %%
figure, axes = plt.subplots(2, 7, figsize=(7, 2.3))
for column, folder in zip(axes.T, sorted(Path("photos").iterdir()), strict=False):
    for axis, path in zip(column, sorted(folder.iterdir()), strict=False):
        axis.imshow(Image.open(path), cmap="gray")
        axis.axis("off")

# %% [markdown]
# The recipe for folders fine-tunes a small pretrained network, whose weights come with the package.
# Half of the classes are held out for the test; of the others some validate and choose the epoch.

# %%
settings = {"data.name": "folder", "data.root": "photos", "runs_dir": "runs"}
rates = {"optim.lr": 3e-4, "optim.head_lr": 3e-4}  # for pictures that are unlike photographs
run = la.train(settings=settings | rates | {"train.epochs": 3}, progress=False)
print("chosen epoch:", run.result["chosen_epoch"])
for name, title in {
    "raw_features": "raw features",
    "untrained": "before training",
    "test": "trained",
}.items():
    scores = run.result[name]
    print(f"{title:16} Recall@1 {scores['recall@1']:.3f}   MAP@R {scores['map@r']:.3f}")

# %% [markdown]
# Epoch 0 is the state before training, with a head computed by LDA. Where it is chosen, training
# did not help on the validation classes, and nothing is lost: the untrained state is kept.

# %% [markdown]
# The folder of a run has everything about it; `la.load` gives a model that embeds pictures.

# %%
print(sorted(path.name for path in run.folder.iterdir() if path.suffix))
vectors = la.load(run).embed(sorted(Path("photos/character 000").iterdir()))
print(vectors.shape, "cosine of two of one class:", round(float(vectors[0] @ vectors[1]), 2))
