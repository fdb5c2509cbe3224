"""``lookalike evaluate``: scores of a finished run, or of embeddings in a file."""

__all__ = ["evaluate"]


def evaluate() -> None:
    """x."""
