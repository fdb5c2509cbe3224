import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from lookalike.compare.comparison import compare
from lookalike.compare.contenders import gather
from lookalike.report.critical_difference import critical_difference_diagram


@pytest.fixture(scope="module")
def study(make_study, tmp_path_factory):
    return gather([make_study(tmp_path_factory.mktemp("s") / "s", trials=20)])


def test_the_diagram_of_ranks_is_sound(study):
    result = compare(study, "map@r").tournament
    for alone in (True, False):
        root = ET.fromstring(critical_difference_diagram(result, alone=alone))
        texts = [e.text for e in root.iter("{http://www.w3.org/2000/svg}text")]
        for one in result.standings:
            assert any(one.name in text and f"{one.rank:.2f}" in text for text in texts)
        bars = [e for e in root.iter() if e.get("class") == "group"]
        assert len(bars) == len(result.groups)
        width = float(root.get("viewBox").split()[2])
        xs = [float(e.get(k)) for e in root.iter() for k in ("x1", "x2", "x") if e.get(k)]
        assert 0 <= min(xs) <= max(xs) <= width
    assert "critical difference" not in critical_difference_diagram(result)


def test_names_cannot_break_the_diagram(study):
    result = compare(study, "map@r").tournament
    bad = tuple(replace(one, name=f"<b>{one.name}&") for one in result.standings)
    ET.fromstring(critical_difference_diagram(replace(result, standings=bad, groups=())))
