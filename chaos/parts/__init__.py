"""The scenarios: one module a kind of fault, each with a tuple ``SCENARIOS``."""

import importlib
import pkgutil
from collections.abc import Collection

from chaos.scenario import Scenario

__all__ = ["scenarios"]


def scenarios(only: Collection[str] = ()) -> list[Scenario]:
    """All scenarios, or those whose name is or begins with one of ``only``.

    Raises:
        ValueError: A name of ``only`` is of no scenario.
    """
    found: list[Scenario] = []
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name):
        found += importlib.import_module(f"{__name__}.{module.name}").SCENARIOS
    for wanted in only:
        if not any(chosen(one, wanted) for one in found):
            names = ", ".join(one.name for one in found)
            raise ValueError(f"no scenario '{wanted}'; choose one of: {names}")
    return [one for one in found if not only or any(chosen(one, wanted) for wanted in only)]


def chosen(scenario: Scenario, wanted: str) -> bool:
    """Whether a name is that of the scenario, or of a group that it is in."""
    return f"{scenario.name}.".startswith(f"{wanted}.")
