"""Settings: YAML that expands, recurses, runs code, or has any type where another is expected."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from chaos.hostile.fuzzer import Broken, Fuzzer, Input
from chaos.hostile.mutation import mutated, spliced
from lookalike.compare.conditions import read_description
from lookalike.config import RunConfig, load
from lookalike.config.keys import declared_keys
from lookalike.config.loading import plain_yaml
from lookalike.config.recipes import folder as recipe_folder
from lookalike.registry import LOSSES, MINERS
from lookalike.study.config import StudyConfig, load_study
from lookalike.training.runner import check

__all__ = ["Settings", "Studies"]

NOT_FINITE = (".nan", ".inf", "-.inf", "1e999", "-1e999", '"nan"', '"inf"', "1.0e+999")
SCALARS = (
    *("null", "true", "0", "-1", "1" + "0" * 400, "9" * 6000, "0x" + "f" * 50, "1e-400", "0b2"),
    *("0o9", "1_000", "1:30:59", "2020-01-31", "2020-13-45", "2020-01-01T99:99:99Z", *NOT_FINITE),
    *('""', '" "', '"a\\0b"', '"../../etc/passwd"', '"/dev/zero"', '"~root"', '"\\ud800"', "'a'"),
    *("!!binary aGVsbG8=", "!!binary /", "!!set {a, b}", "!!omap [a: 1]", "!!timestamp x"),
    *("!!int x", "!!float x", "!!bool x", "!!null x", "!!str 1", "!!pairs [a: 1]", "!!seq {a: 1}"),
    *("!!map [1]", "[]", "{}", "[[[]]]", "{a: {b: {c: 1}}}", "[1, a, null]", "{1: 2}", "{null: 1}"),
    *("{? [1] : 2}", '"<script>alert(1)</script>"', "'; drop table lookalike_work; --", "%s%s%n"),
    *("{0.__class__}", '"' + "x" * 100_000 + '"', "*nothing", "&a [*a]", "&a {b: *a}", "<<", "="),
    *("? ", "|", "- - -"),
)
CODE = (
    "!!python/object/apply:os.system ['touch {mark}']",
    "!!python/object/new:subprocess.Popen [['touch', '{mark}']]",
    "!!python/name:os.system ''",
    "!!python/module:os ''",
    "!python/object/apply:builtins.eval [\"open('{mark}', 'w')\"]",
    "!!python/object:pathlib.Path {{a: 1}}",
    "!<tag:yaml.org,2002:python/object/apply:os.mkdir> ['{mark}']",
)


def laughs(random: Random) -> str:
    """A few lines that mean thousands of millions."""
    width, depth = random.choice(((9, 9), (2, 40), (100, 5)))
    lines = ["a0: &a0 [" + ", ".join(["lol"] * width) + "]"]
    for level in range(1, depth):
        lines.append(f"a{level}: &a{level} [" + ", ".join([f"*a{level - 1}"] * width) + "]")
    key = random.choice(("seed", "model", "loss", "data", "protocol", "extends", "name", "methods"))
    return "\n".join(lines) + f"\n{key}: *a{depth - 1}\n"


def merges(random: Random) -> str:
    """The same by merge keys."""
    depth = random.choice((20, 200))
    lines = ["a0: &a0 {x0: 1}"]
    lines += [f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}], x{i}: 1}}" for i in range(1, depth)]
    return "\n".join(lines) + f"\nloss: *a{depth - 1}\n"


def deep(random: Random) -> str:
    """A structure nested so deeply that whatever walks it runs out of stack."""
    depth = random.choice((90, 400, 3000, 20_000))
    opening, closing = random.choice((("[", "]"), ("{a: ", "}")))
    return (
        f"{random.choice(('loss', 'data', 'x', 'methods'))}: {opening * depth}1{closing * depth}\n"
    )


def takes_numbers(annotation: Any) -> bool:
    """Whether a key takes a number, or none, and nothing else."""
    return annotation in (int, float, int | None, float | None)


class Yaml(Fuzzer):
    """What files of settings have in common."""

    count = 100
    seconds = 30
    megabytes = 1500
    keys: list[str]
    texts: list[str]
    numeric: tuple[str, ...] = ()
    arguments: tuple[tuple[str, str, str], ...] = ()

    def inputs(self, random: Random, folder: Path) -> Iterator[Input]:
        """Files of settings, most of which must be refused."""
        for number in range(10**9):
            path, mark = folder / f"{number}.yaml", folder / "mark"
            kind, text, refuse = self.made(random, mark)
            data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
            yield Input(kind, partial(self.tried, path, data, mark), refuse, data)

    def made(self, random: Random, mark: Path) -> tuple[str, str | bytes, bool]:
        """The kind of a file, its text, and whether it must be refused."""
        draw = random.randrange(100)
        whole = random.choice(self.texts)
        if draw < 4:
            return "laughs", laughs(random), True
        if draw < 6:
            return "merge keys", merges(random), True
        if draw < 10:
            return "deep", deep(random), True
        if draw < 18:
            tag = random.choice(CODE).format(mark=mark)
            return "code", f"{self.nested(random.choice(self.keys), tag)}\n", True
        if draw < 26 and self.numeric:
            key = random.choice(self.numeric)
            return "not finite", self.nested(key, random.choice(NOT_FINITE)) + "\n", True
        if draw < 28 and self.arguments:  # where an infinite number may have a meaning
            section, name, argument = random.choice(self.arguments)
            return "not a number", f"{section}:\n  name: {name}\n  {argument}: .nan\n", True
        if draw < 72:
            value = random.choice(SCALARS)
            chosen = random.choice(self.keys)
            return "wrong type", self.nested(chosen, value) + "\n", False
        if draw < 80:
            return (
                "spliced",
                spliced(random, whole.encode(), random.choice(self.texts).encode()),
                False,
            )
        return "damaged", mutated(random, whole.encode()), False

    def nested(self, key: str, value: str) -> str:
        """A value at a dotted key, as YAML."""
        lines = [f"{'  ' * depth}{part}:" for depth, part in enumerate(key.split("."))]
        return "\n".join(lines) + " " + value

    def tried(self, path: Path, data: bytes, mark: Path) -> None:
        """Load the file."""
        path.write_bytes(data)
        try:
            self.load(path)
        finally:
            path.unlink()
            if mark.exists():
                raise Broken("code ran")

    def load(self, path: Path) -> Any:
        """What a command does with it."""
        raise NotImplementedError


class Settings(Yaml):
    """Configurations of runs, key by key."""

    name = "settings"

    def prepare(self, folder: Path) -> None:  # noqa: ARG002 - nothing is kept there
        """Read the recipes, and the names of all keys."""
        declared = declared_keys(RunConfig)
        self.keys = [*declared, "extends", "loss.margin", "nothing.at.all"]
        fields = {name: key.field for name, key in declared.items() if key.field is not None}
        self.numeric = tuple(name for name, one in fields.items() if takes_numbers(one.annotation))
        assert {"optim.lr", "optim.clip_norm", "train.epochs"} <= set(self.numeric)
        self.arguments = tuple(
            (section, name, argument)
            for section, parts in (("loss", LOSSES), ("miner", MINERS))
            for name in parts.names()
            for argument, known in (parts.arguments(name) or {}).items()
            if takes_numbers(known.annotation)
        )
        paths = sorted(recipe_folder().rglob("*.yaml"))
        self.texts = [text for path in paths if len(text := path.read_text()) < 3000]

    def load(self, path: Path) -> Any:
        """As ``lookalike train`` reads it, before it reads any data."""
        check(load(path))


class Studies(Yaml):
    """Studies, and descriptions of papers."""

    name = "studies"

    def prepare(self, folder: Path) -> None:  # noqa: ARG002 - nothing is kept there
        """Read those that come with the package."""
        self.keys = [
            *StudyConfig.model_fields,
            *map("base.{}".format, declared_keys(RunConfig)),
            *("methods.name", "base.loss.name", "axes.size.64", "rows.config", "axes"),
            *("paper", "title", "source", "same", "experiments", "same.network", "cells"),
        ]
        paths = sorted((recipe_folder() / "studies").glob("*.yaml"))
        paths += sorted(recipe_folder().glob("*/*.yaml"))
        paths += sorted((recipe_folder().parent / "docs" / "audits").glob("*.yaml"))
        self.texts = [text for path in paths if len(text := path.read_text()) < 6000]

    def load(self, path: Path) -> Any:
        """As two commands read such a file."""
        content = plain_yaml(path)
        if "experiments" in content or "same" in content:
            read_description(path)
        else:
            for method in load_study(path).methods:
                method.resolved()
