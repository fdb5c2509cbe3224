"""The tables of an older version, brought to those of today."""

from psycopg.sql import Identifier

from lookalike.search.postgres.address import split, without_password
from lookalike.search.postgres.database import Statements, connected
from lookalike.search.postgres.loading import LOCK
from lookalike.search.postgres.model import restored_model
from lookalike.search.postgres.schema import GRAPH, check_version, version_of

COLUMNS = """
ALTER TABLE {schema}.model ALTER settings DROP NOT NULL, ALTER weights DROP NOT NULL,
    ADD fingerprint text NOT NULL DEFAULT '', ADD kind text NOT NULL DEFAULT 'vector',
    ADD generation bigint NOT NULL DEFAULT 0,
    ADD updated double precision NOT NULL DEFAULT extract(epoch FROM clock_timestamp()),
    ADD count bigint NOT NULL DEFAULT 0;
ALTER TABLE {schema}.model ALTER fingerprint DROP DEFAULT, ALTER kind DROP DEFAULT;
CREATE TABLE {schema}.metadata_column (name text PRIMARY KEY);
INSERT INTO {schema}.metadata_column
    SELECT DISTINCT jsonb_object_keys(metadata) FROM {schema}.item;
"""
STATE = """
UPDATE {schema}.model SET version = 2, fingerprint = %s,
    count = (SELECT count(*) FROM {schema}.item)
"""
CHECK = """
ALTER TABLE {schema}.model ADD CHECK (
    (settings IS NULL) = (weights IS NULL) AND (settings IS NULL) = (fingerprint = ''))
"""
GRAPHS = """
SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    JOIN pg_am a ON a.oid = c.relam JOIN pg_class t ON t.oid = i.indrelid
    JOIN pg_namespace n ON n.oid = t.relnamespace
    WHERE n.nspname = %s AND t.relname = 'item' AND a.amname = 'hnsw'
"""


def upgrade(place: str) -> int:
    """Bring an index to today's version in one transaction; return the version that it had."""
    url, schema = split(place)
    shown = without_password(place)
    with connected(url, schema) as run, run.cursor.connection.transaction():
        run(LOCK, [schema])
        version = version_of(run, shown)
        if version == 1:
            from_1(run, shown)
        check_version(run, shown)
    return version


def from_1(run: Statements, shown: str) -> None:
    """Version 1 had a model always, and counted its pictures whenever it was asked."""
    settings, weights = run("SELECT settings, weights FROM {schema}.model").fetchone() or ("", b"")
    fingerprint = restored_model(settings, weights, shown).fingerprint
    run(COLUMNS)
    run(STATE, [fingerprint])
    run(CHECK)
    for (name,) in run(GRAPHS, [run.schema]).fetchall():
        names = {"old": Identifier(name), "new": Identifier(GRAPH)}
        run("ALTER INDEX {schema}.{old} RENAME TO {new}", **names)
