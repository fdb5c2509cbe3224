"""Ids, vectors, labels and marks as queries, against the plainest computation."""

import re

import numpy as np
import pytest


def unit(vector):
    return vector / np.linalg.norm(vector)


def ask(client, **body):
    answer = client.post("/api/query", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["neighbours"]


def nearest(shop, query, without=(), keep=lambda item: True):
    rows = [i for i in range(len(shop)) if int(shop.ids[i]) not in without]
    rows = [i for i in rows if keep(shop.item(int(shop.ids[i])))]
    rows.sort(key=lambda row: -float(np.dot(shop.vectors[row], query)))
    return [int(shop.ids[row]) for row in rows]


def mean_of(shop, label):
    rows = [i for i, name in enumerate(shop.labels) if name == label]
    return unit(shop.vectors[rows].mean(0))


def test_vectors_and_several_items_are_searched_by_their_mean(client, shop):
    one, two = shop.vectors[3], shop.vectors[30]
    found = ask(client, vectors=[(7 * one).tolist(), two.tolist()], k=200)
    # both are as near to their mean: rounding decides which of them comes first
    ids, expected = [near["id"] for near in found], nearest(shop, unit(one + two))
    assert [{30: 3}.get(id, id) for id in ids] == [{30: 3}.get(id, id) for id in expected]
    assert sorted(ids) == sorted(expected)
    found = ask(client, items=[3, 30], k=200)
    assert [near["id"] for near in found] == nearest(shop, unit(one + two), without={3, 30})
    alone = client.get("/api/items/3/neighbours", params={"k": 9}).json()["neighbours"]
    assert ask(client, items=[3], k=9) == alone


def test_labels_are_added_and_subtracted(client, shop):
    plus, minus = mean_of(shop, "teal disc"), mean_of(shop, "amber disc")
    query = unit(unit(shop.vectors[3]) + 0.5 * (plus - minus))
    found = ask(client, items=[3], plus=["teal disc"], minus=["amber disc"], weight=0.5, k=200)
    assert [near["id"] for near in found] == nearest(shop, query, without={3})
    found = ask(client, plus=["teal disc"], k=3)
    assert [near["id"] for near in found] == nearest(shop, plus)[:3]


def test_marks_move_the_query_as_rocchio_says(client, shop):
    right, wrong = shop.vectors[[10, 11]].mean(0), shop.vectors[[40]].mean(0)
    query = unit(shop.vectors[3] + 0.75 * right - 0.15 * wrong)
    found = ask(client, items=[3], positive_ids=[10, 11], negative_ids=[40], k=200)
    assert [near["id"] for near in found] == nearest(shop, query, without={3, 40})


def test_uploads_go_with_marks_and_ids(client, shop, picture, as_bytes):
    pictures = [picture("teal"), picture("amber", "square", 7)]
    vectors = shop.embedder.embed(pictures)
    files = [("image", ("a.png", as_bytes(one))) for one in pictures]
    form = {"item": ["3"], "positive_ids": ["10"], "negative_ids": ["40"], "minus": ["teal disc"]}
    answer = client.post("/api/search", files=files, data=form, params={"k": 200})
    query = unit(np.mean([*vectors, shop.vectors[3]], 0))
    query = unit(query - mean_of(shop, "teal disc"))
    query = unit(query + 0.75 * shop.vectors[10] - 0.15 * shop.vectors[40])
    found = [near["id"] for near in answer.json()["neighbours"]]
    assert found == nearest(shop, query, without={3, 40})


def test_filters_everywhere(client, shop, picture, as_bytes):
    where = "price < 20 and maker like '%teal'"

    def keep(item):
        return float(item.metadata["price"]) < 20 and item.metadata["maker"].endswith("teal")

    wanted = nearest(shop, shop.vectors[3], {3}, keep)
    assert len(wanted) == 6
    assert [near["id"] for near in ask(client, items=[3], where=where, k=99)] == wanted
    answer = client.get("/api/items/3/neighbours", params={"where": where, "k": 99}).json()
    assert [near["id"] for near in answer["neighbours"]] == wanted
    listed = client.get("/api/items", params={"where": where, "seed": 4}).json()
    assert listed["total"] == 6
    assert sorted(item["id"] for item in listed["items"]) == sorted(wanted)
    files = {"image": as_bytes(picture())}
    both = client.post("/api/search", files=files, params={"where": where, "label": "teal disc"})
    assert {near["label"] for near in both.json()["neighbours"]} == {"teal disc"}
    assert len(both.json()["neighbours"]) == 2


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ({}, 422, "Give a picture"),
        ({"items": [4711]}, 404, "no picture 4711"),
        ({"items": [1], "negative_ids": [4711]}, 404, "no picture 4711"),
        ({"vectors": [[1.0, 2.0]]}, 422, "needs .* numbers, not 2"),
        ({"vectors": [[0.0] * 128]}, 422, "cancel"),
        ({"plus": ["purple"]}, 422, "purple"),
        ({"plus": ["teal disc"], "minus": ["teal disc"]}, 422, "cancel"),
        ({"items": [1], "label": "purple"}, 422, "purple"),
        ({"items": [1], "where": "pric < 3"}, 422, "did you mean 'price'"),
        ({"items": [1], "where": "price <"}, 422, "."),
        ({"items": [1], "where": "1; drop table x"}, 422, "."),
        ({"items": [1], "k": 0}, 422, "k"),
        ({"items": ["1"]}, 422, "items"),
        ({"items": [1], "what": 1}, 422, "what"),
    ],
)
def test_bad_queries_get_a_sentence(client, body, status, sentence):
    answer = client.post("/api/query", json=body)
    assert answer.status_code == status
    assert re.search(sentence, answer.json()["detail"]), answer.text
