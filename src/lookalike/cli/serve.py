"""``lookalike serve``: the search page of an index."""

import os
import secrets
from typing import Annotated, Literal
from urllib.parse import quote

import typer

from lookalike.progress import ConsoleWatcher

MINIMUM_TOKEN_LENGTH = 8


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
    runtime: Annotated[
        Literal["torch", "onnx"], typer.Option(help="The runtime that embeds uploaded pictures.")
    ] = "torch",
) -> None:
    """Search by picture in a browser; the same as a JSON API under /api.

    Example: lookalike serve shop.index

    By default only this machine can connect; set a --token with another --host. The API is
    described at /api/openapi.json.
    """
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
    if token is not None and len(token) < MINIMUM_TOKEN_LENGTH:
        raise BadInput(
            f"a token needs {MINIMUM_TOKEN_LENGTH} characters or more; 'new' generates one"
        )

    def tell(address: str) -> None:
        if token is None and not is_loopback(host):
            ConsoleWatcher().note(
                f"everyone who can reach {host} can see the pictures; --token restricts access"
            )
        secret = token is not None and token == os.environ.get("LOOKALIKE_TOKEN")
        shown = address if token is None or secret else f"{address}?token={quote(token)}"
        print(f"{len(opened):,} pictures of {index} at {shown}  (Ctrl-C stops)", flush=True)

    encoder: Encoder = opened.embedder
    if runtime == "onnx":
        encoder = OnnxEncoder.of(opened.embedder)
    server.serve(opened, host=host, port=port, token=token, encoder=encoder, ready=tell)
