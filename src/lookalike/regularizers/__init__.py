"""Regularisers: penalties on embeddings and on learned weights."""
