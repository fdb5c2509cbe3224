"""N-pairs: each class's positive against the positives of the other classes.

A batch has two images of each class: one is the anchor, the other is the positive of its class and
a negative of all other classes.

Paper: Sohn, "Improved Deep Metric Learning with Multi-class N-pair Loss Objective", NeurIPS 2016,
    https://proceedings.neurips.cc/paper/2016/hash/6b180037abbebea991d8b1232f8a8ca9-Abstract.html
As in the paper: inner products of embeddings that are not normalised, two images per class, a
    penalty on their lengths.
Not the paper's: the weight of that penalty; network (GoogLeNet or ResNet there), data, rates and
    number of steps.
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
loss = la.losses.NPairsLoss()
sampler = la.samplers.create("spc", train_labels, batch_size=64, per_class=2, seed=0)
optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)

before = recall_at_1()
for epoch in range(4):
    for batch in sampler:
        embeddings = network(train_images[batch])
        value = loss(embeddings, train_labels[batch]) + 2e-3 * embeddings.square().sum(1).mean()
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    print(f"epoch {epoch}  loss {value.item():.3f}")
print(f"Recall@1 before {before:.3f}  after {recall_at_1():.3f}")
