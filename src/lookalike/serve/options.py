"""How an index is served: what each worker process is told."""

from dataclasses import dataclass

from lookalike.serve.engine import Runtime
from lookalike.serve.limits import Limits
from lookalike.serve.logs import LogFormat
from lookalike.serve.tokens import Buckets, Rate, SharedState, Tokens


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

    def buckets(self, shared: SharedState | None = None) -> Buckets | None:
        """What counts how often each token has searched.

        Args:
            shared: The state that several processes share.

        Returns:
            The buckets; None without a rate.
        """
        if self.rate is None:
            return None
        return Buckets(self.rate, self.tokens.names, shared)
