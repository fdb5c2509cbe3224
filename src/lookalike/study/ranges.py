"""What a hyper-parameter may be: a range, or a list of choices."""

from typing import Annotated, Any, TypeAlias

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from pydantic import BaseModel as Model
from pydantic import BeforeValidator, ConfigDict, model_validator

__all__ = ["Choices", "Range", "SearchSpace", "distribution", "grid_values"]


class Range(Model):
    """Numbers from ``low`` to ``high``, both included.

    ``log``: even on a logarithmic scale. ``step``: only ``low``, ``low + step``, ... ``whole``:
    only whole numbers.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    low: float
    high: float
    log: bool = False
    step: float | None = None
    whole: bool = False

    @model_validator(mode="after")
    def sensible(self) -> "Range":
        """Refuse what cannot be searched."""
        if self.low > self.high:
            raise ValueError(f"low = {self.low} is above high = {self.high}")
        if self.log and self.low <= 0:
            raise ValueError(f"a logarithmic range begins above 0, not at {self.low}")
        if self.step is not None and (self.log or self.step <= 0):
            raise ValueError("step must be above 0, and a logarithmic range has none")
        if self.whole and any(n % 1 for n in (self.low, self.high, self.step or 1)):
            raise ValueError("a range of whole numbers begins, ends and steps by whole numbers")
        return self


class Choices(Model):
    """One of these."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    choices: tuple[bool | int | float | str | None, ...]


def from_pair(value: Any) -> Any:
    """``[0, 1]`` is short for ``{low: 0, high: 1}``."""
    if isinstance(value, list | tuple):
        if len(value) != 2:
            raise ValueError("a range is [low, high]; write {choices: [...]} to list values")
        return {"low": value[0], "high": value[1]}
    return value


def kind_of(value: Any) -> Any:
    """Decide by the keys, so that a complaint is about the one that was meant."""
    value = from_pair(value)
    if isinstance(value, dict):
        return (Choices if "choices" in value else Range).model_validate(value)
    return value


Searched: TypeAlias = Annotated[Range | Choices, BeforeValidator(kind_of)]
SearchSpace: TypeAlias = dict[str, Searched]


def distribution(searched: Range | Choices) -> BaseDistribution:
    """The same for Optuna."""
    if isinstance(searched, Choices):
        return CategoricalDistribution(searched.choices)
    low, high, step = searched.low, searched.high, searched.step
    if searched.whole:
        return IntDistribution(int(low), int(high), log=searched.log, step=int(step or 1))
    return FloatDistribution(low, high, log=searched.log, step=step)


def grid_values(searched: Range | Choices) -> list[Any] | None:
    """Every value of a grid over it; None where a range has no step.

    >>> grid_values(Range(low=0.0, high=0.3, step=0.1))
    [0.0, 0.1, 0.2, 0.3]
    """
    if isinstance(searched, Choices):
        return list(searched.choices)
    step = searched.step or (1 if searched.whole and not searched.log else None)
    if step is None:
        return None
    count = int((searched.high - searched.low) / step + 1e-9) + 1
    values = [round(searched.low + number * step, 12) for number in range(count)]
    return [int(value) for value in values] if searched.whole else values
