"""The conditions of a real run, from its configuration: all that is not its method."""

from collections.abc import Mapping
from typing import Any

from lookalike.config import WITHOUT_EFFECT, RunConfig
from lookalike.data import preset
from lookalike.study.audit import NO_VALIDATION

__all__ = ["conditions_of", "flattened", "method_name", "tuned_conditions"]

METHOD = ("loss", "miner", "mix", "memory", "sampler", "regularizer")
"""Sections that are the method itself; of the sampler all but the batch size."""

NAMES = {
    "model.network": "network",
    "model.weights": "weights",
    "model.dim": "dim",
    "model.pooling": "pooling",
    "sampler.batch_size": "batch_size",
    "train.epochs": "epochs",
    "optim.name": "optimizer",
    "optim.lr": "lr",
    "optim.weight_decay": "weight_decay",
    "optim.schedule": "schedule",
    "data.transform": "transform",
    "data.name": "data",
}
"""What a key of the configuration is called in the audit; other keys keep their own name."""

NO_MATTER = (
    *WITHOUT_EFFECT,
    "seed",
    "optim.loss_lr",  # moves the loss's own weights: a part of the method
    "optim.loss_weight_decay",
    "model.normalize",  # what the loss is given; tests compare directions, whatever the lengths
    "train.device",
    "train.channels_last",
    "train.compile",
    "train.activation_checkpointing",  # computes the same values twice, to save memory
    "train.eval_batch_size",
    "train.batches_per_epoch",  # told as steps
    "protocol.fold",
    "protocol.test",
    "protocol.metrics",
    "model.freeze_bn_statistics",  # told as bn_frozen
    "model.freeze_bn_affine",
)
"""Keys that are no condition: they have no effect, are the method's own, or are told elsewhere."""

MATTERS_ONLY = {
    "optim.step_size": ("optim.schedule", ("step",)),
    "optim.gamma": ("optim.schedule", ("step",)),
    "optim.momentum": ("optim.name", ("rmsprop", "sgd")),
    "model.head_shrink": ("model.head_init", ("lda",)),
    "model.frozen_views": ("model.frozen", (True,)),
}
"""Keys that have an effect only while another key has one of some values."""


def conditions_of(config: RunConfig, *, trials: int = 0, seeds: int = 1) -> dict[str, Any]:
    """Everything but the method, by the audit's names."""
    values = flattened(config.model_dump(mode="json"))
    found: dict[str, Any] = {}
    for key, value in values.items():
        if _concerns(key, values):
            found[NAMES.get(key, key)] = "default" if value is None else value
    shape = preset(config.data.transform)
    found["transform"] = f"{shape.name} ({shape.summary})"
    found["image_size"] = shape.size or "as they are"
    statistics, affine = config.model.freeze_bn_statistics, config.model.freeze_bn_affine
    frozen = [name for name, on in (("statistics", statistics), ("weights", affine)) if on]
    found["bn_frozen"] = " and ".join(frozen) or "no"
    if config.train.batches_per_epoch is not None:
        found["steps"] = config.train.epochs * config.train.batches_per_epoch
    blind = config.protocol.name == "paper"
    found["protocol"] = _protocol(config)
    found["selection"] = NO_VALIDATION if blind else "validation"
    return found | {"trials": trials, "seeds": seeds, "extra_data": "none", "ensemble": 1}


def tuned_conditions(keys: Mapping[str, Any]) -> frozenset[str]:
    """The audit's names of the dotted keys that tuning chose."""
    return frozenset(NAMES.get(key, key) for key in keys)


def method_name(config: RunConfig) -> str:
    """What a run tries, in a few words: loss, miner, mixing, memory.

    >>> method_name(RunConfig.model_validate({"loss": {"name": "triplet"}}))
    'triplet'
    """
    if config.train.epochs == 0:
        return "untrained network"
    parts = [config.loss.name.rpartition(":")[2]]
    parts += [f"{config.miner.name} miner"] if config.miner else []
    parts += [f"mixing ({config.mix.where})"] if config.mix else []
    parts += ["memory"] if config.memory else []
    return " + ".join(parts)


def flattened(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as dotted keys.

    >>> flattened({"optim": {"lr": 1}, "seed": 2})
    {'optim.lr': 1, 'seed': 2}
    """
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found |= flattened(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def _concerns(key: str, values: Mapping[str, Any]) -> bool:
    if key in NO_MATTER or key.startswith("protocol."):
        return False
    if key.partition(".")[0] in METHOD and key != "sampler.batch_size":
        return False
    cut = values.get("model.frozen_until") is not None
    if key == "model.frozen_until" or (key == "model.frozen_views" and cut):
        return cut
    if key in MATTERS_ONLY:
        other, choices = MATTERS_ONLY[key]
        return values.get(other) in choices
    return True


def _protocol(config: RunConfig) -> str:
    protocol = config.protocol
    if protocol.name == "paper":
        return "paper"
    if protocol.name == "cross-validation":
        return f"cross-validation, {protocol.folds} folds, {protocol.order}"
    return f"fixed-validation, {protocol.ratio:g} train, {protocol.order}"
