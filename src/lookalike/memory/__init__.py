"""Memory: embeddings of former batches as further candidates."""

from lookalike.memory.cross_batch import CrossBatchMemory, EmbeddingMemory

__all__ = ["CrossBatchMemory", "EmbeddingMemory"]
