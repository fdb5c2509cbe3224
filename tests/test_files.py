import json

import pytest

from lookalike.files import atomically, write_json


def test_a_failed_write_leaves_the_former_file(tmp_path):
    path = tmp_path / "value.json"
    write_json(path, {"a": 1})
    with pytest.raises(RuntimeError), atomically(path) as draft:
        draft.write_text("half")
        raise RuntimeError
    assert json.loads(path.read_text()) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["value.json"]
