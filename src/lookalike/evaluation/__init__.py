"""Evaluation: every score from the ranks of the relevant items, or from the embedding space."""

from lookalike.evaluation.files import EmbeddingsFile, read_embeddings
from lookalike.evaluation.inputs import unit_rows
from lookalike.evaluation.metrics import check_metrics, diagnostic
from lookalike.evaluation.neighbours import nearest
from lookalike.evaluation.ranks import Ranks
from lookalike.evaluation.reranking import RERANKINGS, AlphaExpansion, Gain, KReciprocal, rerank
from lookalike.evaluation.results import ClassScores, Evaluation, WorstQuery
from lookalike.evaluation.scoring import evaluate, score
from lookalike.evaluation.space import EmbeddingSpace
from lookalike.registry import METRICS

__all__ = [
    "METRICS",
    "RERANKINGS",
    "AlphaExpansion",
    "ClassScores",
    "EmbeddingSpace",
    "EmbeddingsFile",
    "Evaluation",
    "Gain",
    "KReciprocal",
    "Ranks",
    "WorstQuery",
    "check_metrics",
    "diagnostic",
    "evaluate",
    "nearest",
    "read_embeddings",
    "rerank",
    "score",
    "unit_rows",
]
