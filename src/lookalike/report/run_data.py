"""What a report reads of one run: its scores, its curve, and the embeddings of its test images."""

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lookalike.config import RunConfig
from lookalike.errors import BadInput
from lookalike.runs.run import TestEmbeddings, test_embeddings
from lookalike.training import Run

__all__ = ["ReportRun"]


@dataclass(frozen=True)
class ReportRun:
    """A finished run under the name that the report gives it."""

    name: str
    run: Run

    @cached_property
    def config(self) -> RunConfig:
        """What the run was asked to do."""
        return self.run.config

    @cached_property
    def result(self) -> dict[str, Any]:
        """What came out, with its test scores."""
        result = self.run.result
        if "test" not in result:
            raise BadInput(f"the run in '{self.run.folder}' was not tested (protocol.test=false)")
        return result

    @property
    def untrained(self) -> bool:
        """Whether this is the network as it was before any training."""
        return self.config.train.epochs == 0

    @cached_property
    def epochs(self) -> list[dict[str, Any]]:
        """The log: one mapping an epoch."""
        return self.run.epochs()

    @cached_property
    def environment(self) -> dict[str, Any]:
        """Versions and machine, as the run wrote them down."""
        path = self.run.folder / "environment.json"
        if not path.is_file():
            return {}
        value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return value

    @cached_property
    def tested(self) -> TestEmbeddings:
        """The embeddings of the test images, and these images."""
        return test_embeddings(self.run)
