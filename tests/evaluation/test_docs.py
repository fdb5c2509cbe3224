import re
from pathlib import Path

import pytest

from lookalike.evaluation import METRICS

PAGE = Path(__file__).parents[2] / "docs" / "evaluation.md"


def test_the_code_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 5
    names = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert names["found"].gain.keys() == {"recall@1", "map"}


@pytest.mark.parametrize("name", METRICS.names())
def test_every_metric_is_on_the_page(name):
    assert f"`{name}`" in PAGE.read_text()
