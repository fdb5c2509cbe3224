"""A pytest plugin: parts of Lookalike in place of PML's, while PML's own tests run.

    pytest -p in_place --in-place-report=report.json tests

Every public class of ``lookalike.pml`` takes the place of PML's of the same name, before the tests
import them. The report says of each test whether it built one of our objects, and its outcome.
"""

import functools
import importlib
import json
from pathlib import Path

import pytest

MODULES = ("distances", "losses", "miners", "reducers", "regularizers", "samplers")
"""Modules of PML of which every public class that we have too is replaced."""
ALSO = {
    "utils.accuracy_calculator": ("AccuracyCalculator",),
    "utils.distributed": ("DistributedLossWrapper", "DistributedMinerWrapper"),
    "utils.inference": ("FaissKMeans", "FaissKNN", "InferenceModel", "MatchFinder"),
}
OURS, THEIRS = "lookalike.pml", "pytorch_metric_learning"

built = set()
"""Names of our classes that the running test has built an object of."""
built_by_class = {}
"""The same of what ``setUpClass`` built for all tests of a class."""


def counting(cls):
    """The class, which now tells that it was built."""
    start = cls.__init__

    @functools.wraps(start)
    def counted(self, *args, **kwargs):
        built.add(type(self).__name__)
        start(self, *args, **kwargs)

    cls.__init__ = counted
    return cls


def replace():
    """Put ours in place of theirs."""
    for module in (*MODULES, *ALSO):
        try:
            ours = importlib.import_module(f"{OURS}.{module}")
        except ModuleNotFoundError:
            continue
        theirs = importlib.import_module(f"{THEIRS}.{module}")
        for name in ALSO.get(module, vars(theirs)):
            pair = getattr(theirs, name), getattr(ours, name, None)
            if all(isinstance(each, type) for each in pair):
                setattr(theirs, name, counting(pair[1]))


def pytest_addoption(parser):
    parser.addoption("--in-place-report", type=Path, default=None)


def pytest_configure(config):
    replace()
    config.outcomes = {}


def pytest_runtest_setup(item):
    built.clear()


@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(fixturedef, request):
    yield
    if fixturedef.scope == "class":
        built_by_class.setdefault(request.cls, set()).update(built)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.when == "call":
        text = report.longreprtext.strip().splitlines()
        item.config.outcomes[item.nodeid] = {
            "outcome": report.outcome,
            "ours": sorted(built | built_by_class.get(item.cls, set())),
            "reason": text[-1] if text else "",
        }


def pytest_sessionfinish(session):
    path = session.config.getoption("--in-place-report")
    if path:
        path.write_text(json.dumps(session.config.outcomes, indent=1))
