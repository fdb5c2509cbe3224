import io

import numpy as np
import pytest

from lookalike.errors import LookalikeError
from lookalike.evaluation.class_table import ClassTable
from lookalike.study.classes import RowClasses, classes_file, read_classes, write_classes

RNG = np.random.default_rng(0)


def table(names=("a", "b", "c")):
    values = RNG.random((len(names), 2))
    return ClassTable(tuple(names), np.arange(1, len(names) + 1), ("recall@1", "map@r"), values)


@pytest.fixture
def row():
    """Two repeats of two folds."""
    separate = {(repeat, fold): table() for repeat in range(2) for fold in range(2)}
    return RowClasses(separate, {repeat: table() for repeat in range(2)})


def same(one, other):
    assert one.separate.keys() == other.separate.keys()
    assert one.concatenated.keys() == other.concatenated.keys()
    pairs = [(one.separate[key], other.separate[key]) for key in one.separate]
    pairs += [(one.concatenated[key], other.concatenated[key]) for key in one.concatenated]
    for mine, theirs in pairs:
        assert (mine.classes, mine.metrics) == (theirs.classes, theirs.metrics)
        assert np.array_equal(mine.queries, theirs.queries)
        assert np.allclose(mine.values, theirs.values, atol=1e-7)  # single precision


def test_what_is_written_is_read_again(row, tmp_path):
    path = classes_file(tmp_path / "cub" / "triplet,0.5.json")
    assert path.name == "triplet,0.5.classes.npz"
    assert read_classes(path) is None
    write_classes(path, row)
    same(read_classes(path), row)
    before = path.read_bytes()
    write_classes(path, row)
    assert path.read_bytes() == before  # no time stamps
    write_classes(path, RowClasses())
    assert read_classes(path) is None
    path.write_bytes(b"nonsense")
    with pytest.raises(LookalikeError, match=r"classes\.npz' is damaged"):
        read_classes(path)


def test_a_row_is_its_repeats(row):
    parts = {repeat: RowClasses.from_bytes(row.of_repeat(repeat).as_bytes()) for repeat in range(2)}
    assert set(parts[1].separate) == {(0, 0), (0, 1)}
    same(RowClasses.joined(parts), row)


def test_one_fold_has_nothing_to_concatenate():
    once = RowClasses({(0, 0): table()})
    same(RowClasses.from_bytes(once.as_bytes()), once)


def test_tables_of_other_classes_are_refused():
    with pytest.raises(ValueError, match="the same classes"):
        RowClasses({(0, 0): table(), (0, 1): table("xyz")}).as_bytes()


@pytest.mark.parametrize(
    ("key", "forged"),
    [
        ("classes", np.empty(2**27, "<U0")),
        ("cells", np.empty((2**27, 0), np.int64)),
        ("queries", np.array(["1", "2", "3"])),
        ("queries", np.array([1, 2])),
        ("separate", np.ones((4, 3, 5), np.float32)),
        ("separate", np.ones((4, 3, 2), "c8")),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.dtype}{value.shape}",
)
def test_arrays_of_other_shapes_or_types_are_refused_at_once(row, tmp_path, key, forged):
    """Of texts or rows without a byte a small file has any number: they would fill the memory."""
    with np.load(io.BytesIO(row.as_bytes())) as found:
        arrays = {name: found[name] for name in found.files}
    path = tmp_path / "row.classes.npz"
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays | {key: forged})
    path.write_bytes(buffer.getvalue())
    with pytest.raises(LookalikeError, match=r"row\.classes\.npz' is damaged"):
        read_classes(path)
