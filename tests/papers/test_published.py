"""Published results: complete, monotone, and in agreement with the sums that the papers print."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from lookalike import published
from lookalike.errors import BadInput
from lookalike.published import hyperparameters


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


def k_of(row):
    return int(row.metric.removeprefix("recall@"))


def test_counts():
    rows = published.load()
    assert Counter(row.paper for row in rows) == {
        # 16 tables of 10 x 4, SOP 11 x 4, OurLoss 2 x 4, CV 3, fixed 3, authors 3, ratios 4 x 2,
        # six numbers quoted in the text, tournament 10 x 3
        "thesis": 640 + 44 + 8 + 3 + 3 + 3 + 8 + 6 + 30,
        "metrix": 12 * 12,
        "dr": 4 * 4,
        "reality-check": (11 + 11) * 3,
    }
    assert {row.paper for row in rows} | {"roth"} == set(published.papers())
    assert len(set(rows)) == len(rows)


def test_what_is_missing_is_said():
    missing = [row for row in published.load() if row.value is None]
    assert Counter(row.conditions.rpartition("; ")[2] for row in missing) == {
        "the source is unreadable here": 10,  # GoogLeNet, 1024-d, R@8
        "the source leaves this empty": 4,  # DR-ProxyNCA
        "not reported": 6,
    }
    unreadable = [row for row in missing if row.paper == "thesis"]
    assert {(row.network, row.size, row.metric) for row in unreadable} == {
        ("googlenet", 1024, "recall@8")
    }


def test_recall_grows_with_k():
    cells = defaultdict(list)
    for row in published.load():
        if row.metric.startswith("recall@") and row.recipe and row.value is not None:
            cells[row.recipe, row.protocol, row.part].append((k_of(row), row.value))
    assert len(cells) > 200
    for cell, found in cells.items():
        values = [value for _, value in sorted(found)]
        assert values == sorted(values), cell
        assert len({k for k, _ in found}) == len(found), cell
        assert all(0 < value < 100 for value in values)


def test_the_thesis_tournament_follows_from_its_tables():
    """Ranks by Recall@1 in 12 experiments give the totals that the thesis prints."""
    rows = [row for row in published.load("thesis", "cub", "recall@1") if row.protocol == "paper"]
    experiments = defaultdict(dict)
    for row in rows:
        if row.recipe and row.method != "proxy-to-proxy-2":
            experiments[row.network, row.size][row.method] = row.value
    assert len(experiments) == 12
    ranks = defaultdict(list)
    for scores in experiments.values():
        for place, method in enumerate(sorted(scores, key=scores.get, reverse=True), start=1):
            ranks[method].append(place)
    printed = defaultdict(dict)
    for row in published.load("thesis", "cub"):
        if row.metric.startswith("rank-"):
            printed[row.method][row.metric] = row.value
    for method, found in ranks.items():
        assert sum(found) == printed[method]["rank-total"], method
        assert np.std(found, ddof=1) == pytest.approx(printed[method]["rank-std"], abs=0.01), method
        if method != "triplet":  # printed 8.85; 103/12 is 8.58
            assert np.mean(found) == pytest.approx(printed[method]["rank-mean"], abs=0.01), method


def test_sums():
    """Sums over the documents' tables, added up from the documents' text by other means."""
    sums = defaultdict(float)
    for row in published.load():
        if not row.metric.startswith("rank-"):
            sums[row.paper] += row.value or 0
    assert {paper: round(total, 2) for paper, total in sums.items()} == {
        "thesis": 55473.08,
        "metrix": 12696.0,
        "dr": 795.7,
        "reality-check": 2457.76,
    }


def test_reported_precision_by_year():
    rows = [row for row in published.load("reality-check") if row.method == "contrastive"]
    assert {row.year for row in rows} == {2016, 2017, 2018, 2019}
    horde = [row.value for row in rows if "HORDE" in row.reported_by]
    assert horde == [55, 72.2, None]
    assert all(row.reported_by and row.year for row in published.load("reality-check"))


def test_unknown_names():
    with pytest.raises(BadInput, match=r"'metrics'; .*metrix"):
        published.load("metrics")
    with pytest.raises(BadInput, match=r"'cars196'; .*cars"):
        published.load(dataset="cars196")


def test_hyperparameter_counts():
    rows = hyperparameters()
    count = Counter(row.paper for row in rows)
    # 14 methods with 36 values together, on 4 data sets; the thesis's 22 values, 10 miners,
    # 10 samplers, 9 schedules of 3, 10 networks and sizes, 11 grids; DR 2 tuned, 6 fixed, 6 more
    assert count == {"reality-check": 36 * 4, "thesis": 22 + 20 + 27 + 20 + 11, "dr": 2 + 6 + 6}
    assert [row.label for row in rows if not row.value] == ["SoftTriple"]


def test_settings_say_what_is_printed():
    """A setting's number is the printed one; SoftTriple's gamma is its inverse (divides here)."""
    for row in hyperparameters():
        numbers = [number(setting.partition("=")[2]) for setting in row.settings]
        if row.parameter == "gamma" and row.loss == "soft-triple":
            assert numbers[0] == pytest.approx(1 / number(row.value), rel=1e-3)
        elif row.settings and number(row.value) is not None:
            assert number(row.value) in numbers, row
        if row.low is not None and row.high is not None:
            assert row.low <= float(row.value) <= row.high
