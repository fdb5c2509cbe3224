import numpy as np
import pytest
import torch

from lookalike.report import embeddings as views
from lookalike.report.embeddings import choose_points, choose_strips


def naive_strip(embeddings, labels, query, items, count):
    """Neighbours and the rank of the first right one, by a plain sort."""
    unit = embeddings / embeddings.norm(dim=1, keepdim=True)
    others = [i for i in items if i != query]
    others.sort(key=lambda i: -float(unit[query] @ unit[i]))
    ranks = [rank for rank, i in enumerate(others, 1) if labels[i] == labels[query]]
    return others[:count], ranks[0]


@pytest.fixture
def scattered():
    generator = torch.Generator().manual_seed(3)
    labels = np.repeat(np.arange(20), 5)
    centres = torch.randn(20, 6, generator=generator)
    return centres[torch.from_numpy(labels)] + torch.randn(100, 6, generator=generator), labels


def test_strips_agree_with_a_plain_sort(scattered):
    embeddings, labels = scattered
    found = choose_strips(embeddings, labels)
    assert len(found.right) == len(found.worst) == 6
    for strip in (*found.right, *found.worst):
        near, first = naive_strip(embeddings, labels, strip.position, range(100), 8)
        assert [n.position for n in strip.neighbours] == near
        assert [n.right for n in strip.neighbours] == [
            labels[i] == labels[strip.position] for i in near
        ]
        assert strip.first_right == first


def test_worst_are_the_worst_and_all_from_different_classes(scattered):
    embeddings, labels = scattered
    found = choose_strips(embeddings, labels)
    ranks = [naive_strip(embeddings, labels, q, range(100), 1)[1] for q in range(100)]
    latest = {}
    for query, rank in enumerate(ranks):
        if rank > 1:
            latest[labels[query]] = max(rank, latest.get(labels[query], 0))
    assert [s.first_right for s in found.worst] == sorted(latest.values(), reverse=True)[:6]
    assert found.wrong == sum(rank > 1 for rank in ranks)
    assert all(s.first_right == 1 and s.neighbours[0].right for s in found.right)
    for group in (found.right, found.worst):
        assert len({labels[s.position] for s in group}) == len(group)


def test_right_queries_are_spread_over_the_test_set():
    labels = np.repeat(np.arange(50), 3)
    embeddings = torch.eye(50)[torch.from_numpy(labels)]
    found = choose_strips(embeddings, labels)
    assert found.worst == ()
    assert [labels[s.position] for s in found.right] == [0, 10, 20, 29, 39, 49]


def test_query_and_gallery_parts(scattered):
    embeddings, labels = scattered
    query = np.arange(100) % 5 == 0
    found = choose_strips(embeddings, labels, query, ~query)
    assert found.possible == 20
    items = np.flatnonzero(~query)
    for strip in (*found.right, *found.worst):
        assert query[strip.position]
        near, first = naive_strip(embeddings, labels, strip.position, items, 8)
        assert [n.position for n in strip.neighbours] == near
        assert strip.first_right == first


def test_an_image_in_both_parts_is_not_its_own_answer():
    labels = np.array([0, 0, 1, 1])
    both = np.array([True, False, True, True])
    found = choose_strips(torch.eye(4), labels, both, both)
    # Image 0 has no other gallery image of its class: nothing to find.
    assert {s.position for s in (*found.right, *found.worst)} <= {2, 3}
    assert found.possible == 2


def test_nothing_to_find_is_an_empty_gallery():
    found = choose_strips(torch.eye(4), np.arange(4))
    assert (found.right, found.worst, found.possible) == ((), (), 0)
    empty = choose_strips(torch.zeros(0, 4), np.empty(0, np.int64))
    assert empty.possible == 0


def test_fewer_images_than_neighbours():
    found = choose_strips(torch.tensor([[1.0, 0], [1, 0.1], [0, 1]]), np.array([0, 0, 1]))
    assert [len(s.neighbours) for s in found.right] == [2]


def test_identical_embeddings_never_show_the_query_itself():
    found = choose_strips(torch.ones(40, 3), np.repeat(np.arange(8), 5))
    for strip in (*found.right, *found.worst):
        assert strip.position not in [n.position for n in strip.neighbours]
        assert len(strip.neighbours) == 8
        assert (strip.first_right == 1) == strip.neighbours[0].right


def test_a_large_test_set_is_looked_at_in_part(scattered, monkeypatch):
    monkeypatch.setattr(views, "MOST_QUERIES", 30)
    found = choose_strips(*scattered)
    assert (found.looked_at, found.possible) == (30, 100)


def test_points_are_few_and_the_same_for_one_seed():
    labels = np.repeat(np.arange(500), 20)
    points = choose_points(labels, seed=3)
    assert len(points) == 36 * 12
    assert len(np.unique(labels[points])) == 36
    assert (np.diff(points) > 0).all()
    assert np.array_equal(points, choose_points(labels, seed=3))
    assert not np.array_equal(points, choose_points(labels, seed=4))


def test_classes_of_one_image_are_left_out_while_there_are_others():
    labels = np.array([0, 1, 1, 2, 3, 3, 3])
    assert choose_points(labels, seed=0).tolist() == [1, 2, 4, 5, 6]
    assert choose_points(np.arange(5), seed=0).tolist() == [0, 1, 2, 3, 4]
    assert len(choose_points(np.empty(0, np.int64), seed=0)) == 0
