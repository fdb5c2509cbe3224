"""Weights from files: reading them, and matching them by name and shape."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from lookalike.errors import BadInput
from lookalike.files import open_regular, refuse_packed
from lookalike.models.backbone import first_convolution, fit_channels

CONTAINERS = ("state_dict", "model_state_dict", "model", "state_dict_ema")
WRAPPERS = ("module.", "_orig_mod.", "model.")
CLASSIFIERS = (
    "fc.",
    "_fc.",
    "classifier.",
    "head.",
    "heads.",
    "head_dist.",
    "last_linear.",
    "aux",
    "AuxLogits.",
)
"""Prefixes of the keys that a file may have in addition to the backbone's."""


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file or of a torch file, by name, without running its code.

    A torch file may be the state dict itself or contain it as ``state_dict``, ``model`` or
    ``model_state_dict``; prefixes that wrappers add to every name are removed.
    """
    if not path.is_file():
        raise BadInput(f"there is no weights file '{path}'")
    try:
        if path.suffix == ".safetensors":
            found: object = load_file(path)
        else:
            refuse_packed(path)
            found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # readers raise almost any exception for a file of another kind
        reason = str(error).partition("\n")[0]
        raise BadInput(
            f"'{path}' is not a weights file that can be read safely: {reason}"
        ) from error
    for name in CONTAINERS:
        if isinstance(found, Mapping) and isinstance(found.get(name), Mapping):
            found = found[name]
    named = found.items() if isinstance(found, Mapping) else ()
    tensors = {str(name): value for name, value in named if isinstance(value, Tensor)}
    if not tensors:
        raise BadInput(f"'{path}' contains no named tensors")
    return _unwrapped(tensors)


def _unwrapped(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    for wrapper in WRAPPERS:
        if all(name.startswith(wrapper) for name in tensors):
            return _unwrapped({name[len(wrapper) :]: value for name, value in tensors.items()})
    return tensors


def load_by_name(
    module: nn.Module,
    tensors: Mapping[str, Tensor],
    source: str,
    *,
    left_over: tuple[str, ...] = CLASSIFIERS,
) -> None:
    """Copy ``tensors`` into ``module``; refuse, and change nothing, unless every name matches.

    Additional names may begin with ``left_over``, by default those of a classifier; batch norm's
    step counters may be missing, as in old files. The kernel of the first convolution is adapted to
    the module's number of channels, and vectors saved as [1, C] are read as [C].
    """
    own = module.state_dict()
    first = f"{first_convolution(module)[0]}.weight"
    fitted: dict[str, Tensor] = {}
    wrong = []
    for name, target in own.items():
        if name not in tensors:
            continue
        value = tensors[name]
        if value.dim() == target.dim() + 1 and value.shape[0] == 1:
            value = value[0]
        if name == first and value.dim() == 4:
            value = fit_channels(value, target.shape[1])
        if value.shape == target.shape:
            fitted[name] = value
        else:
            wrong.append(f"{name} {list(value.shape)} for {list(target.shape)}")
    counters = ".num_batches_tracked"
    missing = [name for name in own if name not in tensors and not name.endswith(counters)]
    unexpected = [name for name in tensors if name not in own and not name.startswith(left_over)]
    if missing or unexpected or wrong:
        groups = (("missing", missing), ("unexpected", unexpected), ("wrong shape", wrong))
        listed = "; ".join(
            f"{len(names)} {what} ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})"
            for what, names in groups
            if names
        )
        raise BadInput(f"the weights in {source} do not fit the network: {listed}")
    module.load_state_dict({**own, **fitted})


def load_by_order(module: nn.Module, tensors: Mapping[str, Tensor], source: str) -> None:
    """Copy ``tensors`` into ``module`` in their order, for files with other names.

    Every shape is checked; tensors after the module's last one are ignored.
    """
    own = module.state_dict()
    renamed = dict(zip(own, tensors.values(), strict=False))
    for name, value in list(tensors.items())[len(own) :]:
        if not name.startswith(CLASSIFIERS):
            renamed[name] = value
    load_by_name(module, renamed, source)


def content_hash(path: Path) -> str:
    """The first 16 hex digits of the SHA-256 of a file."""
    if not path.is_file():
        raise BadInput(f"there is no weights file '{path}'")
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
