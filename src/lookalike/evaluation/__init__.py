"""Evaluation: every score from the ranks of the relevant items."""

from lookalike.evaluation.neighbours import nearest
from lookalike.evaluation.scoring import evaluate

__all__ = ["evaluate", "nearest"]
