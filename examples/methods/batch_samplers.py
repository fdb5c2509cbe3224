"""Batches chosen by embeddings: SPC, greedy coreset (GC) and distance matching (DDM).

SPC-n takes n images of each of some classes. GC picks images that are far from one another; DDM
picks the batch whose distances are distributed most like those of a large pool. Both read a store
of embeddings, which each batch brings up to date.

Paper: Roth, Milbich, Sinha, Gupta, Ommer and Cohen, "Revisiting Training Strategies and
    Generalization Performance in Deep Metric Learning", ICML 2020,
    https://arxiv.org/abs/2002.08473
As in the paper: two images per class, a store of embeddings filled before the first batch.
Not the paper's: a pool of 512 images, batches of 64 (112 there), multi-similarity; network
    (GoogLeNet or ResNet there), data, rates and number of steps.
"""

import copy

import numpy as np
import torch
from torch import nn

import lookalike as la

torch.manual_seed(0)

# Data: characters drawn in several fonts. The first 400 characters train, 400 others test.
glyphs = la.data.load("glyphs")
images = torch.from_numpy(np.stack([glyphs.decode(i) for i in range(len(glyphs.labels))]))
images = 1 - images.permute(0, 3, 1, 2).float() / 255
labels = torch.from_numpy(glyphs.labels)
train, test = labels < 400, labels >= labels.max() - 399
train_images, train_labels = images[train], labels[train]
test_images, test_labels = images[test], labels[test]

# Model: a small network; the losses normalise the embeddings themselves.
network = nn.Sequential(
    nn.Conv2d(1, 32, 3, stride=2, padding=1),
    nn.ReLU(),
    nn.Conv2d(32, 64, 3, stride=2, padding=1),
    nn.ReLU(),
    nn.Conv2d(64, 128, 3, stride=2, padding=1),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(128 * 4 * 4, 64),
)


def recall_at_1() -> float:
    """The share of test images whose nearest other test image is of their class."""
    with torch.no_grad():
        embeddings = network(test_images)
    return la.evaluate(embeddings, test_labels, ["recall@1"])["recall@1"]


# Method
loss = la.losses.MultiSimilarityLoss(alpha=2, beta=50, base=0.5)
initial = copy.deepcopy(network.state_dict())
print(f"Recall@1 before {recall_at_1():.3f}")
for name in ("spc", "gc", "ddm"):
    network.load_state_dict(initial)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    sampler = la.samplers.create(name, train_labels, batch_size=64, per_class=2, seed=0)
    if sampler.uses_embeddings:
        with torch.no_grad():
            sampler.fill(network(train_images))
    for _ in range(3):
        for batch in sampler:
            embeddings = network(train_images[batch])
            sampler.observe(torch.tensor(batch), embeddings)
            value = loss(embeddings, train_labels[batch])
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
    print(f"Recall@1 after {recall_at_1():.3f} with batches by {name}")
