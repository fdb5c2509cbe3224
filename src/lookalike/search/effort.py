"""The least effort with which a fast search finds enough of the true neighbours."""

from collections.abc import Callable, Iterable, Sequence

TARGET = 0.97
NEIGHBOURS = 10


def least_effort(
    efforts: Iterable[int],
    own: Sequence[int],
    truth: Sequence[Sequence[int]],
    search: Callable[[int], Sequence[Sequence[int]]],
) -> tuple[int, float]:
    """The least effort with which ``search`` finds enough of the true neighbours, and the recall.

    Pictures of the index are the queries, with the ids ``own``, and do not count as neighbours of
    themselves. Where no effort is enough, the last one is returned.

    >>> least_effort([4, 8], [1], [[1, 2, 3]], lambda effort: [[1, 3, 4]])
    (8, 0.5)
    """
    for effort in efforts:
        recall = mean_recall(own, truth, search(effort))
        if recall >= TARGET:
            break
    return effort, recall


def mean_recall(
    own: Sequence[int], truth: Sequence[Sequence[int]], found: Sequence[Sequence[int]]
) -> float:
    """The mean share of the true neighbours that were found, without the queries themselves.

    >>> mean_recall([1], [[1, 2, 3]], [[1, 3, 4]])
    0.5
    """
    shares = []
    for id, right, near in zip(own, truth, found, strict=True):
        others = set(right) - {id}
        if others:
            shares.append(len(others & set(near)) / len(others))
    return sum(shares) / len(shares) if shares else 1.0
