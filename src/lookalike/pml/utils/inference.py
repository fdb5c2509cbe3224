"""``pytorch_metric_learning.utils.inference``: neighbours and matches of a finished model."""

from lookalike.pml.utils.inference_model import InferenceModel, MatchFinder
from lookalike.pml.utils.neighbours import CustomKNN, FaissKMeans, FaissKNN

__all__ = ["CustomKNN", "FaissKMeans", "FaissKNN", "InferenceModel", "MatchFinder"]
