"""How an index is served: what each worker process is told."""

from dataclasses import dataclass
from typing import Any

from lookalike.serve.engine import Runtime
from lookalike.serve.limits import Limits
from lookalike.serve.logs import LogFormat
from lookalike.serve.tokens import Buckets, Rate, Tokens


@dataclass(frozen=True)
class Options:
    """How an index is served.

    Args:
        place: Where the index is.
        limits: What requests may use.
        tokens: Requests must have one of them, if there are any.
        rate: How often each token may search.
        runtime: What embeds uploaded pictures.
        log: How the log is written.
        loopback: Answer this machine only.
    """

    place: str
    limits: Limits
    tokens: Tokens
    rate: Rate | None = None
    runtime: Runtime = "torch"
    log: LogFormat = "human"
    loopback: bool = True

    def buckets(self, shared: Any = None) -> Buckets | None:
        """What counts how often each token has searched; ``shared``: an array of all processes."""
        if self.rate is None:
            return None
        if shared is None:
            return Buckets(self.rate, self.tokens.names)
        return Buckets(self.rate, self.tokens.names, shared, shared.get_lock())
