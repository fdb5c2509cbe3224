"""Evaluation: every score from the ranks of the relevant items."""

from lookalike.evaluation.distributed import gather_embeddings, score_distributed
from lookalike.evaluation.files import EmbeddingsFile, read_embeddings
from lookalike.evaluation.metrics import check_metrics
from lookalike.evaluation.neighbours import build_index, knn_accuracy, nearest
from lookalike.evaluation.reranking import RERANKINGS, AlphaExpansion, Gain, KReciprocal, rerank
from lookalike.evaluation.scoring import (
    ClassScores,
    Evaluation,
    WorstQuery,
    evaluate,
    score,
)

__all__ = [
    "RERANKINGS",
    "AlphaExpansion",
    "ClassScores",
    "EmbeddingsFile",
    "Evaluation",
    "Gain",
    "KReciprocal",
    "WorstQuery",
    "build_index",
    "check_metrics",
    "evaluate",
    "gather_embeddings",
    "knn_accuracy",
    "nearest",
    "read_embeddings",
    "rerank",
    "score",
    "score_distributed",
]
