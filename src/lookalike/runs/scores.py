"""Scores by metric, as files of results have them."""

import math
from typing import Annotated

from pydantic import AfterValidator

__all__ = ["Scores"]


def plausible(score: float) -> float:
    """Refuse what no metric gives; where one is undefined its score is not finite."""
    if math.isfinite(score) and abs(score) > 1e9:
        raise ValueError("no score is larger than 1e9")
    return score


Scores = dict[str, Annotated[float, AfterValidator(plausible)]]
