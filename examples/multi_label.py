# %% [markdown]
# # Several labels per picture
#
# A picture with two labels is a positive of both. Labels are multi-hot rows, and `label_comparison`
# says what a shared label means.

# %%
import torch

import lookalike as la

torch.manual_seed(0)
names = ["beach", "dog", "sunset"]
rows = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 1, 1], [0, 0, 1], [1, 0, 1], [0, 1, 0]])
embeddings = torch.randn(6, 8, requires_grad=True)

# %% [markdown]
# By default one shared label makes a positive pair. `jaccard`: the pair is positive by the share of
# its labels that both have, and negative by the rest. An image and itself are no pair.

# %%
for comparison in (None, "jaccard"):
    loss = la.losses.create("contrastive", label_comparison=comparison)
    print(comparison or "one shared label")
    print(loss.relations(embeddings, rows).positives.round(decimals=2))

# %% [markdown]
# Every loss over pairs takes such labels. Here points with the same labels find one another.

# %%
many = torch.randint(0, 2, (128, 3))
many[many.sum(1) == 0, 0] = 1
points = torch.randn(128, 8, requires_grad=True)
loss = la.losses.create("multi-similarity", label_comparison="jaccard")
optimizer = torch.optim.Adam([points], lr=0.05)
for step in range(61):
    value = loss(points, many)
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
    if step % 20 == 0:
        scores = la.evaluate(points.detach(), many, ["recall@1", "map@r"])
        print(f"step {step:2}  loss {value:.3f}  Recall@1 {scores['recall@1']:.3f}")
