"""Which extra of the package brings a module that is not installed."""

import importlib.metadata
import re
from collections import Counter

__all__ = ["missing_extra"]

PACKAGES = {
    "PIL": "pillow",
    "faiss": "faiss-cpu",
    "multipart": "python-multipart",
    "sklearn": "scikit-learn",
}
"""Packages that are not called as their module is."""
REQUIREMENT = re.compile(r"([\w.-]+).*; extra == ['\"]([\w-]+)['\"]")


def missing_extra(module: str) -> str | None:
    """One sentence that names the smallest extra with a missing module; None: none of ours has it.

    Args:
        module: The name in a ``ModuleNotFoundError``.

    Returns:
        What to install.

    >>> missing_extra("optuna.trial")
    "this needs the package 'optuna': pip install 'lookalike[study]'"
    """
    top = module.partition(".")[0]
    package = PACKAGES.get(top, top.replace("_", "-"))
    required = map(REQUIREMENT.fullmatch, importlib.metadata.requires("lookalike") or [])
    pairs = [(match[1], match[2]) for match in required if match]
    sizes = Counter(extra for _, extra in pairs)
    bringing = [extra for name, extra in pairs if name == package]
    if not bringing:
        return None
    extra = min(bringing, key=sizes.__getitem__)
    return f"this needs the package '{top}': pip install 'lookalike[{extra}]'"
