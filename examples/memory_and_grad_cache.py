# %% [markdown]
# # More candidates than a batch: memory and GradCache
#
# Two ways to more negatives without more memory on the device. Cross-batch memory compares a batch
# with embeddings of former batches, which are a little old. GradCache passes a large batch in
# chunks, and its gradient is exactly that of the whole batch.

# %%
import torch

import lookalike as la
from lookalike.memory import CrossBatchMemory

torch.manual_seed(0)
network = torch.nn.Linear(20, 8)
loss = CrossBatchMemory(la.losses.create("contrastive"), embedding_size=8, memory_size=256)
for step in range(4):
    x, y = torch.randn(32, 20), torch.arange(32) // 4
    loss(network(x), y).backward()
    print(f"step {step}: a batch of 32 is compared with {min(32 * (step + 1), 256)} embeddings")

# %% [markdown]
# GradCache by hand, in float64, to show that nothing is lost: embed without a graph, take the
# gradient of the loss by the embeddings, then pass each chunk again with its part of it.

# %%
network = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
network, x = network.double(), torch.randn(64, 20, dtype=torch.float64)
y = torch.arange(64) // 4
loss = la.losses.create("multi-similarity")

loss(network(x), y).backward()
whole = [p.grad.clone() for p in network.parameters()]
network.zero_grad()

with torch.no_grad():
    cached = network(x)
cached.requires_grad_()
loss(cached, y).backward()
for chunk, gradient in zip(x.split(16), cached.grad.split(16), strict=True):
    network(chunk).backward(gradient)
differences = [
    (p.grad - g).abs().max().item() for p, g in zip(network.parameters(), whole, strict=True)
]
print("the gradients agree:", max(differences) < 1e-12)

# %% [markdown]
# In a run both are settings.

# %%
settings = {
    "data.name": "glyphs",
    "data.transform": "glyphs",
    "model.network": "small-cnn",
    "model.dim": 16,
    "sampler.batch_size": 64,
    "train.epochs": 1,
    "train.batches_per_epoch": 8,
    "protocol.test": False,
    "runs_dir": "runs",
}
for more in ({"memory.size": 512, "memory.start": 2}, {"train.accumulate": 4}):
    run = la.train(settings=settings | more, progress=False)
    print(more, f"MAP@R on validation classes {run.result['validation']['map@r']:.3f}")
