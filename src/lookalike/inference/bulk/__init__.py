"""Vectors of very many pictures: sources, a pipeline, and resumable shards of vectors."""
