"""How an index is served: what each worker process is told."""

from collections.abc import MutableSequence
from dataclasses import dataclass

from lookalike.addresses import DatabaseAddress
from lookalike.serve.engine import Runtime
from lookalike.serve.limits import Limits
from lookalike.serve.logs import LogFormat
from lookalike.serve.tokens import DEFAULT_RATE, Buckets, Rate, Tokens


@dataclass(frozen=True)
class Options:
    """How an index is served.

    Args:
        address: What opens the index.
        limits: What requests may use.
        tokens: Requests must have one of them, if there are any.
        rate: How often each token, or without any each address, may search; None: always.
        runtime: What embeds uploaded pictures.
        log: How the log is written.
        loopback: Answer this machine only.
        proxies: Addresses or networks, with commas, whose word about a client's address and
            scheme (``X-Forwarded-For``, ``X-Forwarded-Proto``) is taken.
    """

    address: str | DatabaseAddress
    limits: Limits
    tokens: Tokens
    rate: Rate | None = DEFAULT_RATE
    runtime: Runtime = "torch"
    log: LogFormat = "human"
    loopback: bool = True
    proxies: str = ""

    def buckets(self, state: MutableSequence[float] | None = None) -> Buckets | None:
        """What counts how often each client has searched.

        Args:
            state: The memory that several processes share.

        Returns:
            The buckets; None without a rate.
        """
        if self.rate is None:
            return None
        return Buckets(self.rate, self.tokens.names, state)
