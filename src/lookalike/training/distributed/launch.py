"""The devices of a run, and its processes: one for each device, started, watched, and ended here.

The process that the user started trains nothing itself where there are several devices: it starts
the others, passes on what they report, and ends them all when one is lost. torchrun can start them
too; it reports neither progress nor errors to the process that started it.
"""

import inspect
import os
import pickle
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from lightning_fabric import Fabric
from lightning_fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from lightning_fabric.strategies.ddp import DDPStrategy
from torch.multiprocessing.spawn import (
    ProcessContext,
    ProcessExitedException,
    ProcessRaisedException,
    start_processes,
)
from torch.nn.parallel import DistributedDataParallel

from lookalike.config import RunConfig, TrainConfig
from lookalike.data import ImageSet
from lookalike.errors import BadInput, LookalikeError
from lookalike.ops.device import keep_freed_memory
from lookalike.progress import Watcher
from lookalike.signals import Interrupted, stop_signals
from lookalike.training.distributed.ranks import LostRank, launched, world_size

UNSYNCED = (
    "forward_sync_buffers"
    if "forward_sync_buffers" in inspect.signature(DistributedDataParallel).parameters
    else "broadcast_buffers"  # what older versions of torch call it
)
TIMEOUT = timedelta(minutes=30)
"""How long a process waits for another one, which may be writing or clustering."""
GRACE_SECONDS = 10.0
"""Time for the other processes to end by themselves after one has ended."""
POLL_SECONDS = 0.1


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


class ReportingWatcher(Watcher):
    """Sends everything to the process that started this one."""

    def __init__(self, connection: "Connection[Any, Any]") -> None:
        self.connection = connection

    def stage(self, name: str, done: int, total: int, detail: str = "") -> None:
        """Report a stage."""
        self.connection.send(("stage", (name, done, total, detail)))

    def note(self, text: str) -> None:
        """Report a line."""
        self.connection.send(("note", (text,)))


def launch(config: RunConfig, watcher: Watcher, images: ImageSet) -> None:
    """Train what ``config`` describes with ``train.devices`` processes on this machine.

    They are given ``images``, so that not each of them looks at every file again.
    """
    try:
        sent: bytes | None = pickle.dumps(images)
    except Exception:  # what a user's data set has may not be made for travelling
        sent = None
    with tempfile.TemporaryDirectory(prefix="lookalike-") as name, stop_signals() as signals:
        ranks = RankProcesses(config, sent, Path(name))
        try:
            ranks.watch(watcher, signals)
        except (ProcessExitedException, ProcessRaisedException) as error:
            raise ranks.explain(error, stopped=bool(signals)) from None
        finally:
            for process in ranks.context.processes:
                process.kill()


