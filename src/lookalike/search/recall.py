"""How many of the true neighbours a fast search finds, and the least setting that is enough."""

from collections.abc import Callable, Iterable, Sequence

TARGET = 0.97
NEIGHBOURS = 10


def least_setting(
    settings: Iterable[int],
    own: Sequence[int],
    truth: Sequence[Sequence[int]],
    search: Callable[[int], Sequence[Sequence[int]]],
) -> tuple[int, float]:
    """The least ``nprobe`` or ``ef_search`` that finds enough true neighbours, and the recall.

    Pictures of the index are the queries, with the ids ``own``, and do not count as neighbours of
    themselves. Where no setting is enough, the last one is returned.

    >>> least_setting([4, 8], [1], [[1, 2, 3]], lambda nprobe: [[1, 3, 4]])
    (8, 0.5)
    """
    for setting in settings:
        recall = mean_recall(own, truth, search(setting))
        if recall >= TARGET:
            break
    return setting, recall


def mean_recall(
    own: Sequence[int], truth: Sequence[Sequence[int]], found: Sequence[Sequence[int]]
) -> float:
    """The mean share of the true neighbours that were found, without the queries themselves.

    >>> mean_recall([1], [[1, 2, 3]], [[1, 3, 4]])
    0.5
    """
    shares = []
    for id, expected, near in zip(own, truth, found, strict=True):
        others = set(expected) - {id}
        if others:
            shares.append(len(others & set(near)) / len(others))
    return sum(shares) / len(shares) if shares else 1.0
