"""The conditions of experiments: of runs, from their configuration, and of papers, from YAML.

A paper's comparison is described like this::

    title: A new loss (Somewhere 2019)
    same: {data: cub, optimizer: adam}
    experiments:
      - {name: ours, network: resnet50, dim: 512}
      - {name: triplet, network: googlenet, dim: 64, claims: {dim: 512}, omits: [pooling]}
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lookalike.compare.audit import CONDITIONS, NO_VALIDATION, SELECTED_ON_TEST, Experiment
from lookalike.config import RunConfig, TransformConfig
from lookalike.config.keys import as_text, declared_keys, flattened
from lookalike.config.loading import plain_yaml, shown
from lookalike.data import Preset
from lookalike.data.presets import preset_name
from lookalike.errors import BadInput, did_you_mean
from lookalike.models import preset_of
from lookalike.shipped import find_shipped

KEYS = ("title", "source", "same", "experiments")
SELECTIONS = ("validation", NO_VALIDATION, SELECTED_ON_TEST)
OTHER_KEYS = ("name", "claims", "omits", "score", "note")
UNTRAINED = {
    "random": "untrained network",
    "pca": "untrained network, PCA head",
    "lda": "untrained network, LDA head",
    "auto": "untrained network, LDA head",
}
"""Names of runs without epochs, by how their head is made; LDA reads the training labels."""
LARGEST = 2**53
"""Beyond it floats are not whole numbers."""


def conditions_of(config: RunConfig, *, trials: int = 0, seeds: int = 1) -> dict[str, Any]:
    """Everything except the method, by the audit's names.

    Each field of the schema declares whether it is a condition and its name in the audit
    (:class:`lookalike.config.keys.Key`). Keys without effect are left out.
    """
    values = flattened(config.model_dump(mode="json"))
    active = {n for n, one in declared_keys(type(config)).items() if one.key.is_active(values)}
    composed = _composed(config, active)
    found: dict[str, Any] = {}
    for name, one in declared_keys(type(config)).items():
        plain = one.compared and name in values and one.condition not in composed
        if plain and name in active:
            found[one.condition] = "default" if values[name] is None else values[name]
    found |= {name: value for name, value in composed.items() if value is not None}
    return found | {"trials": trials, "seeds": seeds, "extra_data": "none", "ensemble": 1}


def _composed(config: RunConfig, active: Container[str]) -> dict[str, Any]:
    """The conditions that are formed by several keys, or are clearer than a bare value."""
    given = config.data.transform
    code = ":" in preset_name(given)  # of the user, never imported to compare results
    shape = None if code else preset_of(given, config.model.network)
    model, train = config.model, config.train
    frozen = {
        "statistics": model.freeze_bn_statistics and "model.freeze_bn_statistics" in active,
        "weights": model.freeze_bn_affine and "model.freeze_bn_affine" in active,
    }
    batches, protocol = train.batches_per_epoch, config.protocol
    words = {
        "folds": f"{protocol.folds} folds",
        "ratio": f"{protocol.ratio:g} train",
        "order": protocol.order,
    }
    classes = [text for name, text in words.items() if f"protocol.{name}" in active]
    return {
        "transform": _transform(given, shape),
        "image_size": "of the transform" if shape is None else shape.size or "as they are",
        "bn_frozen": " and ".join(name for name, on in frozen.items() if on) or "no",
        "steps": None if batches is None else train.epochs * batches,
        "protocol": ", ".join([protocol.name, *classes]),
        "selection": NO_VALIDATION if protocol.name in ("paper", "all") else "validation",
    }


def _transform(given: str | TransformConfig, shape: Preset | None) -> str:
    if isinstance(given, str):
        return given if shape is None else f"{given} ({shape.summary})"
    return (
        as_text(given.model_dump(mode="json", exclude_none=True)) if shape is None else shape.name
    )


def tuned_conditions(keys: Mapping[str, Any]) -> frozenset[str]:
    """The audit's names of the dotted keys that were tuned."""
    declared = declared_keys(RunConfig)
    return frozenset(declared[key].condition if key in declared else key for key in keys)


def varied_conditions(axes: Iterable[str]) -> frozenset[str]:
    """The audit's names of what axes vary: an axis has a common name, or is called like a key.

    >>> sorted(varied_conditions(["network", "model.dim"]))
    ['dim', 'network', 'weights']
    """
    declared = declared_keys(RunConfig)
    found: set[str] = set()
    for axis in axes:
        named = {key for key, condition in CONDITIONS.items() if axis in condition.axes.split()}
        found |= named or {declared[axis].condition if axis in declared else axis}
    return frozenset(found)


