"""Memory: embeddings of former batches as further candidates."""

from lookalike.memory.cross_batch import CrossBatchMemory

__all__ = ["CrossBatchMemory"]
