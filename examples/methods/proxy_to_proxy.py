"""Proxy-to-proxy: images are pulled to their proxy, proxies push one another.

As proxy-anchor for the pull; the push is between the proxies themselves, so it does not depend on
what is in the batch.

Paper: Psomas, "Metric Learning: A Deep Dive", thesis, 2020, variant 1
As in the paper: margin 0.1, alpha 32.
Not the paper's: random batches of 64; network (GoogLeNet or ResNet there), data, rates and number
    of steps.
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
loss = la.losses.create("proxy-to-proxy-1", num_classes=400, embedding_size=64)
sampler = la.samplers.create("random", train_labels, batch_size=64, seed=0)
optimizer = torch.optim.Adam(
    [
        {"params": network.parameters(), "lr": 3e-4},
        {"params": loss.parameters(), "lr": 3e-2},
    ]
)

before = recall_at_1()
for epoch in range(8):
    for batch in sampler:
        value = loss(network(train_images[batch]), train_labels[batch])
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    print(f"epoch {epoch}  loss {value.item():.3f}")
print(f"Recall@1 before {before:.3f}  after {recall_at_1():.3f}")
