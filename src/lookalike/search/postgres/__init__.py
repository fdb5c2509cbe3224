"""An index in PostgreSQL with pgvector, for collections that are too large for one machine.

Every index is a schema of its own with the tables ``model`` (one row: the network, its weights,
the state of the index and how it searches), ``root``, ``metadata_column`` and ``item``. What
changes together changes in one transaction.
"""

from lookalike.search.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
