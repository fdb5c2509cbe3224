"""Evaluation: every score from the ranks of the relevant items, or from the embedding space."""

from lookalike.evaluation.files import EmbeddingsFile, read_embeddings
from lookalike.evaluation.inputs import unit_rows
from lookalike.evaluation.metrics import check_metrics, diagnostic, needs_training, over_queries
from lookalike.evaluation.neighbours import nearest
from lookalike.evaluation.ranks import Ranks
from lookalike.evaluation.reranking import AlphaExpansion, KReciprocal
from lookalike.evaluation.results import ClassScores, Evaluation, WorstQuery
from lookalike.evaluation.scoring import evaluate, score
from lookalike.evaluation.space import (
    DistanceHistogram,
    EmbeddingSpace,
    Mixes,
    distance_histogram,
    utilization,
)
from lookalike.registry import METRICS

__all__ = [
    "METRICS",
    "AlphaExpansion",
    "ClassScores",
    "DistanceHistogram",
    "EmbeddingSpace",
    "EmbeddingsFile",
    "Evaluation",
    "KReciprocal",
    "Mixes",
    "Ranks",
    "WorstQuery",
    "check_metrics",
    "diagnostic",
    "distance_histogram",
    "evaluate",
    "nearest",
    "needs_training",
    "over_queries",
    "read_embeddings",
    "score",
    "unit_rows",
    "utilization",
]
