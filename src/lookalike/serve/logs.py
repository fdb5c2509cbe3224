"""Logs on standard error: for people, or a line of JSON for each event.

A line has the request's id, route, status, milliseconds and the name of the token, never the token,
the address with its parameters, or anything of a picture.
"""

import json
import logging
import sys
import time
from typing import Literal

from lookalike.errors import masked
from lookalike.progress import escaped

LogFormat = Literal["human", "json"]
log = logging.getLogger("lookalike.serve")


class JsonFormatter(logging.Formatter):
    """A JSON object in a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return escaped(masked(json.dumps(line, ensure_ascii=False, default=str)))


class HumanFormatter(logging.Formatter):
    """The same for people."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        fields = getattr(record, "fields", {})
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        text = f"{clock} {record.getMessage()}"
        if "route" in fields:
            who = f" {fields['token']}" if fields.get("token") else ""
            text = (
                f"{clock} {fields['status']} {fields['method']} {fields['route']} "
                f"{fields['ms']:.0f} ms{who} [{fields['request']}]"
            )
        elif fields:
            text += " (" + ", ".join(f"{name} {value}" for name, value in fields.items()) + ")"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return escaped(masked(text))


def configure_logging(kind: LogFormat) -> None:
    """Write our own events and uvicorn's to standard error; JSON lines have every request."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if kind == "json" else HumanFormatter())
    for name, level in (
        ("lookalike.serve", logging.DEBUG if kind == "json" else logging.INFO),
        ("uvicorn.error", logging.WARNING),
        ("asyncio", logging.ERROR),
    ):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False


def event(text: str, level: int = logging.INFO, **fields: object) -> None:
    """Something that is no request."""
    log.log(level, text, extra={"fields": fields})
