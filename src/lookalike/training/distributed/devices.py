"""The devices of a run: their number and kind, and the connection between their processes."""

import inspect
import os
from datetime import timedelta
from typing import Any

from lightning_fabric import Fabric
from lightning_fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from lightning_fabric.strategies.ddp import DDPStrategy
from torch.nn.parallel import DistributedDataParallel

from lookalike.config import RunConfig, TrainConfig
from lookalike.errors import BadInput
from lookalike.ops.device import keep_freed_memory
from lookalike.training.distributed.ranks import launched, world_size

UNSYNCED = (
    "forward_sync_buffers"
    if "forward_sync_buffers" in inspect.signature(DistributedDataParallel).parameters
    else "broadcast_buffers"  # what older versions of torch call it
)
TIMEOUT = timedelta(minutes=30)
"""How long a process waits for another one, which may be writing or clustering."""


def is_first_machine(train: TrainConfig) -> bool:
    """Whether the process that writes files runs on this machine."""
    return train.nodes == 1 or int(os.environ.get("NODE_RANK", 0)) == 0


def must_launch(config: RunConfig) -> bool:
    """Whether the processes of the run have still to be started."""
    return not launched() and config.train.devices * config.train.nodes > 1


def check_devices(config: RunConfig) -> None:
    """Refuse a batch that cannot be shared by the processes, before any is started."""
    train = config.train
    configured = train.devices * train.nodes
    processes = world_size() if launched() else configured
    if configured not in (1, processes):
        raise BadInput(
            f"train.devices = {train.devices} times train.nodes = {train.nodes} is not the "
            f"{processes} processes that torchrun has started; leave them out"
        )
    batch = int(config.sampler.arguments.get("batch_size", processes))
    if batch < processes:
        raise BadInput(f"sampler.batch_size = {batch} cannot be shared by {processes} processes")
    if train.accumulate > max(1, batch // processes):
        raise BadInput(
            f"train.accumulate = {train.accumulate} is more than the {max(1, batch // processes)} "
            "images of a batch that a process has"
        )
    if must_launch(config):
        if train.nodes > 1 and not {"MASTER_ADDR", "MASTER_PORT", "NODE_RANK"} <= set(os.environ):
            raise BadInput(
                f"train.nodes = {train.nodes} needs MASTER_ADDR, MASTER_PORT and NODE_RANK in the "
                "environment of every machine; or start it with torchrun"
            )
        fabric_for(train, train.devices, train.nodes)


def may_be_unused(config: RunConfig) -> bool:
    """Whether parameters that learn may have no gradient in some step.

    Those of a backbone that warms up have none, parts that are called one by one have theirs in
    several passes, and a network of the user's own may have unused parts. All other networks have
    none (``lookalike.models`` freezes what has no influence).
    """
    parts = config.mix is not None and config.mix.where == "feature"
    network = config.model.network
    foreign = ":" in network and network.partition(":")[0] not in ("timm", "torchvision")
    return bool(config.optim.warmup_epochs) or parts or foreign


def prepared_fabric(config: TrainConfig, *, find_unused: bool = True) -> Fabric:
    """Fabric with the devices and the precision of a run, its processes connected.

    With ``find_unused``, several processes look in every step for parameters without a gradient.
    """
    if world_size() == 1:
        return fabric_for(config, 1, 1)
    here = int(os.environ["LOCAL_WORLD_SIZE"])
    unsynced: dict[str, Any] = {UNSYNCED: False}  # batch norm shares them by itself
    strategy = DDPStrategy(
        cluster_environment=TorchElasticEnvironment(),
        timeout=TIMEOUT,
        find_unused_parameters=find_unused,
        **unsynced,
    )
    fabric = fabric_for(config, here, world_size() // here, strategy)
    fabric.launch()
    return fabric


def fabric_for(
    config: TrainConfig, devices: int, nodes: int, strategy: DDPStrategy | str = "auto"
) -> Fabric:
    """Fabric; BadInput with the reason if the devices are not available."""
    precision: Any = config.precision
    try:
        fabric = Fabric(
            accelerator=config.device,
            devices=devices,
            num_nodes=nodes,
            strategy=strategy,
            precision=precision,
        )
    except (RuntimeError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise BadInput(f"train.device = {config.device!r} cannot be used: {reason}") from error
    if fabric.device.type == "cpu" and config.precision == "16-mixed":
        raise BadInput("train.precision = '16-mixed' needs a GPU; on a CPU use 'bf16-mixed'")
    if fabric.device.type == "cpu":
        # Fabric makes torch load the driver's library to look for a GPU, at every optimiser step;
        # a run on the CPU does not need it.
        os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "0"
        keep_freed_memory()
    return fabric
