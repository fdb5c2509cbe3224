"""A network with its test transform, stored in a folder: settings and weights, no pickle."""

import copy
import json
from pathlib import Path
from typing import Any, Literal, Self

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from lookalike import models
from lookalike.config import RunConfig, TransformConfig
from lookalike.config.schema import MOST_DIM
from lookalike.data import Preset
from lookalike.data.image_set import digest
from lookalike.data.presets import preset_name
from lookalike.errors import BadInput, LookalikeError
from lookalike.files import atomically, parse_json, read_text, seal, unseal
from lookalike.inference.encoder import Encoder
from lookalike.models import EmbeddingModel
from lookalike.models.hubs import HUBS
from lookalike.models.weights import load_by_name, read_tensors
from lookalike.runs.run import Run, model_tensors

FORMAT = "lookalike-model"
VERSION = 1
SETTINGS, WEIGHTS = "model.json", "weights.safetensors"
"""The files of a model."""


class Blueprint(BaseModel):
    """What is needed to build a network again, except its weights.

    Args:
        network: Its name.
        dim: The size of the embedding; 0: the pooled features as they are.
        pooling: How the feature map is pooled.
        layer_norm: Whether the pooled features are normalized before the linear layer.
        normalize: Whether the network itself scales embeddings to unit length.
        channels: 3 for colour, 1 for grey.
        transform: The preset by which pictures become its input.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    network: str
    dim: int = Field(ge=0, le=MOST_DIM)
    pooling: str = "avg"
    layer_norm: bool = False
    normalize: bool = True
    channels: Literal[1, 3] = 3
    transform: str | TransformConfig = "small"

    def build(self) -> EmbeddingModel:
        """The network with random weights."""
        settings = self.model_dump(exclude={"network", "transform"})
        return models.build(self.network, **settings, image_size=self.preset.size)

    @property
    def preset(self) -> Preset:
        """The transforms."""
        return models.preset_of(self.transform, self.network)

    def settings(self) -> dict[str, Any]:
        """What is set, for JSON."""
        return self.model_dump(mode="json", exclude_none=True)

    def refuse_foreign_transform(self) -> None:
        """Refuse transforms that are code to import."""
        name = preset_name(self.transform)
        if ":" in name:
            raise BadInput(f"the transform '{name}' is code that a model's folder must not name")

    def refuse_foreign_code(self) -> None:
        """Refuse a network that is code to import: the model may come from an untrusted source."""
        self.refuse_foreign_transform()
        hub = self.network.rpartition(":")[0]
        if hub and hub not in HUBS:
            raise BadInput(
                f"the network '{self.network}' is code that a model's folder must not name; "
                "give it a name by the entry point 'lookalike.networks'"
            )


class Embedder(Encoder):
    """A torch network that turns pictures into unit vectors.

    ``model.features`` computes the feature map of a batch and ``model.embed`` the embedding of a
    map; ``prepare`` and ``batch`` make the batch from pictures.

    Args:
        model: The network with its weights.
        blueprint: How to build it again.
        origin: What is known about its training, for the model card.

    >>> from PIL import Image
    >>> embedder = Embedder.from_network("small-cnn", weights="none")
    >>> embedder.embed([Image.new("RGB", (64, 64))]).shape == (1, embedder.dim)
    True
    """

    def __init__(
        self, model: EmbeddingModel, blueprint: Blueprint, origin: dict[str, Any] | None = None
    ) -> None:
        model.eval().requires_grad_(False).to(memory_format=torch.channels_last)
        self.model = copy.copy(model)  # the same weights with views of its own
        self.model.views = blueprint.preset.views
        self.blueprint = blueprint
        self.origin = origin or {}
        preset, mark = blueprint.preset, fingerprint(blueprint, model)
        normalisation = preset.normalisation(model.normalisation)
        super().__init__(preset, normalisation, model.dim, mark)

    @classmethod
    def open(cls, folder: Path | str) -> Self:
        """The model of a run's folder, of a folder with an exported one, or ``hub:OWNER/NAME``."""
        if str(folder).startswith("hub:"):
            from lookalike.inference.hub import from_hub

            found = from_hub(str(folder))
            return cls(found.model, found.blueprint, found.origin)
        folder = Path(folder)
        if (folder / SETTINGS).is_file():
            return cls.load(folder)
        if not folder.is_dir():
            raise BadInput(f"there is no run or model '{folder}'")
        return cls.from_run(folder)

    @classmethod
    def from_run(cls, folder: Path | str) -> Self:
        """The chosen model of the finished run in ``folder``."""
        run = Run(Path(folder))
        config, result = run.config, run.result
        tensors = model_tensors(run)
        blueprint = of_config(config, run.transform, tensors)
        model = blueprint.build()
        load_by_name(model, tensors, f"'{run.weights}'", left_over=())
        origin = {"run": run.folder.name, "data": config.data.name, "result": result}
        return cls(model, blueprint, origin)

    @classmethod
    def from_network(
        cls,
        network: str,
        *,
        weights: str = "imagenet",
        transform: str | TransformConfig = "small",
        pooling: str = "avg",
    ) -> Self:
        """A pretrained network as it is: its pooled features are the embedding.

        Args:
            network: Its name.
            weights: "imagenet", "none" (random weights) or a file.
            transform: The preset by which pictures become its input, or keys of
                ``data.transform``.
            pooling: How the feature map is pooled.
        """
        blueprint = Blueprint(network=network, dim=0, pooling=pooling, transform=transform)
        size = blueprint.preset.size  # refuses it before weights are fetched
        model = models.build(network, weights=weights, dim=0, pooling=pooling, image_size=size)
        return cls(model, blueprint, {"network": network, "weights": Path(weights).name})

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """The model that :meth:`save` wrote to ``folder``; a damaged one is refused."""
        folder = Path(folder)
        settings = read_settings(folder)
        return cls._restored(settings, read_tensors(folder / WEIGHTS), str(folder))

    @classmethod
    def unpack(cls, settings: str, weights: bytes, place: str) -> Self:
        """The model that :meth:`pack` packed."""
        try:
            tensors = load_tensors(weights)
        except Exception as error:  # the reader's own errors
            raise BadInput(f"the model in '{place}' is damaged: its weights") from error
        return cls._restored(settings, tensors, place)

    @classmethod
    def _restored(cls, settings: str, tensors: dict[str, Tensor], place: str) -> Self:
        """A model from the text of its ``model.json`` and its weights."""
        blueprint, named, origin = parse_settings(settings, place)
        model = blueprint.build()
        load_by_name(model, tensors, f"'{place}'", left_over=())
        embedder = cls(model, blueprint, origin)
        if embedder.fingerprint != named:
            raise BadInput(f"the model in '{place}' is damaged: its weights have been changed")
        return embedder

    def save(self, folder: Path | str) -> None:
        """Write ``model.json`` and ``weights.safetensors`` to ``folder``."""
        self.blueprint.refuse_foreign_code()
        folder = Path(folder)
        settings, weights = self.pack()
        with atomically(folder / WEIGHTS) as draft:
            draft.write_bytes(weights)
        with atomically(folder / SETTINGS) as draft:
            draft.write_text(settings, encoding="utf-8")

    def pack(self) -> tuple[str, bytes]:
        """The text of ``model.json`` and the weights, for a table or another process."""
        tensors = {name: t.contiguous() for name, t in self.model.state_dict().items()}
        return json.dumps(seal(self.record()), indent=2, ensure_ascii=False) + "\n", save_tensors(
            tensors
        )

    def record(self) -> dict[str, Any]:
        """The content of ``model.json``."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "blueprint": self.blueprint.settings(),
            "fingerprint": self.fingerprint,
            "origin": self.origin,
        }

    @torch.inference_mode()
    def run(self, batch: Tensor) -> Tensor:
        """The embeddings of a batch."""
        found: Tensor = self.model(batch)
        return found


def read_settings(folder: Path) -> str:
    """The text of a model's ``model.json``."""
    try:
        return read_text(folder / SETTINGS)
    except OSError as error:
        raise BadInput(f"'{folder}' does not hold a model: cannot read {SETTINGS}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"the model in '{folder}' is damaged: {SETTINGS}") from error


def parse_settings(settings: str, place: str) -> tuple[Blueprint, str, dict[str, Any]]:
    """The blueprint, fingerprint and origin of a model, which may be a stranger's.

    Args:
        settings: The text of its ``model.json``.
        place: Where it is, for messages.

    Raises:
        BadInput: It is damaged, of another version, or names code to import.
    """
    try:
        record = unseal(parse_json(settings))
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise BadInput(f"'{place}' does not hold a model of lookalike")
        if record["version"] != VERSION:
            raise BadInput(
                f"the model in '{place}' has version {record['version']}, "
                f"and this lookalike reads version {VERSION}"
            )
        blueprint = Blueprint.model_validate(record["blueprint"])
        named, origin = record["fingerprint"], dict(record["origin"])
    except (KeyError, TypeError, ValueError, ValidationError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"the model in '{place}' is damaged: {SETTINGS}") from error
    blueprint.refuse_foreign_code()
    return blueprint, named, origin


def of_config(
    config: RunConfig, transform: str | TransformConfig, tensors: dict[str, Tensor]
) -> Blueprint:
    """The blueprint of a run's model; the weights tell whether its input is grey or colour."""
    shared = {"network", "dim", "pooling", "layer_norm", "normalize"}
    settings = config.model.model_dump(include=shared)
    blueprint = Blueprint(**settings, transform=transform)
    for path, layer in blueprint.build().named_modules():
        if isinstance(layer, nn.Conv2d):
            kernel = tensors.get(f"{path}.weight")
            if kernel is not None and kernel.dim() == 4 and kernel.shape[1] == 1:
                return blueprint.model_copy(update={"channels": 1})
            break
    return blueprint


def fingerprint(blueprint: Blueprint, model: EmbeddingModel) -> str:
    """A hash of the network's architecture, its transform and every weight."""
    parts: list[Any] = [json.dumps(blueprint.settings(), sort_keys=True)]
    for name, tensor in sorted(model.state_dict().items()):
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        parts += [f"{name} {tensor.dtype} {list(tensor.shape)}", flat.view(torch.uint8).numpy()]
    if any(torch.isnan(tensor).any() for tensor in model.state_dict().values()):
        raise LookalikeError("the network has weights that are NaN")
    return digest(*parts)
