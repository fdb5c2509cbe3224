"""What is asked at the same time is computed together, and nobody waits for nobody."""

import asyncio
import threading

import pytest

from lookalike.serve.limits import Refusal
from lookalike.serve.queues import Batcher


class Slow:
    """Doubles numbers, when it is let; remembers its batches."""

    def __init__(self):
        self.open = threading.Event()
        self.batches = []

    def __call__(self, items):
        self.open.wait(20)
        self.batches.append(list(items))
        if "bad" in items:
            raise ValueError("bad")
        return [2 * item for item in items]


@pytest.fixture
def slow():
    return Slow()


def test_what_comes_while_a_batch_runs_is_the_next_batch(slow):
    batcher = Batcher(slow, "test", most=4, waiting=100)
    first = batcher.put(1)
    while len(batcher):
        pass  # until the thread has taken it
    others = [batcher.put(number) for number in range(2, 9)]
    slow.open.set()
    assert [future.result(20) for future in (first, *others)] == list(range(2, 17, 2))
    assert slow.batches == [[1], [2, 3, 4, 5], [6, 7, 8]]
    batcher.close()


def test_a_lone_item_does_not_wait(slow):
    batcher = Batcher(slow, "test", most=4, waiting=100, seconds=3_600)
    slow.open.set()
    assert batcher.put(1).result(20) == 2
    batcher.close()


def test_a_batch_waits_for_those_who_are_on_the_way(slow):
    slow.open.set()
    batcher = Batcher(slow, "test", most=4, waiting=100, seconds=3_600)
    with batcher.announced():
        first = batcher.put(1)
        assert not first.done()
        second = batcher.put(2)
    assert (first.result(20), second.result(20)) == (2, 4)
    assert slow.batches == [[1, 2]]
    batcher.close()


def test_only_items_of_one_key_are_computed_together(slow):
    batcher = Batcher(slow, "test", most=9, waiting=100, key=lambda item: item % 2)
    first = batcher.put(0)
    while len(batcher):
        pass
    others = [batcher.put(number) for number in (1, 2, 3, 4)]
    slow.open.set()
    assert [future.result(20) for future in (first, *others)] == [0, 2, 4, 6, 8]
    assert slow.batches == [[0], [1, 3], [2, 4]]
    batcher.close()


def test_a_bad_item_fails_alone(slow):
    slow.open.set()
    batcher = Batcher(slow, "test", most=9, waiting=100, seconds=3_600)
    with batcher.announced():
        futures = [batcher.put(item) for item in (1, "bad", 3)]
    assert futures[0].result(20) == 2
    assert futures[2].result(20) == 6
    with pytest.raises(ValueError, match="bad"):
        futures[1].result(20)
    batcher.close()


def test_what_nobody_waits_for_is_not_computed_and_a_full_queue_refuses(slow):
    async def scene():
        batcher = Batcher(slow, "test", most=1, waiting=2)
        first = asyncio.ensure_future(batcher.submit(1))
        while not batcher._queue and not slow.batches and len(batcher):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        second, third = (asyncio.ensure_future(batcher.submit(number)) for number in (2, 3))
        await asyncio.sleep(0.05)
        with pytest.raises(Refusal) as caught:
            await batcher.submit(4)
        assert caught.value.status_code == 429
        assert int(caught.value.headers["Retry-After"]) > 0
        second.cancel()
        await asyncio.sleep(0.05)
        slow.open.set()
        assert (await first, await third) == (2, 6)
        assert slow.batches == [[1], [3]]
        batcher.close()

    asyncio.run(scene())


def test_items_that_nobody_waits_for_do_not_fill_the_queue(slow):
    batcher = Batcher(slow, "test", most=1, waiting=2)
    first = batcher.put(1)
    while len(batcher):
        pass  # until the thread has taken it
    for future in [batcher.put(2), batcher.put(3)]:
        assert future.cancel()
    last = batcher.put(4)
    slow.open.set()
    assert (first.result(20), last.result(20)) == (2, 8)
    assert slow.batches == [[1], [4]]
    batcher.close()
