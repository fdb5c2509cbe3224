"""``pytorch_metric_learning.utils.loss_and_miner_utils``: index tuples of pairs and triplets."""

from lookalike.miners.indices import (
    convert_to_pairs,
    convert_to_triplets,
    convert_to_weights,
    get_all_pairs_indices,
    get_all_triplets_indices,
    get_matches_and_diffs,
    get_random_triplet_indices,
)

__all__ = [
    "convert_to_pairs",
    "convert_to_triplets",
    "convert_to_weights",
    "get_all_pairs_indices",
    "get_all_triplets_indices",
    "get_matches_and_diffs",
    "get_random_triplet_indices",
]
