# %% [markdown]
# # Distributed: two processes, one loss
#
# Under DDP each process has a part of the batch, but pairs span all parts. `gather_rows` gathers
# the embeddings with their gradient, so that each process computes the loss of the whole batch.

# %%
import subprocess
import sys
from pathlib import Path

Path("worker.py").write_text("""
import os

import torch
import torch.distributed as dist

import lookalike as la
from lookalike.training import average_gradients, gather_rows

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
network = torch.nn.Linear(20, 8).double()
loss = la.losses.create("proxy-anchor", num_classes=4, embedding_size=8).double()
x, y = torch.randn(16, 20, dtype=torch.float64), torch.arange(16) // 4

whole = loss(network(x), y)  # what one process alone would compute
whole.backward()
alone = network.weight.grad.clone()
network.zero_grad()
loss.zero_grad()

ddp = torch.nn.parallel.DistributedDataParallel(network)
mine = slice(rank * 8, rank * 8 + 8)  # the half of this process
value = loss(gather_rows(ddp(x[mine])), gather_rows(y[mine]))
value.backward()
average_gradients(loss.parameters())
if rank == 0:
    print(f"{world} processes")
    print("the same loss:", torch.allclose(value, whole))
    print("the same gradient:", torch.allclose(network.weight.grad, alone))
dist.destroy_process_group()
""")
command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "worker.py"]
done = subprocess.run(command, capture_output=True, text=True)
print(done.stdout or done.stderr)

# %% [markdown]
# A run takes `train.devices=2`, on the command line `devices=2`, and does the same with two GPUs,
# or two processes on the CPU: [several devices](../training.md#several-devices).
