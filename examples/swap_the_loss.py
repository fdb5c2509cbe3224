# %% [markdown]
# # Swap the loss in five lines
#
# A training loop of plain PyTorch, in which the loss is one line: change its name and nothing else.
# The pictures are the built-in characters, and scores are of characters that no loss has seen.

# %%
import torch

import lookalike as la

images = la.data.load("glyphs")
seen = [i for i in range(len(images)) if images.labels[i] < 40]
unseen = [i for i in range(len(images)) if 1200 <= images.labels[i] < 1240]


def pixels(indices):
    rows = torch.stack([torch.from_numpy(images.decode(i)) for i in indices])
    return rows.view(len(indices), 1, 32, 32) / 255, torch.from_numpy(images.labels[indices])


x, y = pixels(seen)
test_x, test_y = pixels(unseen)
print(f"{len(x)} pictures train, {len(test_x)} pictures of other characters test")

# %% [markdown]
# The loop. `la.losses.create` takes any name that `lookalike list losses` prints.


# %%
def train(name, **settings):
    torch.manual_seed(0)
    network = la.models.build("small-cnn", channels=1, dim=32)
    loss = la.losses.create(name, **settings)
    optimizer = torch.optim.AdamW([*network.parameters(), *loss.parameters()], lr=2e-3)
    for epoch in range(4):
        for batch in la.samplers.create("spc", y, batch_size=64, per_class=4, seed=epoch):
            optimizer.zero_grad()
            loss(network(x[batch]), y[batch]).backward()
            optimizer.step()
    with torch.no_grad():
        return la.evaluate(network.eval()(test_x), test_y, ["recall@1", "map@r"])


# %%
proxies = {"num_classes": 40, "embedding_size": 32}
for name, settings in {
    "triplet": {},
    "multi-similarity": {},
    "supcon": {},
    "proxy-anchor": proxies,
}.items():
    scores = train(name, **settings)
    print(f"{name:18} Recall@1 {scores['recall@1']:.3f}   MAP@R {scores['map@r']:.3f}")

# %% [markdown]
# Four epochs with one seed rank nothing: [compare with intervals](compare_three_losses.md) before
# you say that one loss is better.
