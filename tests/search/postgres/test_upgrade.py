"""An index of version 1, made by the statements of that version."""

import json

import numpy as np
import psycopg
import pytest
from pgvector.psycopg import register_vector
from psycopg.types.json import Jsonb

from lookalike.errors import BadInput
from lookalike.search import Index, Record
from lookalike.search.postgres import PostgresIndex

TABLES = """
CREATE EXTENSION IF NOT EXISTS vector;
CREATE SCHEMA old;
CREATE TABLE old.model (
    version integer NOT NULL, settings text NOT NULL, weights bytea NOT NULL,
    dim integer NOT NULL, effort integer, recall double precision, sample integer
);
CREATE TABLE old.root (number integer PRIMARY KEY, path text UNIQUE NOT NULL);
CREATE TABLE old.item (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    root integer NOT NULL REFERENCES old.root, path text NOT NULL, label text,
    metadata jsonb NOT NULL, size bigint NOT NULL, modified bigint NOT NULL,
    embedding vector({dim}) NOT NULL, UNIQUE (root, path)
);
CREATE INDEX ON old.item (label);
CREATE INDEX ON old.item USING hnsw (embedding vector_ip_ops);
"""


@pytest.fixture
def old(postgres, embedder, tmp_path, unit_rows):
    """The address of an index of version 1 with 20 pictures, and their vectors."""
    embedder.save(tmp_path / "model")
    weights = (tmp_path / "model" / "weights.safetensors").read_bytes()
    vectors = unit_rows(20, embedder.dim)
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS old CASCADE")
        connection.execute(TABLES.format(dim=embedder.dim))
        register_vector(connection)
        connection.execute(
            "INSERT INTO old.model VALUES (1, %s, %s, %s, 80, 0.98, 100)",
            [json.dumps(embedder.record()), weights, embedder.dim],
        )
        connection.execute("INSERT INTO old.root VALUES (0, %s)", [str(tmp_path)])
        for number, vector in enumerate(vectors):
            metadata = Jsonb({"price": str(number)} if number % 2 else {})
            connection.execute(
                "INSERT INTO old.item (root, path, label, metadata, size, modified, embedding) "
                "VALUES (0, %s, %s, %s, 5, 7, %s)",
                [f"{number}.png", "a" if number < 4 else None, metadata, vector],
            )
    return f"{postgres}#old", vectors


def test_one_command_makes_it_an_index_of_today(old, embedder, tmp_path):
    place, vectors = old
    with pytest.raises(BadInput, match=r"version 1, .*'lookalike index upgrade postgres.*#old'"):
        Index.open(place)
    assert PostgresIndex.upgrade(place) == 1
    index = Index.open(place)
    assert index.fingerprint == index.embedder.fingerprint == embedder.fingerprint
    assert len(index) == 20
    assert index.columns == ["price"]
    assert index.label_counts() == {"a": 4}
    assert "recall@10 0.980" in index.approximation
    np.testing.assert_array_equal(index.vectors, vectors)
    assert index.search(vectors[3], 1)[0][0].path == "3.png"
    assert index.search(vectors[3], 5, where="price < 4")[0][0].path == "3.png"
    index.commit([Record("new.png")], vectors[:1])
    assert (len(index), index.generation, index.roots) == (21, 1, (tmp_path,))
    names = index._all("SELECT indexname FROM pg_indexes WHERE schemaname = 'old'")
    assert ("item_graph",) in names
    assert ("item_embedding_idx",) not in names


def test_twice_is_once(old):
    place, _ = old
    PostgresIndex.upgrade(place)
    assert PostgresIndex.upgrade(place) == 2
    assert len(Index.open(place)) == 20


def test_what_is_broken_stays_as_it_is(old, postgres):
    place, _ = old
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("UPDATE old.model SET weights = 'nothing'")
        with pytest.raises(BadInput):
            PostgresIndex.upgrade(place)
        assert connection.execute("SELECT version FROM old.model").fetchone() == (1,)
        assert connection.execute("SELECT to_regclass('old.metadata_column')").fetchone() == (None,)
    with pytest.raises(BadInput, match="there is no index 'nothing'"):
        PostgresIndex.upgrade(f"{postgres}#nothing")
