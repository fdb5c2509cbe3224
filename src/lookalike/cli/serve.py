"""``lookalike serve``: the search page of an index."""

import secrets
from enum import StrEnum
from typing import Annotated
from urllib.parse import quote

import typer

__all__ = ["serve"]


SHORTEST_TOKEN = 8


class Runtime(StrEnum):
    """What runs the network."""

    torch = "torch"
    onnx = "onnx"


def serve(
    index: Annotated[str, typer.Argument(metavar="INDEX", help="What 'lookalike index' wrote.")],
    host: Annotated[
        str, typer.Option(help="The address to listen on; 0.0.0.0 lets other machines in.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="LOOKALIKE_TOKEN", help="Answer only those who know it; 'new' makes one up."
        ),
    ] = None,
    runtime: Annotated[
        Runtime, typer.Option(help="What runs the network on pictures that visitors send.")
    ] = Runtime.torch,
) -> None:
    """Search by picture in a browser; the same as a JSON API under /api.

    Example: lookalike serve shop.index

    Only this machine is answered, unless --host says otherwise; give a --token then. The API
    describes itself at /api/openapi.json.
    """
    from lookalike.cli.console import ConsoleWatcher
    from lookalike.errors import BadInput

    try:
        from lookalike.serve import server
    except ModuleNotFoundError as error:
        raise BadInput(
            f"the search page needs the package '{error.name}': pip install 'lookalike[serve]'"
        ) from error
    from lookalike.inference.onnx_encoder import OnnxEncoder
    from lookalike.search import Encoder, Index
    from lookalike.serve.gate import is_loopback

    opened = Index.open(index)
    if token == "new":
        token = secrets.token_urlsafe(18)
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise BadInput(f"a token needs {SHORTEST_TOKEN} characters or more; 'new' makes one up")

    def tell(address: str) -> None:
        if token is None and not is_loopback(host):
            ConsoleWatcher().note(
                f"whoever reaches {host} can see the pictures; --token keeps others out"
            )
        shown = address if token is None else f"{address}?token={quote(token)}"
        print(f"{len(opened):,} pictures of {index} at {shown}  (Ctrl-C stops)", flush=True)

    encoder: Encoder = opened.embedder
    if runtime is Runtime.onnx:
        encoder = OnnxEncoder.of(opened.embedder)
    server.serve(opened, host=host, port=port, token=token, encoder=encoder, ready=tell)
