"""The tables of an index, and their version."""

from lookalike.errors import BadInput
from lookalike.search.postgres.database import Statements

VERSION = 3
GRAPH = "item_graph"
"""The name of the HNSW index."""
FIELDS = "path, label, metadata, root, size, modified"
"""The columns of ``item`` in the order of a ``Record``."""

TABLES = """
CREATE SCHEMA {schema};
CREATE TABLE {schema}.model (
    version integer NOT NULL, settings text, weights bytea, fingerprint text NOT NULL,
    dim integer NOT NULL, kind text NOT NULL, generation bigint NOT NULL DEFAULT 0,
    updated double precision NOT NULL DEFAULT extract(epoch FROM clock_timestamp()),
    count bigint NOT NULL DEFAULT 0, ef_search integer, recall double precision, sample integer,
    CHECK ((settings IS NULL) = (weights IS NULL) AND (settings IS NULL) = (fingerprint = ''))
);
CREATE TABLE {schema}.root (number integer PRIMARY KEY, path text UNIQUE NOT NULL);
CREATE TABLE {schema}.metadata_column (name text PRIMARY KEY);
CREATE TABLE {schema}.item (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    root integer NOT NULL REFERENCES {schema}.root, path text NOT NULL, label text,
    metadata jsonb NOT NULL, size bigint NOT NULL, modified bigint NOT NULL,
    embedding {kind}({dim}) NOT NULL, UNIQUE (root, path)
);
CREATE INDEX ON {schema}.item (label);
"""


def check_version(run: Statements, shown: str) -> None:
    """Refuse an index of another version, and a schema that is none."""
    there = "SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = 'model'"
    if not run(there, [run.schema]).fetchone():
        raise BadInput(f"there is no index '{run.schema}' in '{shown}'")
    found = run("SELECT version FROM {schema}.model").fetchone()
    version = 0 if found is None else int(found[0])
    if version != VERSION:
        raise BadInput(
            f"the index '{shown}' has version {version}, and this lookalike reads version "
            f"{VERSION}; make it again"
        )
