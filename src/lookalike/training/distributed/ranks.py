"""The rank of this process in a run, and its part of the common work.

A run on several devices consists of several processes ("ranks") that make the same steps. Only the
first one writes files. In a run of one process everything here is trivial and costs nothing.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch.distributed as dist

from lookalike.errors import LookalikeError

Made = TypeVar("Made")

NETWORK_ERRORS = ("gloo", "NCCL", "Connection closed", "Connection reset", "Broken pipe")
"""In the error message of a backend when another process has ended."""


class LostRank(LookalikeError):
    """Another process of the run has ended."""


def launched() -> bool:
    """Whether torchrun, or ``lookalike train devices=...``, started this process as a rank."""
    return dist.is_available() and dist.is_torchelastic_launched()


def rank() -> int:
    """The number of this process, from 0."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank()
    return int(os.environ["RANK"]) if launched() else 0


def world_size() -> int:
    """The number of processes of the run."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_world_size()
    return int(os.environ["WORLD_SIZE"]) if launched() else 1


def is_first() -> bool:
    """Whether this is the process that writes files.

    Returns:
        True in a run of one process too.
    """
    return rank() == 0


def own_part(count: int) -> slice:
    """The rows of ``count`` that this process has: contiguous, all as equal as possible."""
    return part_of(count, rank(), world_size())


def sizes_of(count: int) -> list[int]:
    """How many rows of ``count`` each process has."""
    parts = [part_of(count, number, world_size()) for number in range(world_size())]
    return [part.stop - part.start for part in parts]


def part_of(count: int, number: int, among: int) -> slice:
    """Part ``number`` of ``count`` rows that ``among`` processes share.

    >>> [part_of(5, number, 2) for number in range(2)]
    [slice(0, 2, None), slice(2, 5, None)]
    """
    return slice(count * number // among, count * (number + 1) // among)


def from_first(make: Callable[[], Made]) -> Made:
    """The result of ``make`` in the first process, for all; an error there is raised in all."""
    if world_size() == 1:
        return make()
    found: list[tuple[Made | None, LookalikeError | None]] = [(None, None)]
    if is_first():
        try:
            found = [(make(), None)]
        except LookalikeError as raised:
            found = [(None, raised)]
    dist.broadcast_object_list(found)
    made, error = found[0]
    if error is not None:
        raise error
    return made  # type: ignore[return-value]


def one_of_machine_first(make: Callable[[], Made]) -> Made:
    """The result of ``make`` in each process; one of this machine begins, and fills caches.

    The others wait for it. Where it fails, they end with it.
    """
    here = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    if world_size() == 1 or here == 1:
        return make()
    made: Made | None = None
    for turn in (True, False):
        if turn == (rank() % here == 0):
            made = make()
        dist.barrier()
    return made  # type: ignore[return-value]


def on_all_ranks(condition: bool) -> bool:
    """Whether it holds in every process."""
    found = [condition] * world_size()
    if world_size() > 1:
        dist.all_gather_object(found, condition)
    return all(found)


@contextmanager
def explain_lost_ranks() -> Iterator[None]:
    """Turn the error of a backend, when another process has ended, into one sentence."""
    try:
        yield
    except RuntimeError as error:
        gone = isinstance(error, dist.DistError) or any(t in str(error) for t in NETWORK_ERRORS)
        if world_size() == 1 or not gone:
            raise
        raise LostRank(
            "another process of this run has ended; the same command resumes from the last "
            "checkpoint"
        ) from error


@contextmanager
def disconnected_after() -> Iterator[None]:
    """Part from the other processes in the end, if they were connected inside.

    A process that ends connected can abort when another one has ended before it.
    """
    before = dist.is_available() and dist.is_initialized()
    with explain_lost_ranks():
        yield
        if not before and dist.is_available() and dist.is_initialized():
            dist.barrier()
            dist.destroy_process_group()
