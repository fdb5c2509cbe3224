"""Addresses of databases: what is shown has no password, whatever the password has in it."""

import pickle
from urllib.parse import quote

import pytest

from lookalike.addresses import is_postgres, parse_address
from lookalike.errors import BadInput, LookalikeError, masked

SECRETS = [
    "hunter2",
    "pa:ss",
    "p'w",
    "x" * 200,
    "a+b=c&d",
    "%41bc",
    "пароль",
    "se cret",
    "a/b?c#d@e",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "pattern",
    [
        "postgresql://me:{}@host/shop#photos",
        "postgres://me:{}@[::1]:5432/shop",
        "postgresql+psycopg://me:{}@one:1,two:2/shop",
        "postgresql://host/shop?user=me&password={}&sslmode=require#photos",
        "postgresql:///shop?sslpassword={}",
    ],
)
def test_an_address_is_shown_without_its_password(pattern, secret):
    written = quote(secret, safe="")
    address = parse_address(pattern.format(written))
    assert address.url == pattern.format(written).partition("#")[0]  # the driver gets it
    sentence = f"cannot open '{pattern.format(written)}': try again"
    for shown in (str(address), repr(address), f"{address}", masked(sentence)):
        assert secret not in shown
        assert written not in shown
        assert "shop" in shown
    assert written not in str(LookalikeError(sentence))
    assert pickle.loads(pickle.dumps(address)) == address  # as workers get it


@pytest.mark.parametrize("secret", ["pa@ss", "pa/ss", "pa#ss", "pa?ss", "pa%ss", "pa'ss", "1/2@3"])
def test_a_password_that_is_not_escaped_is_refused_and_not_repeated(secret):
    """Otherwise a part of it would be a host or a port, in messages of the driver."""
    text = f"postgresql://me:{secret}@host/shop"
    assert secret not in masked(f"bad argument {text}, sorry")
    with pytest.raises(BadInput, match="cannot be read") as caught:
        parse_address(text)
    assert secret not in str(caught.value)


def test_other_texts_stay_as_they_are():
    for text in (
        "there is no file 'a@b.png'",
        "http://127.0.0.1:8000/?token=a@b",
        "mail me@host: 5 of 6",
        "postgresql://me@host:5432/shop?sslmode=require#photos",
        "data/a:b@c",
    ):
        assert masked(text) == text
    assert masked("https://me:secret@host/x@2.png") == "https://me@host/x@2.png"


def test_the_schema_is_named_after_the_address():
    assert parse_address("postgresql://host/shop#my%20photos").schema == "my photos"
    assert parse_address("postgresql://host/shop").schema == "lookalike"
    with pytest.raises(BadInput, match="63 bytes"):
        parse_address("postgresql://host/shop#" + "x" * 64)
    assert not is_postgres("shop.index")
