"""Weights that no single device holds: FSDP (Zhao et al., VLDB 2023), by torch's ``fully_shard``.

Each process keeps its part of every weight of the backbone, of its gradient and of its optimiser
state, as a ``DTensor``. A block collects its weights when it is called and drops them afterwards.
The head and the parts of the loss are small and stay whole in every process. Whatever leaves the
process (checkpoints, models) is whole, so that any number of processes can read it.
"""

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from lookalike.errors import BadInput
from lookalike.models import EmbeddingModel
from lookalike.training.activation_checkpointing import blocks


def shard_backbone(model: EmbeddingModel, mesh: DeviceMesh) -> None:
    """Share the weights of the backbone out over the processes of a mesh, in place.

    Block by block, so that a device never holds the whole network; the weights are those of the
    first process.

    Args:
        model: The model, on the CPU; its head and its buffers move to the device.
        mesh: The processes.

    Raises:
        BadInput: The backbone has a weight that is one number, which cannot be shared out.
    """
    device = torch.device(mesh.device_type)
    model.backbone.to(memory_format=torch.contiguous_format)  # parts are rows of the first axis
    for name, weight in model.backbone.named_parameters():
        if weight.ndim == 0:
            raise BadInput(
                f"train.fsdp=true cannot share out '{name}' of this network, which is one number; "
                "leave train.fsdp out"
            )
        whole = weight.detach().to(device).contiguous()
        dist.broadcast(whole, 0)
        with torch.no_grad():
            weight.copy_(whole)
    for block in blocks(model.backbone.network):
        fully_shard(block, mesh=mesh)
    fully_shard(model.backbone, mesh=mesh)
    model.head.to(device)


def is_sharded(tensor: Tensor) -> bool:
    """Whether this process has a part of the tensor only."""
    return isinstance(tensor, DTensor)


def whole_copy(value: Any, *, keep: bool = True) -> Any:
    """The value with all its tensors, dictionaries, lists and tuples, in new memory of the host.

    Parts of tensors become whole: then all processes must call this.

    Args:
        value: Any value.
        keep: False: take part only, and return None.

    >>> rows = torch.zeros(2)
    >>> kept = whole_copy({"rows": [rows]})
    >>> _ = rows.add_(1)
    >>> kept
    {'rows': [tensor([0., 0.])]}
    """
    if isinstance(value, Tensor):
        whole = value.detach()
        if isinstance(whole, DTensor):
            whole = whole.full_tensor()
        return whole.to("cpu", copy=True) if keep else None
    if isinstance(value, dict):
        found = {name: whole_copy(part, keep=keep) for name, part in value.items()}
        return found if keep else None
    if isinstance(value, list | tuple):
        parts = [whole_copy(part, keep=keep) for part in value]
        return type(value)(parts) if keep else None
    return value


def as_held(value: Tensor, held: Tensor) -> Tensor:
    """A whole value as ``held`` is, if it has the shape of it: a part, or in the same layout.

    A fused optimiser goes through memory, whatever the layouts of a weight and its state say.
    """
    if is_sharded(value) or value.shape != held.shape:
        return value
    if not isinstance(held, DTensor):
        same = value.stride() == held.stride()
        return value if same else torch.empty_like(held, dtype=value.dtype).copy_(value)
    whole = value.to(held.device).contiguous()
    # every process has the whole value: each takes its part, nothing is sent
    return distribute_tensor(whole, held.device_mesh, held.placements, src_data_rank=None)


def weights_as_held(model: nn.Module, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Whole weights in the form in which ``model`` has its own."""
    held = model.state_dict()
    return {
        name: as_held(value, held[name]) if name in held else value
        for name, value in weights.items()
    }


def optimizer_state_as_held(
    optimizer: torch.optim.Optimizer, state: dict[str, Any]
) -> dict[str, Any]:
    """The whole state of an optimiser in the form in which it has its parameters."""
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    held = {
        number: {
            name: as_held(part, parameters[number].detach()) if isinstance(part, Tensor) else part
            for name, part in parts.items()
        }
        for number, parts in state["state"].items()
    }
    return state | {"state": held}


def clip_norm(parameters: Iterable[Tensor], most: float) -> None:
    """Scale all gradients such that the norm of all of them together is at most ``most``.

    Args:
        parameters: Whole ones and parts.
        most: The largest norm.
    """
    groups = [group for group in by_form(parameters) if group]
    norms = []
    for group in groups:
        norms.append(get_total_norm([one.grad for one in group if one.grad is not None]))
    total = torch.stack([n.full_tensor() if isinstance(n, DTensor) else n for n in norms]).norm()
    for group in groups:
        clip_grads_with_norm_(group, most, total)


def by_form(parameters: Iterable[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Parameters with a gradient: the whole ones, and the parts."""
    learning = [one for one in parameters if one.grad is not None]
    return (
        [one for one in learning if not is_sharded(one)],
        [one for one in learning if is_sharded(one)],
    )
