"""``lookalike serve``: the search page of an index."""

import os
import secrets
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote

import typer

from lookalike.progress import ConsoleWatcher


def serve(
    index: Annotated[str, typer.Argument(metavar="INDEX", help="What 'lookalike index' wrote.")],
    host: Annotated[
        str, typer.Option(help="The address to listen on; 0.0.0.0 accepts other machines.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free port.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(envvar="LOOKALIKE_TOKEN", help="Require this token; 'new' generates one."),
    ] = None,
    tokens: Annotated[
        Path | None,
        typer.Option(help="Require one of the tokens of this file, lines of 'name = token'."),
    ] = None,
    rate: Annotated[
        str,
        typer.Option(
            help="How often each token, or without any each address, may search: 10/s, 100/min, "
            "5000/h, or none: as often as it likes."
        ),
    ] = "50/s",
    runtime: Annotated[
        Literal["torch", "onnx"], typer.Option(help="The runtime that embeds uploaded pictures.")
    ] = "torch",
    workers: Annotated[
        int, typer.Option(min=1, max=256, help="Processes that answer, each with its model.")
    ] = 1,
    trusted_proxies: Annotated[
        str,
        typer.Option(
            metavar="ADDRESSES",
            help="Proxies in front of it, as 127.0.0.1 or 10.0.0.0/8,10.1.2.3: the address of the "
            "client and https are taken from their X-Forwarded-For and X-Forwarded-Proto.",
        ),
    ] = "",
    log: Annotated[
        Literal["human", "json"], typer.Option(help="How the log is written to standard error.")
    ] = "human",
) -> None:
    """Search by picture in a browser; the same as a JSON API under /api.

    Example: lookalike serve shop.index

    By default only this machine can connect; set a --token with another --host. Changes of the
    index are seen within seconds. The API is described at /api/openapi.json.
    """
    from lookalike.errors import BadInput
    from lookalike.search import Index
    from lookalike.serve import server
    from lookalike.serve.gate import is_loopback
    from lookalike.serve.limits import Options
    from lookalike.serve.tokens import SHORTEST_SENTENCE, SHORTEST_TOKEN, Rate, Tokens

    opened = Index.open(index)
    if token == "new":
        token = secrets.token_urlsafe(18)
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise BadInput(f"{SHORTEST_SENTENCE}; 'new' generates one")
    pairs = [("token", token)] if token is not None else []
    pairs += Tokens.read(tokens) if tokens is not None else []
    known = Tokens.of(pairs)

    def tell(address: str) -> None:
        if not known and not is_loopback(host):
            ConsoleWatcher().note(
                f"everyone who can reach {host} can see the pictures; --token restricts access"
            )
        secret = token is not None and token == os.environ.get("LOOKALIKE_TOKEN")
        shown = address if token is None or secret else f"{address}?token={quote(token)}"
        print(f"{len(opened):,} pictures of {opened.place} at {shown}  (Ctrl-C stops)", flush=True)

    options = Options(
        opened.address,
        tokens=known,
        rate=None if rate == "none" else Rate.parse(rate),
        runtime=runtime,
        log=log,
        host=host,
        proxies=trusted_proxies,
    )
    server.serve(opened, options, port=port, workers=workers, ready=tell)
