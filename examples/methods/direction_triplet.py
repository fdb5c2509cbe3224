"""Triplet loss with direction regularisation (DR).

A triplet counts more where pulling the positive and pushing the negative go in the same direction:
the gradient is steered so that it also separates the negative from the positive.

Paper: Mohan, Sankaran, Fedorishin, Setlur and Govindaraju, "Moving in the Right Direction: A
    Regularization for Deep Metric Learning", CVPR 2020
As in the paper: the cosine between the directions to the positive and to the negative, weighed and
    added to each triplet.
Not the paper's: its weight; semi-hard triplets of a small batch; network (GoogLeNet or ResNet
    there), data, rates and number of steps.
"""

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
distance = la.distances.LpDistance(power=2)
miner = la.miners.SemiHardMiner(margin=0.2, distance=distance)
loss = la.losses.TripletMarginLoss(margin=0.2, distance=distance, direction=0.1)
sampler = la.samplers.create("spc", train_labels, batch_size=64, per_class=4, seed=0)
optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)

before = recall_at_1()
for epoch in range(4):
    for batch in sampler:
        embeddings, y = network(train_images[batch]), train_labels[batch]
        value = loss(embeddings, y, miner(embeddings, y))
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    print(f"epoch {epoch}  loss {value.item():.3f}")
print(f"Recall@1 before {before:.3f}  after {recall_at_1():.3f}")
