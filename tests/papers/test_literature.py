"""The lists of the page of Reality Check, and what papers claim for their own methods."""

from collections import Counter

from lookalike import losses, published
from lookalike.published import claimed_gains, literature, unfair_comparisons

TITLES = {paper.title for paper in literature()}


def test_optimizers_and_crops():
    count = Counter(paper.optimizer for paper in literature())
    assert {name: count[name] for name in ("SGD", "RMSprop", "Adam", "AdamW")} == {
        "SGD": 8,
        "RMSprop": 2,
        "Adam": 10,
        "AdamW": 1,
    }
    assert sum(paper.simple_crop for paper in literature()) == 18
    assert len(TITLES) == len(literature())
    assert all(2016 <= paper.year <= 2020 and paper.venue for paper in literature())
    assert {paper.method for paper in literature() if paper.method} <= set(losses.names())


def test_unfair_comparisons():
    assert Counter(one.category for one in unfair_comparisons()) == {
        "architecture": 7,
        "dimensionality": 4,
        "crop-method": 5,
        "crop-size": 1,
        "omitted-details": 2,
    }
    for one in unfair_comparisons():
        assert one.title in TITLES
        assert one.detail or one.url


def test_reported_numbers_are_of_cited_papers():
    assert {row.reported_by for row in published.load("reality-check")} <= TITLES


def test_claimed_gains_come_from_printed_numbers():
    found = claimed_gains()
    printed = {row.value for row in published.load(metric="recall@1")}
    for one in found:
        assert {one.own, one.baseline} <= printed | {None}
        assert one.source
        assert one.own is not None or one.baseline is not None or one.method == "dr-proxy-nca"
    known = [one for one in found if one.gain is not None]
    # Lifted structure on two data sets over two losses; 9 mixed rows on 4; DR-triplet
    assert len(known) == 2 * 2 + 9 * 4 + 1
    direction = next(one for one in known if one.method == "dr-triplet")
    assert (direction.over, direction.gain) == ("triplet", 2.59)
