"""The lists of the page of Reality Check, and what papers claim for their own methods."""

from collections import Counter

from lookalike import losses, published
from lookalike.published import read_table

PAPERS = read_table("literature")
TITLES = {paper["title"] for paper in PAPERS}


def test_optimizers_and_crops():
    count = Counter(paper["optimizer"] for paper in PAPERS)
    del count[""]
    assert count == {"SGD": 8, "RMSprop": 2, "Adam": 10, "AdamW": 1}
    assert sum(paper["simple_crop"] == "yes" for paper in PAPERS) == 18
    assert len(TITLES) == len(PAPERS)
    assert all(2016 <= int(paper["year"]) <= 2020 and paper["venue"] for paper in PAPERS)
    assert {paper["method"] for paper in PAPERS} - {""} <= set(losses.names())


def test_unfair_comparisons():
    assert Counter(one["category"] for one in read_table("unfair")) == {
        "architecture": 7,
        "dimensionality": 4,
        "crop-method": 5,
        "crop-size": 1,
        "omitted-details": 2,
    }
    for one in read_table("unfair"):
        assert one["title"] in TITLES
        assert one["detail"] or one["url"]


def test_reported_numbers_are_of_cited_papers():
    assert {row.reported_by for row in published.load("reality-check")} <= TITLES


def test_claimed_gains_are_differences_of_printed_numbers():
    """A method's own number is in the thesis or the paper's table, the older one's in a table."""
    printed = {(row.dataset, row.value) for row in published.load(metric="recall@1")}
    found = read_table("gains")
    for one in found:
        numbers = [float(one[side]) for side in ("own", "baseline") if one[side]]
        assert all((one["dataset"], number) in printed for number in numbers)
        assert one["source"]
        assert bool(one["gain"]) == (len(numbers) == 2)
        if one["gain"]:
            assert float(one["gain"]) == round(numbers[0] - numbers[1], 2)
    # Lifted structure on two data sets over two losses; 9 mixed rows on 4; DR-triplet
    known = [one for one in found if one["gain"]]
    assert len(known) == 2 * 2 + 9 * 4 + 1
    direction = next(one for one in known if one["method"] == "dr-triplet")
    assert (direction["over"], direction["gain"]) == ("triplet", "2.59")
