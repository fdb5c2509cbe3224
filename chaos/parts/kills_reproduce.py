"""``kill -9`` while a paper's table is reproduced."""

import json
import signal
import time
from pathlib import Path
from random import Random

from chaos.checks import failure, moment, unexpected
from chaos.commands import fork
from chaos.pictures import make_pictures
from chaos.scenario import Outcome, Scenario, Unit
from lookalike.study.table import load_results


class ReproduceKills(Scenario):
    """A table of a paper in its smallest form, killed and started again."""

    name = "kills.reproduce"
    unit: Unit = "kills"
    quick = 0

    def prepare(self, folder: Path) -> None:
        """Reproduce it undisturbed."""
        self.pictures = make_pictures(folder / "pictures", classes=16)
        self.variables = {"LOOKALIKE_CACHE": str(folder / "cache")}
        start = time.monotonic()
        command = fork(self.arguments(folder / "whole"), folder, self.variables)
        if command.wait() != 0:
            raise RuntimeError(f"the undisturbed table failed: {command.errors}")
        self.seconds = time.monotonic() - start
        self.expected = self.scores(folder / "whole")
        if not all(scores and all(scores) for _, scores in json.loads(self.expected) or [("", [])]):
            raise RuntimeError(f"the undisturbed table has no scores: {self.expected}")

    def arguments(self, results: Path) -> list[str]:
        """One of the shortest tables, with the smallest network."""
        return [
            "reproduce", "thesis/fixed-validation", "--scale", "small", "--results", str(results),
            "--workers", "1", "--repeats", "1", "data.name=folder", f"data.root={self.pictures}",
            "data.transform=none", "model.network=small-cnn", "model.weights=none",
            "model.frozen=false", "model.frozen_until=null", "model.head_init=random",
            "model.freeze_bn_statistics=false", "model.freeze_bn_affine=false",
            "sampler.batch_size=8", "train.epochs=1", "train.batches_per_epoch=2",
        ]  # fmt: skip

    def scores(self, results: Path) -> str:
        """The scores of every row."""
        rows = load_results(results).rows
        return json.dumps([[r.label, [x.separate for x in r.repeats]] for r in rows])

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Kill up to three times."""
        arguments, total = self.arguments(folder / "results"), Outcome()
        kills = random.randint(1, 3)
        for _ in range(kills):
            command = fork(arguments, folder, self.variables)
            killed = command.kill_after(moment(random, self.seconds, kills))
            total += Outcome(int(killed)) + unexpected(command, (0, -signal.SIGKILL))
        command = fork(arguments, folder, self.variables)
        if command.wait() != 0:
            return total + failure(command, f"exit code {command.poll()} after kills")
        if self.scores(folder / "results") != self.expected:
            total += Outcome(wrong=1, problems=("other scores than the undisturbed table",))
        return total


SCENARIOS: tuple[Scenario, ...] = (ReproduceKills(),)
