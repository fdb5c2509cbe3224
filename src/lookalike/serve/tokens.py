"""Who may ask: tokens with names, and how often each may."""

import hashlib
import hmac
import math
import re
import stat
import time
import zlib
from array import array
from collections.abc import Iterable, MutableSequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from lookalike.errors import BadInput

SHORTEST_TOKEN = 8
SHORTEST_SENTENCE = f"a token needs {SHORTEST_TOKEN} characters or more"
NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
TOKEN = re.compile(r"[ -~]*")
"""What a header and a cookie carry unchanged."""
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Tokens:
    """Names and the SHA-256 of their tokens; without any, everybody may ask."""

    digests: tuple[tuple[str, bytes], ...] = ()

    @classmethod
    def of(cls, tokens: Iterable[tuple[str, str]]) -> Self:
        """Keep the hashes of tokens.

        Args:
            tokens: Names and tokens.

        Returns:
            What recognises them.

        Raises:
            BadInput: A name or a token is invalid, or occurs twice.
        """
        digests: dict[str, bytes] = {}
        for name, token in tokens:
            if not NAME.fullmatch(name):
                raise BadInput(
                    f"the name '{name}' of a token is invalid: letters, digits, '.', '_', '-'"
                )
            if name in digests:
                raise BadInput(f"the name '{name}' stands for two tokens")
            if len(token) < SHORTEST_TOKEN:
                raise BadInput(f"{SHORTEST_SENTENCE}; that of '{name}' has {len(token)}")
            if not TOKEN.fullmatch(token):
                raise BadInput(f"the token of '{name}' is invalid: write it in ASCII characters")
            digests[name] = digest(token)
        if len(set(digests.values())) < len(digests):
            raise BadInput("two names have the same token")
        return cls(tuple(digests.items()))

    @classmethod
    def read(cls, path: Path) -> list[tuple[str, str]]:
        """Read a file of tokens.

        Args:
            path: A file that only its owner can read, of lines ``name = token``; ``#`` comments.

        Returns:
            Names and tokens.

        Raises:
            BadInput: The file cannot be read, others can read it, or it has other lines.
        """
        try:
            mode = path.stat().st_mode
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise BadInput(f"the tokens '{path}' cannot be read: {reason}") from error
        if stat.S_IMODE(mode) & 0o077:
            raise BadInput(f"other users can read the tokens '{path}': chmod 600 '{path}'")
        pairs = []
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            name, equals, token = line.partition("=")
            if not equals or not name.strip() or not token.strip():
                raise BadInput(f"line {number} of '{path}' is not 'name = token'")
            pairs.append((name.strip(), token.strip()))
        if not pairs:
            raise BadInput(f"there is no token in '{path}'")
        return pairs

    def __bool__(self) -> bool:
        return bool(self.digests)

    @property
    def names(self) -> list[str]:
        """The names."""
        return [name for name, _ in self.digests]

    @property
    def mark(self) -> str:
        """A short hash of all tokens."""
        return hashlib.blake2b(b"".join(d for _, d in self.digests), digest_size=4).hexdigest()

    def name_of(self, token: str) -> str | None:
        """Recognise a token, in a time that does not depend on it.

        Args:
            token: What a client has sent.

        Returns:
            The name of the token; None: it is unknown.
        """
        sent, owner = digest(token), None
        for name, known in self.digests:
            if hmac.compare_digest(sent, known):
                owner = name
        return owner


def digest(token: str) -> bytes:
    """What is kept of a token."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()


@dataclass(frozen=True)
class Rate:
    """So many requests a second on average; up to ``burst`` at once.

    >>> Rate.parse("90/min")
    Rate(per_second=1.5, burst=90.0)
    """

    per_second: float
    burst: float

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a rate.

        Args:
            text: Such as ``10/s``, ``100/min`` or ``5000/h``.

        Returns:
            The rate, with a burst of the same number.

        Raises:
            BadInput: It is not written like that.
        """
        match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,6})?)\s*/\s*(s|min|h)\s*", text)
        if match is None or not 0 < float(match[1]) < math.inf:
            raise BadInput(f"the rate '{text}' is invalid: write it as 10/s, 100/min or 5000/h")
        count = float(match[1])
        return cls(count / UNITS[match[2]], max(1.0, count))


DEFAULT_RATE = Rate(per_second=50.0, burst=50.0)
"""Of searches, of each token or, where there are none, of each address."""
WRONG_TOKENS = Rate(per_second=10 / 60, burst=10.0)
"""How many tokens an address may try that are wrong."""


ROUNDING = 1e-6
"""Seconds by which the sum of many steps may be off."""


class Buckets:
    """A token bucket for each key: it fills at the rate, and each request takes one out.

    Of a bucket one number is kept, the time at which it will be full again (the generic cell rate
    algorithm, ITU-T I.371). Keys share ``SIZE`` buckets by their hashes, so that they take the same
    memory however many addresses come. Several processes share the numbers without a lock, as
    nothing may wait in the event loop: two that count the same key in the same microsecond may
    count it once.

    Args:
        rate: How fast a bucket fills, and how much it holds.
        state: Shared memory of ``SIZE`` numbers, 0 at first; None: this process counts alone.
    """

    SIZE = 2**16

    def __init__(self, rate: Rate, state: MutableSequence[float] | None = None) -> None:
        self.rate = rate
        self._full_at = array("d", bytes(8 * self.SIZE)) if state is None else state

    def wait(self, key: str, now: float | None = None) -> float:
        """The seconds until a request may be taken out; 0: at once.

        Args:
            key: The name of a token, or the address of a client.
            now: The time, in seconds of ``time.monotonic``, which all processes share.
        """
        now = time.monotonic() if now is None else now
        filling = self._full_at[self._slot(key)] - now
        seconds = filling - (self.rate.burst - 1) / self.rate.per_second
        return seconds if seconds > ROUNDING else 0.0

    def take(self, key: str, now: float | None = None) -> float:
        """As :meth:`wait`, and take a request out if there is one."""
        now = time.monotonic() if now is None else now
        seconds = self.wait(key, now)
        if not seconds:
            slot = self._slot(key)
            self._full_at[slot] = max(self._full_at[slot], now) + 1 / self.rate.per_second
        return seconds

    def _slot(self, key: str) -> int:
        return zlib.crc32(key.encode()) % self.SIZE