def method_name(config: RunConfig) -> str:
    """A short name of the method of a run: loss, miner, mixing, memory.

    >>> method_name(RunConfig.model_validate({"loss": {"name": "triplet"}}))
    'triplet'
    """
    if config.train.epochs == 0:
        return UNTRAINED[config.model.head_init]
    parts = [config.loss.name.rpartition(":")[2]]
    parts += [f"{config.miner.name} miner"] if config.miner else []
    parts += [f"mixing ({config.mix.where})"] if config.mix else []
    parts += ["memory"] if config.memory else []
    return " + ".join(parts)


@dataclass(frozen=True)
class Description:
    """A table of a paper: title, source and rows."""

    title: str
    source: str
    experiments: tuple[Experiment, ...]


def read_description(path: Path) -> Description:
    """Read the description of a paper's comparison."""
    found = find_shipped(path)
    if not found.is_file():
        raise BadInput(f"there is no file '{path}'")
    return describe(plain_yaml(found), str(path))


def describe(values: Mapping[str, Any], origin: str) -> Description:
    """Validate a description; error messages call it ``origin``."""
    try:
        return _described(values, Path(origin).stem)
    except BadInput as error:
        raise BadInput(f"'{origin}': {error}") from None


def _described(values: Mapping[str, Any], title: str) -> Description:
    for key in values:
        if key not in KEYS:
            raise BadInput(f"there is no key '{key}'; {did_you_mean(key, KEYS)}")
    rows = values.get("experiments")
    if not isinstance(rows, list) or len(rows) < 2:
        raise BadInput("experiments must list at least two rows to compare")
    shared = _conditions(values.get("same", {}), "same")
    experiments = tuple(_experiment(row, shared, n) for n, row in enumerate(rows, 1))
    names = [one.name for one in experiments]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadInput(f"two experiments are called '{twice[0]}'; names must differ")
    return Description(str(values.get("title", title)), str(values.get("source", "")), experiments)


def _experiment(row: Any, shared: dict[str, Any], number: int) -> Experiment:
    if not isinstance(row, dict):
        raise BadInput(f"experiment {number} must be keys and values, not {row!r}")
    name, score, omits = row.get("name"), row.get("score"), row.get("omits", [])
    if not isinstance(name, str) or not name:
        raise BadInput(f"experiment {number} has no name")
    if not isinstance(omits, list) or not all(isinstance(one, str) for one in omits):
        raise BadInput(f"omits of '{name}' must be a list of conditions")
    if score is not None and not (_is_number(score) and abs(score) <= LARGEST):
        raise BadInput(f"score of '{name}' = {shown(score)} must be a number")
    own = {key: value for key, value in row.items() if key not in OTHER_KEYS}
    conditions = shared | _conditions(own, f"'{name}'")
    _conditions(dict.fromkeys(omits), f"omits of '{name}'")
    return Experiment(
        name,
        {key: value for key, value in conditions.items() if value is not None},
        _conditions(row.get("claims", {}), f"claims of '{name}'"),
        tuple(omits),
        score=None if score is None else float(score),
    )


def _conditions(values: Any, place: str) -> dict[str, Any]:
    """The same conditions, each known and with a value that it can have."""
    if not isinstance(values, dict):
        raise BadInput(f"{place} must be keys and values, not {values!r}")
    for key, value in values.items():
        if key not in CONDITIONS:
            word = str(key).lower().replace("-", "_").replace(" ", "_")
            meant = next((k for k, c in CONDITIONS.items() if word in c.other_words.split()), "")
            close = f"it is called '{meant}'" if meant else did_you_mean(key, CONDITIONS)
            raise BadInput(
                f"{place}: there is no condition '{key}'; {close} ('lookalike audit --keys' lists "
                "all)"
            )
        if key == "selection" and value is not None and value not in SELECTIONS:
            close = did_you_mean(value, SELECTIONS)
            raise BadInput(f"{place}: selection = {value!r} is invalid; {close}")
        whole = isinstance(value, int) and not isinstance(value, bool)
        if CONDITIONS[key].number and value is not None and not whole:
            raise BadInput(f"{place}: {key} = {value!r} must be a whole number")
        if _is_number(value) and not abs(value) <= LARGEST:
            raise BadInput(f"{place}: {key} = {shown(value)} is too large or not a number")
        if isinstance(value, dict | list):
            raise BadInput(f"{place}: {key} must be one value")
    return values


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
