"""Settings: YAML that expands, recurses, runs code, or has any type where another is expected."""

from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from lookalike.compare.conditions import read_description
from lookalike.config import RunConfig, load
from lookalike.config.keys import declared_keys
from lookalike.config.loading import plain_yaml
from lookalike.config.recipes import folder as recipe_folder
from lookalike.study.config import StudyConfig, load_study
from lookalike.training.runner import check
from tests.chaos.doors.door import Broken, Door, Input, damaged

__all__ = ["Settings", "Studies"]

SCALARS = (
    *("null", "true", "0", "-1", "1" + "0" * 400, "9" * 6000, "0x" + "f" * 50, "1e-400", "0b2"),
    *(".nan", ".inf", "-.inf", "1e999", '"nan"', "0o9", "1_000", "1:30:59", "2020-01-31"),
    *("2020-13-45", "2020-01-01T99:99:99Z", '""', '" "', '"a\\0b"', '"../../etc/passwd"'),
    *('"/dev/zero"', '"~root"', '"\\ud800"', "'a'", "!!binary aGVsbG8=", "!!binary /"),
    *("!!set {a, b}", "!!omap [a: 1]", "!!timestamp x", "!!int x", "!!float x", "!!bool x"),
    *("!!null x", "!!str 1", "!!pairs [a: 1]", "!!seq {a: 1}", "!!map [1]", "[]", "{}", "[[[]]]"),
    *("{a: {b: {c: 1}}}", "[1, a, null]", "{1: 2}", "{null: 1}", "{? [1] : 2}", "%s%s%n"),
    *('"<script>alert(1)</script>"', "'; drop table x; --", "{0.__class__}", "*nothing"),
    *('"' + "x" * 100_000 + '"', "&a [*a]", "&a {b: *a}", "<<", "=", "? ", "|", "- - -"),
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
MARK = "mark"
"""What code would leave in the current folder."""


def nested(key: str, value: str) -> str:
    """A value at a dotted key, as YAML."""
    lines = [f"{'  ' * depth}{part}:" for depth, part in enumerate(key.split("."))]
    return "\n".join(lines) + f" {value}\n"


def laughs(width: int, depth: int, key: str) -> str:
    """A few lines that mean thousands of millions."""
    lines = ["a0: &a0 [" + ", ".join(["lol"] * width) + "]"]
    for level in range(1, depth):
        lines.append(f"a{level}: &a{level} [" + ", ".join([f"*a{level - 1}"] * width) + "]")
    return "\n".join(lines) + f"\n{key}: *a{depth - 1}\n"


class Settings(Door):
    """Configurations of runs, key by key."""

    name = "settings"
    count = 100
    seconds = 30
    megabytes = 1500
    keys: list[str]
    texts: list[str]

    def prepare(self, folder: Path) -> None:
        """Read the recipes, and the names of all keys."""
        self.keys = [*declared_keys(RunConfig), "extends", "loss.margin", "nothing.at.all"]
        paths = sorted(recipe_folder().rglob("*.yaml"))
        self.texts = [text for path in paths if len(text := path.read_text()) < 3000]

    def inputs(self) -> st.SearchStrategy[Input]:
        """Files of settings, most of which must be refused."""
        keys, texts = st.sampled_from(self.keys), st.sampled_from(self.texts)
        depth = st.sampled_from((400, 3000, 20_000))
        code = st.builds(lambda k, c: nested(k, c.format(mark=MARK)), keys, st.sampled_from(CODE))
        size = st.sampled_from(((9, 9), (2, 40), (100, 5)))
        refused = {
            "code": code,
            "laughs": st.builds(lambda s, k: laughs(*s, k.partition(".")[0]), size, keys),
            "deep": st.builds(lambda n: f"loss: {'[' * n}1{']' * n}\n", depth),
        }
        others = {
            "wrong type": st.builds(nested, keys, st.sampled_from(SCALARS)),
            "damaged": texts.flatmap(lambda text: damaged(text.encode())),
        }
        found = [st.builds(Input, st.just(kind), made) for kind, made in others.items()]
        found += [
            st.builds(Input, st.just(kind), made, st.just(True)) for kind, made in refused.items()
        ]
        return st.one_of(*found, found[0])

    def receive(self, sent: Input, folder: Path) -> None:
        """Load the file."""
        path, content = folder / "some.yaml", sent.content
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        try:
            self.load(path)
        finally:
            if Path(MARK).exists():
                raise Broken("code ran")

    def load(self, path: Path) -> Any:
        """As ``lookalike train`` reads it, before it reads any data."""
        check(load(path))


class Studies(Settings):
    """Studies, and descriptions of papers."""

    name = "studies"

    def prepare(self, folder: Path) -> None:
        """Read those that come with the package."""
        self.keys = [
            *StudyConfig.model_fields,
            *map("base.{}".format, declared_keys(RunConfig)),
            *("methods.name", "base.loss.name", "axes.size.64", "rows.config", "grids", "axes"),
            *("paper", "title", "source", "same", "experiments", "same.network", "cells"),
        ]
        paths = sorted((recipe_folder() / "studies").glob("*.yaml"))
        paths += sorted((recipe_folder().parent / "docs" / "audits").glob("*.yaml"))
        self.texts = [text for path in paths if len(text := path.read_text()) < 6000]

    def load(self, path: Path) -> Any:
        """As ``study run`` and ``audit`` read such a file."""
        content = plain_yaml(path)
        if "experiments" in content or "same" in content:
            read_description(path)
            return
        for method in load_study(path).methods:
            method.resolved()
