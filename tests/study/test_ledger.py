"""Claims with leases, on SQLite; PostgreSQL has tests with whole drivers."""

import multiprocessing
import time
from contextlib import suppress
from random import Random

import psycopg
import pytest
from optuna.storages import RDBStorage

from lookalike.errors import BadInput, LookalikeError
from lookalike.study.ledger import TABLE, Ledger


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


def changed(ledger, **values):
    with ledger.engine.begin() as connection:
        connection.execute(TABLE.update().values(**values))


def test_a_lease_ends_though_the_clock_was_set_back(url):
    with Ledger(url, lease=0.4) as one:
        assert one.claim("a/1")
        one.mine.clear()  # as if killed: no renewal, no release
    with Ledger(url, lease=60) as two:
        changed(two, until=time.time() + 86_400)
        assert not two.claim("a/1")
        assert not two.claim("a/1")
        time.sleep(0.6)
        assert two.claim("a/1")


def test_a_living_owner_keeps_its_claim_though_its_clock_is_ahead(url):
    with Ledger(url, lease=0.6) as one, Ledger(url, lease=60) as two:
        assert one.claim("a/1")
        changed(two, until=time.time() + 86_400)
        for _ in range(5):
            time.sleep(0.3)
            assert not two.claim("a/1")


def test_a_record_of_a_clock_behind_is_read(url):
    with Ledger(url, lease=1) as one, Ledger(url, lease=1) as two:
        assert one.claim("a/1")
        assert one.finish("a/1", {"score": 1})
        _, newest = two.records(["a/"])
        assert one.claim("a/2")
        assert one.finish("a/2", {"score": 2})
        changed(two, written=newest - 86_400)
        assert two.records(["a/"], newest)[0] == {}  # not news
        assert two.records(["a/2"])[0] == {"a/2": {"score": 2}}  # what the driver asks for then


def test_a_record_that_was_changed_is_a_sentence(url, tmp_path):
    with Ledger(url) as ledger:
        ledger.add({"a/1": {"score": 0.25}})
        with ledger.engine.begin() as connection:
            text = connection.execute(TABLE.select()).one().record
        for damaged in (text.replace("0.25", "0.35"), "[" * 100_000):
            changed(ledger, record=damaged)
            with pytest.raises(
                LookalikeError, match=r"study\.db.*the record of a/1.*remove the file"
            ):
                ledger.records(["a/"])


def test_a_damaged_database_is_a_sentence(url, tmp_path):
    with Ledger(url) as ledger:
        ledger.add({f"a/{number}": {"score": number} for number in range(300)})
    content = bytearray((tmp_path / "study.db").read_bytes())
    content[2000:-100] = bytes(len(content) - 2100)
    (tmp_path / "study.db").write_bytes(content)
    with pytest.raises(LookalikeError, match=r"study\.db.*cannot be used"), Ledger(url) as ledger:
        ledger.records(["a/"])


def claims(url, keys, out):
    with Ledger(url) as ledger:
        out.put([key for key in keys if ledger.claim(key) and ledger.finish(key, {})])


def test_any_flipped_bit_of_a_database_is_noticed_or_harmless(url, tmp_path):
    path = tmp_path / "study.db"
    written = {"a/1": {"score": 0.5}, "a/2": {"score": 0.25}}
    with Ledger(url) as ledger:
        ledger.add(written)
    content = path.read_bytes()
    used = [place for place, byte in enumerate(content) if byte]
    random = Random(0)
    for place in random.sample(used, min(len(used), 500)):
        flipped = bytearray(content)
        flipped[place] ^= 1 << random.randrange(8)
        path.write_bytes(flipped)
        with suppress(LookalikeError), Ledger(url) as ledger:
            assert ledger.records(["a/"])[0] == written, place


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


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:hunter2@127.0.0.1:1/none",
        "postgresql://me@127.0.0.1:1/none?password=hunter2",
        "nonsense://me:hunter2@host/db",
        "postgresql://me:hunter2@host:port/db",
        "postgresql://me:hunter2@",
    ],
)
def test_a_password_is_never_repeated(address):
    with pytest.raises(BadInput) as refused, Ledger(address):
        pass
    assert "hunter2" not in str(refused.value)


def create_tables(url, failures):
    """As a driver does; Optuna creates its tables in several steps."""
    try:
        with Ledger(url) as ledger, ledger.exclusive():
            RDBStorage(url)
    except Exception as error:
        failures.put(repr(error))
        raise


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_drivers_that_start_together_create_optunas_tables_once(url, kind, request):
    if kind == "postgresql":
        server = request.getfixturevalue("postgres")
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute("CREATE DATABASE together")
        url = server.replace("postgresql://", "postgresql+psycopg://").replace(
            "/postgres?", "/together?"
        )
    spawn = multiprocessing.get_context("spawn")
    failures = spawn.Queue()
    drivers = [spawn.Process(target=create_tables, args=(url, failures)) for _ in range(3)]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join()
    assert [driver.exitcode for driver in drivers] == [0, 0, 0], failures.get()
