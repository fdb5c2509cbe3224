"""``lookalike serve``: what it refuses before it listens."""

import pytest


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere"], "there is no index 'nowhere'"),
        (["{photos}"], "is not an index"),
        (["{shop}", "--token", "short"], "a token needs 8 characters or more"),
        (["{shop}", "--host", "no.such.host.invalid"], "no.such.host.invalid"),
    ],
)
def test_bad_input_gets_a_sentence(refused, shop, photos, arguments, sentence):
    known = {"photos": photos, "shop": shop}
    refused("serve", *(argument.format(**known) for argument in arguments), sentence=sentence)
