"""A training of seconds, in the variants that keep a state of their own, and its outcome."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file

from lookalike import models

__all__ = ["VARIANTS", "RunOutcome", "outcome", "settings", "trained_weights", "whole_outcome"]

COMMON = (
    "loss.name=proxy-anchor",
    "model.network=small-cnn",
    "model.weights=none",
    "model.dim=8",
    "data.name=folder",
    "data.transform=none",
    "sampler.batch_size=8",
    "sampler.per_class=2",
    "optim.schedule=cosine",
    "train.batches_per_epoch=15",
    "train.epochs=2",
    "train.checkpoint_seconds=0.05",
    "train.device=cpu",
    "protocol.metrics=[recall@1,map@r]",
)
VARIANTS: Mapping[str, tuple[str, ...]] = {
    "plain": (),
    "frozen": ("model.frozen=true", "model.frozen_views=2"),
    "memory": ("memory.size=64", "memory.start=3", "loss.name=contrastive"),
    "mixing": ("mix.where=embed", "loss.name=multi-similarity"),
    "store-sampler": ("sampler.name=d2",),
    "ema": ("train.ema=0.9",),
    "grad-cache": ("train.accumulate=2", "model.freeze_bn_statistics=true"),
    "jpeg-store": ("data.store=jpeg",),
    "mixed-precision": ("train.precision=bf16-mixed",),
    "two-processes": ("train.devices=2",),
}
"""By name: what is set besides."""


def settings(variant: str, pictures: Path, runs: Path) -> list[str]:
    """The arguments of ``lookalike`` for a variant."""
    given = {text.partition("=")[0]: text for text in (*COMMON, *VARIANTS[variant])}
    if variant == "frozen":
        given["model.weights"] = f"model.weights={trained_weights(pictures)}"
    return ["train", *given.values(), f"data.root={pictures}", f"runs_dir={runs}"]


def trained_weights(pictures: Path) -> Path:
    """A file of weights beside the pictures, as frozen features need trained ones."""
    path = pictures.with_name("weights.safetensors")
    if not path.exists():
        torch.manual_seed(0)
        built = models.build("small-cnn", weights="none", dim=0, image_size=24)
        tensors = built.backbone.state_dict()
        save_file({name.removeprefix("network."): value for name, value in tensors.items()}, path)
    return path


@dataclass(frozen=True)
class RunOutcome:
    """What must be the same, to the last bit, however often a run was disturbed."""

    result: str
    log: bytes
    weights: str
    embeddings: str


def outcome(runs: Path) -> RunOutcome | None:
    """The outcome of the only run in ``runs``; None if it has no result."""
    found = [path for path in runs.glob("*/result.json") if not path.parent.is_symlink()]
    if len(found) != 1:
        return None
    folder = found[0].parent

    def hashed(name: str) -> str:
        return hashlib.sha256((folder / name).read_bytes()).hexdigest()

    result = json.dumps(json.loads(found[0].read_text()), sort_keys=True)
    log = (folder / "metrics.jsonl").read_bytes()
    return RunOutcome(result, log, hashed("model.safetensors"), hashed("test.safetensors"))


def whole_outcome(runs: Path) -> RunOutcome:
    """The outcome of an undisturbed run, with which others are compared.

    Raises:
        RuntimeError: It has no scores.
    """
    found = outcome(runs)
    if found is None or not json.loads(found.result).get("test"):
        raise RuntimeError(f"the undisturbed run in '{runs}' has no scores: {found}")
    return found
