"""The command ``lookalike``: one file per command, which parses, calls and prints.

Nothing is imported here before signals are handled, so that Ctrl-C during the imports of a command
is one sentence too.
"""

import os
from typing import Any

from lookalike.signals import Stopping

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line, until it ends or is stopped.

    The Python processes that it starts, also those of libraries, do not search the current folder.
    """
    os.environ["PYTHONSAFEPATH"] = "1"
    with Stopping():
        from lookalike.cli.commands import run

        run()


def __getattr__(name: str) -> Any:
    if name == "app":
        from lookalike.cli.commands import app

        return app
    raise AttributeError(f"module 'lookalike.cli' has no attribute '{name}'")
