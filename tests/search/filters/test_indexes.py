"""Filters choose the same pictures in a folder and in PostgreSQL."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from lookalike.errors import BadInput
from lookalike.search import Index, Record
from lookalike.search.filters import Filter, numbers
from tests.chaos.doors.filters import hostile_filters
from tests.search.filters.cases import FILTERS, PICTURES

DIM = 4


class Table:
    """The pictures as columns."""

    def __len__(self):
        return len(PICTURES)

    def text(self, name):
        return pa.array([picture.get(name) for picture in PICTURES], pa.string())

    def number(self, name):
        text = self.text(name)
        return None if text is None else numbers(text)


@pytest.fixture(scope="module", params=["folder", "postgres"])
def make_index(request, tmp_path_factory):
    def make(name):
        place = str(tmp_path_factory.mktemp("filters") / name)
        if request.param == "postgres":
            place = f"{request.getfixturevalue('postgres')}#filters {name}"
        return Index.create(place, None, dim=DIM)

    return make


@pytest.fixture(scope="module")
def index(make_index, tmp_path_factory):
    made = make_index("shop")
    made.root_number(tmp_path_factory.mktemp("photos"))
    metadata = [{k: v for k, v in p.items() if k not in ("path", "label")} for p in PICTURES]
    records = [Record(p["path"], p["label"], m) for p, m in zip(PICTURES, metadata, strict=True)]
    vectors = np.random.default_rng(0).normal(size=(len(records), DIM)).astype(np.float32)
    made.commit(records, vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    return made


@pytest.mark.parametrize("text", FILTERS)
def test_both_choose_the_same(index, text):
    chosen = Filter.parse(text)
    mask = chosen.mask(Table())
    assert index.ids_where(chosen).tolist() == index.ids[mask].tolist()
    assert index.count(chosen) == mask.sum()


@settings(
    max_examples=300,
    database=None,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
@given(hostile_filters())
def test_hostile_filters_choose_the_same_or_are_refused(index, made):
    """What the campaign makes: whatever is read as a filter means the same in both."""
    _, text = made
    try:
        chosen = Filter.parse(text)
        found = index.ids_where(chosen).tolist()
    except BadInput:
        return
    assert found == index.ids[chosen.mask(Table())].tolist()


def test_search_is_within_the_filter(index):
    query = index.vectors[0]
    everything = [hit.path for hit in index.search(query, 100)[0]]
    assert len(everything) == len(PICTURES)
    for text in FILTERS[::7]:
        inside = {PICTURES[row]["path"] for row in Filter.parse(text).mask(Table()).nonzero()[0]}
        found = [hit.path for hit in index.search(query, 100, where=text)[0]]
        assert found == [path for path in everything if path in inside]


def test_a_filter_and_a_label(index):
    found = index.search(index.vectors[:2], 5, where="price = 50", label="green")
    assert [sorted(hit.path for hit in hits) for hits in found] == [["a/3.png", "b/10%.png"]] * 2


def test_every_column_is_known(index):
    assert index.columns == ["My Column", "brand", "größe", "my column", "price"]
    with pytest.raises(BadInput, match="column 'Price'; did you mean 'price'"):
        index.search(index.vectors[0], 1, where="Price < 5")


def test_names_are_parameters(make_index, tmp_path):
    names = ['a"b', "a'b", "a%sb", "a{schema}b", "a\\b", "; drop table item", "ü", "%(where0)s"]
    index = make_index("names")
    index.root_number(tmp_path)
    vectors = np.eye(len(names), DIM, dtype=np.float32) + np.float32(0.1)
    index.commit([Record(name, None, {name: "yes"}) for name in names], vectors)
    for name in names:
        quoted = name.replace('"', '""')
        chosen = Filter.parse(f'"{quoted}" = \'yes\' and "{quoted}" is not null')
        assert chosen.columns == {name}
        assert [item.path for item in index.items(index.ids_where(chosen))] == [name]
    for ask in (index.count, index.ids_where):
        with pytest.raises(BadInput, match="no picture has the column 'prize'"):
            ask(Filter.parse("prize = 'x'"))