class RankProcesses:
    """The processes of a run on this machine.

    Args:
        config: The configuration.
        images: The data set, pickled; None: they load it themselves.
        folder: For what they print.
    """

    def __init__(self, config: RunConfig, images: bytes | None, folder: Path) -> None:
        train = config.train
        self.folder = folder
        self.first = int(os.environ.get("NODE_RANK", 0)) * train.devices
        self.total = train.devices * train.nodes
        self.errors: dict[int, LookalikeError] = {}
        pipes = [get_context("spawn").Pipe(duplex=False) for _ in range(train.devices)]
        self.reports = [receiver for receiver, _ in pipes]
        senders = [sender for _, sender in pipes]
        given = (config, images, senders, rank_environment(train), folder)
        with shared_cores(train):
            start: Any = start_processes
            self.context: ProcessContext = start(work, given, train.devices, join=False)
        for sender in senders:
            sender.close()

    def watch(self, watcher: Watcher, signals: list[int]) -> None:
        """Pass on reports until all have ended, or one has failed and the others are ended."""
        stopping = False
        try:
            while not self.context.join(POLL_SECONDS, GRACE_SECONDS):
                self.forward_reports(watcher)
                if signals and not stopping:
                    stopping = True
                    self.stop()
        finally:
            self.forward_reports(watcher)

    def forward_reports(self, watcher: Watcher) -> None:
        """Pass on what the processes have reported."""
        while ready := [report for report in self.reports if report.poll()]:
            for report in ready:
                try:
                    kind, values = report.recv()
                except (EOFError, OSError):  # its process has ended
                    self.reports.remove(report)
                    continue
                if kind == "error":
                    self.errors.update([values])
                else:
                    getattr(watcher, kind)(*values)

    def stop(self) -> None:
        """Let the process that writes save and end, and with it the others."""
        if self.first == 0:
            self.context.processes[0].terminate()
            return
        for process in self.context.processes:
            process.kill()

    def explain(
        self, error: ProcessExitedException | ProcessRaisedException, stopped: bool
    ) -> LookalikeError:
        """The first error that a process reported, or which process was lost, and how."""
        own = [one for _, one in sorted(self.errors.items()) if not isinstance(one, LostRank)]
        if own:
            return own[0]
        if stopped:
            return Interrupted("stopped; the same command resumes from the last checkpoint")
        codes = {number: one.exitcode for number, one in enumerate(self.context.processes)}
        silent = [number for number, code in codes.items() if code and number not in self.errors]
        if not silent:  # the lost one is of another machine
            return self.errors[error.error_index]
        number = error.error_index if error.error_index in silent else silent[0]
        code, name = codes[number] or 0, f"process {self.first + number} of {self.total}"
        if code < 0:
            reason = f"{name} was killed by {signal.Signals(-code).name}"
        else:
            text = self.folder.joinpath(f"{number}").read_text(encoding="utf-8", errors="replace")
            if number == error.error_index:
                text += str(error)
            sys.stderr.write(text)
            reason = f"{name} failed: {text.strip().splitlines()[-1]}"
        return LookalikeError(f"{reason}; the same command resumes from the last checkpoint")


def work(
    number: int,
    config: RunConfig,
    images: bytes | None,
    reports: "list[Connection[Any, Any]]",
    environment: dict[str, str],
    folder: Path,
) -> None:
    """What each process does: train, report, and end with the process that started it."""
    from lookalike.training.runner import train

    os.setsid()  # so that Ctrl-C reaches the process that started it only
    threading.Thread(target=end_with_parent, daemon=True).start()
    with (folder / f"{number}").open("w") as printed:
        os.dup2(printed.fileno(), 1)
        os.dup2(printed.fileno(), 2)
    first = int(environment["GROUP_RANK"]) * int(environment["LOCAL_WORLD_SIZE"])
    os.environ |= environment | {"RANK": str(first + number), "LOCAL_RANK": str(number)}
    try:
        found: ImageSet | None = None if images is None else pickle.loads(images)
    except Exception:  # it is loaded as the configuration says
        found = None
    try:
        train(config, ReportingWatcher(reports[number]), found)
    except LookalikeError as error:
        reports[number].send(("error", (number, error)))
        sys.exit(error.exit_code)


def end_with_parent() -> None:
    """End this process when the one that started it has ended."""
    if (parent := parent_process()) is not None:
        parent.join()
        os._exit(1)


def rank_environment(train: TrainConfig) -> dict[str, str]:
    """The variables that torchrun would set, the same for all processes of this machine."""
    single = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    return {
        **({} if train.nodes > 1 else single),
        "WORLD_SIZE": str(train.devices * train.nodes),
        "LOCAL_WORLD_SIZE": str(train.devices),
        "GROUP_RANK": os.environ.get("NODE_RANK", "0"),
        "TORCHELASTIC_RUN_ID": "lookalike",
    }


@contextmanager
def shared_cores(train: TrainConfig) -> Iterator[None]:
    """Processes that are started meanwhile share the cores, if the user has not said how.

    They import nothing from the current folder while they start.
    """
    threads = str(max(1, (os.cpu_count() or 1) // train.devices))
    values = {"OMP_NUM_THREADS": threads, "NUMBA_NUM_THREADS": threads, "PYTHONSAFEPATH": "1"}
    added = {name: value for name, value in values.items() if name not in os.environ}
    os.environ |= added
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def free_port() -> int:
    """A free port of this machine."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
