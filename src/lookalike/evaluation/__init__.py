"""Evaluation: every score from the ranks of the relevant items."""

from lookalike.evaluation.neighbours import build_index, knn_accuracy, nearest
from lookalike.evaluation.scoring import (
    ClassScores,
    Evaluation,
    WorstQuery,
    evaluate,
    score,
)

__all__ = [
    "ClassScores",
    "Evaluation",
    "WorstQuery",
    "build_index",
    "evaluate",
    "knn_accuracy",
    "nearest",
    "score",
]
