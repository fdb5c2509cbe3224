"""A model's way to a hub of models and back: two files and a card, no code, no pickle."""

import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from lookalike.errors import BadInput, LookalikeError
from lookalike.inference.embedder import Embedder
from lookalike.inference.export import export

__all__ = ["PREFIX", "from_hub", "to_hub"]

PREFIX = "hub:"
FILES = ("model.json", "weights.safetensors")


def from_hub(name: str) -> Embedder:
    """The model of a repository on the hub, from its cache if it was fetched before.

    Args:
        name: ``hub:OWNER/NAME``, perhaps with ``@REVISION``.

    Returns:
        The embedder. A network that is code to import is refused, as in any folder.

    Raises:
        BadInput: The name is wrong, or the repository holds no model of lookalike.
        LookalikeError: The hub cannot be reached, or refuses.
    """
    repository, _, revision = name.removeprefix(PREFIX).partition("@")
    if repository.count("/") != 1:
        raise BadInput(f"'{name}' names no model on a hub; write {PREFIX}OWNER/NAME")
    hub = _hub()
    try:
        first, *_ = [
            hub.hf_hub_download(repository, file, revision=revision or None) for file in FILES
        ]
    except Exception as error:  # of the hub's client or of its HTTP library
        raise LookalikeError(f"'{name}' cannot be fetched: {_first_line(error)}") from error
    return Embedder.load(Path(first).parent)


def to_hub(embedder: Embedder, repository: str, *, private: bool = True) -> str:
    """Put a model and its card on the hub; who is logged in there must own the repository.

    Args:
        embedder: The model.
        repository: ``OWNER/NAME``; made if there is none.
        private: Whether a new repository is for its owner only.

    Returns:
        The address of the repository.

    Raises:
        BadInput: The name is wrong.
        LookalikeError: The hub cannot be reached, or refuses.
    """
    repository = repository.removeprefix(PREFIX)
    if repository.count("/") != 1:
        raise BadInput(f"'{repository}' names no repository on a hub; write OWNER/NAME")
    hub = _hub()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / repository.rpartition("/")[2]
        export(embedder, "safetensors", folder)
        try:
            api: Any = hub.HfApi()
            address = api.create_repo(repository, private=private, exist_ok=True)
            api.upload_folder(repo_id=repository, folder_path=str(folder))
        except Exception as error:
            reason = _first_line(error)
            raise LookalikeError(f"'{repository}' cannot be written: {reason}") from error
    return str(address)


def _hub() -> ModuleType:
    try:
        import huggingface_hub
    except ModuleNotFoundError as error:
        raise BadInput(
            "a hub needs the package 'huggingface_hub': pip install 'lookalike[hub]'"
        ) from error
    return huggingface_hub


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
