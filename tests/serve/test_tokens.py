import multiprocessing
import os
import signal

import pytest

from lookalike.errors import BadInput
from lookalike.serve.tokens import Buckets, Rate, Tokens


def test_tokens_have_names(tmp_path):
    path = tmp_path / "tokens"
    path.write_text("# who\nshop = a-long-secret\n\nlab.2 = other = secret\n")
    path.chmod(0o600)
    tokens = Tokens.of(Tokens.read(path))
    assert tokens.names == ["shop", "lab.2"]
    assert tokens.name_of("a-long-secret") == "shop"
    assert tokens.name_of("other = secret") == "lab.2"
    assert tokens.name_of("a-long-secre") is None
    assert "secret" not in repr(tokens)


@pytest.mark.parametrize(
    ("text", "mode", "sentence"),
    [
        ("a = long-enough\n", 0o644, "chmod 600"),
        ("a = short\n", 0o600, "8 characters"),
        ("a long-enough\n", 0o600, "line 1"),
        ("a b = long-enough\n", 0o600, "name 'a b'"),
        ("a = long-enough\na = long-enough-2\n", 0o600, "two tokens"),
        ("a = long-enough\nb = long-enough\n", 0o600, "same token"),
        ("# nothing\n", 0o600, "no token"),
    ],
)
def test_bad_files_of_tokens_are_refused(tmp_path, text, mode, sentence):
    path = tmp_path / "tokens"
    path.write_text(text)
    path.chmod(mode)
    with pytest.raises(BadInput, match=sentence) as caught:
        Tokens.of(Tokens.read(path))
    assert "long-enough" not in str(caught.value)


def test_a_missing_file_of_tokens_is_refused(tmp_path):
    with pytest.raises(BadInput, match="cannot be read"):
        Tokens.read(tmp_path / "none")


@pytest.mark.parametrize("text", ["10", "10/d", "0/s", "-1/s", "a/s", "1e9/s", "nan/s", ""])
def test_bad_rates_are_refused(text):
    with pytest.raises(BadInput, match="10/s"):
        Rate.parse(text)


def test_a_bucket_gives_the_rate_and_a_burst():
    buckets = Buckets(Rate.parse("2/s"))
    assert [buckets.take("a", 100.0) for _ in range(2)] == [0, 0]
    assert buckets.take("a", 100.0) == pytest.approx(0.5)
    assert buckets.take("b", 100.0) == 0
    assert buckets.take("a", 100.5) == 0
    assert buckets.take("a", 100.5) > 0
    allowed = sum(buckets.take("a", 101 + step / 100) == 0 for step in range(1000))
    assert 20 <= allowed <= 22  # ten seconds at two a second, and what was left
    assert buckets.take("a", 50.0) >= 0  # a clock that goes back gives nothing


@pytest.mark.parametrize("token", ["пароль-пароль", "new\nline-token", "schlüssel"])
def test_tokens_that_no_header_can_carry_are_refused(token):
    with pytest.raises(BadInput, match="ASCII") as caught:
        Tokens.of([("shop", token)])
    assert token not in str(caught.value)


def test_processes_count_together_and_no_killed_one_stops_the_others():
    context = multiprocessing.get_context("fork")
    rate = Rate.parse("2/h")
    state = context.RawArray("d", Buckets.SIZE)
    assert Buckets(rate, state).take("a") == 0

    def take_and_die():
        Buckets(rate, state).take("a")
        os.kill(os.getpid(), signal.SIGKILL)

    worker = context.Process(target=take_and_die)
    worker.start()
    worker.join()
    assert Buckets(rate, state).take("a") > 0


def test_addresses_have_buckets_without_having_been_named():
    buckets = Buckets(Rate.parse("1/h"))
    for key in ("a", "192.0.2.1", "192.0.2.2"):
        assert buckets.wait(key, 5.0) == 0
        assert buckets.take(key, 5.0) == 0
        assert buckets.wait(key, 5.0) == pytest.approx(3600)
    assert len(buckets._full_at) == Buckets.SIZE  # however many addresses come
