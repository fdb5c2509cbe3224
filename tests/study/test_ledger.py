"""Claims with leases, on SQLite; PostgreSQL has tests with whole drivers."""

import multiprocessing
import time

import pytest

from lookalike.errors import BadInput
from lookalike.study.ledger import Ledger


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'study.db'}"


def test_only_one_gets_it_and_a_record_is_written_once(url):
    with Ledger(url) as one, Ledger(url) as two:
        assert one.claim("a/1")
        assert not two.claim("a/1")
        assert not two.finish("a/1", {"score": 2})
        assert one.finish("a/1", {"score": 1})
        assert not one.finish("a/1", {"score": 3})
        assert not two.claim("a/1")
        assert two.records(["a/"])[0] == {"a/1": {"score": 1}}
        assert two.records(["b/"])[0] == {}


def test_a_lease_is_kept_alive_and_runs_out_with_its_owner(url):
    with Ledger(url, lease=0.6) as two:
        with Ledger(url, lease=0.6) as one:
            assert one.claim("a/1")
            time.sleep(1.2)
            assert not two.claim("a/1")  # the lease was renewed
            one.closing.set()  # as if killed: no renewal, no release
            one.heartbeat.join()
            one.mine.clear()
            time.sleep(0.8)
            assert two.claim("a/1")
            assert not one.finish("a/1", {"score": 1})  # too late
        assert two.finish("a/1", {"score": 2})


def test_what_is_given_back_is_free_at_once(url):
    with Ledger(url) as two:
        with Ledger(url) as one:
            assert one.claim("a/1")
        assert two.claim("a/1")


def claims(url, keys, out):
    with Ledger(url) as ledger:
        out.put([key for key in keys if ledger.claim(key) and ledger.finish(key, {})])


def test_four_processes_share_without_doubles(url):
    context = multiprocessing.get_context("fork")
    out = context.Queue()
    keys = [f"a/{number}" for number in range(40)]
    with Ledger(url):
        pass
    workers = [context.Process(target=claims, args=(url, keys, out)) for _ in range(4)]
    for worker in workers:
        worker.start()
    taken = [key for _ in workers for key in out.get(timeout=60)]
    for worker in workers:
        worker.join()
    assert sorted(taken) == sorted(keys)


@pytest.mark.parametrize("address", ["nonsense", "oracle9://x", "sqlite:////no/such/folder/x.db"])
def test_a_wrong_address_is_a_sentence(address):
    with pytest.raises(BadInput, match="storage"), Ledger(address):
        pass
