"""The conditions of a real run, from its configuration: all that is not its method."""

from collections.abc import Mapping
from typing import Any

from lookalike.compare.audit import NO_VALIDATION
from lookalike.config import RunConfig
from lookalike.config.keys import declared_keys, flattened
from lookalike.data import preset

__all__ = ["conditions_of", "method_name", "tuned_conditions"]


def conditions_of(config: RunConfig, *, trials: int = 0, seeds: int = 1) -> dict[str, Any]:
    """Everything but the method, by the audit's names.

    Which keys are conditions, and what the audit calls them, stands beside each field of the
    schema (:class:`lookalike.config.keys.Key`). Keys without effect are none.
    """
    values = flattened(config.model_dump(mode="json"))
    composed = _composed(config)
    found: dict[str, Any] = {}
    for name, one in declared_keys(type(config)).items():
        told = one.compared and name in values and one.condition not in composed
        if told and one.key.is_active(values):
            found[one.condition] = "default" if values[name] is None else values[name]
    found |= {name: value for name, value in composed.items() if value is not None}
    return found | {"trials": trials, "seeds": seeds, "extra_data": "none", "ensemble": 1}


def _composed(config: RunConfig) -> dict[str, Any]:
    """The conditions that several keys make together, or that are not told by a bare value."""
    shape = preset(config.data.transform)
    model, train = config.model, config.train
    frozen = {"statistics": model.freeze_bn_statistics, "weights": model.freeze_bn_affine}
    batches = train.batches_per_epoch
    return {
        "transform": f"{shape.name} ({shape.summary})",
        "image_size": shape.size or "as they are",
        "bn_frozen": " and ".join(name for name, on in frozen.items() if on) or "no",
        "steps": None if batches is None else train.epochs * batches,
        "protocol": _protocol(config),
        "selection": NO_VALIDATION if config.protocol.name == "paper" else "validation",
    }


def tuned_conditions(keys: Mapping[str, Any]) -> frozenset[str]:
    """The audit's names of the dotted keys that tuning chose."""
    declared = declared_keys(RunConfig)
    return frozenset(declared[key].condition if key in declared else key for key in keys)


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


def _protocol(config: RunConfig) -> str:
    protocol = config.protocol
    if protocol.name == "paper":
        return "paper"
    if protocol.name == "cross-validation":
        return f"cross-validation, {protocol.folds} folds, {protocol.order}"
    return f"fixed-validation, {protocol.ratio:g} train, {protocol.order}"
