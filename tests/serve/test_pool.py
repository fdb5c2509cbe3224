"""What is asked at the same time is computed together, and nobody waits for nobody."""

import asyncio
import threading

import pytest

from lookalike.serve.limits import Refusal
from lookalike.serve.pool import Pool


class Doubling:
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
def play():
    """Run a scene with a pool, whose only thread computes something already, and its work."""

    def run(scene, **options):
        async def whole():
            pool, work = Pool("test", 1, **{"waiting": 100} | options), Doubling()
            first = asyncio.ensure_future(pool.batched(work, 1))
            await asyncio.sleep(0)
            while len(pool):
                await asyncio.sleep(0.01)
            try:
                return await scene(pool, work, first)
            finally:
                work.open.set()
                pool.close()

        return asyncio.run(whole())

    return run


async def begun(*coroutines):
    """Their tasks, all of which wait in the pool."""
    tasks = [asyncio.ensure_future(one) for one in coroutines]
    await asyncio.sleep(0)
    return tasks


def test_what_comes_while_a_batch_runs_is_the_next_batch(play):
    async def scene(pool, work, first):
        others = await begun(*(pool.batched(work, number) for number in range(2, 9)))
        work.open.set()
        assert await asyncio.gather(first, *others) == list(range(2, 17, 2))
        assert work.batches == [[1], [2, 3, 4, 5], [6, 7, 8]]

    play(scene, most=4)


def test_only_items_of_one_key_are_computed_together(play):
    async def scene(pool, work, first):
        others = await begun(*(pool.batched(work, n, key=n % 2) for n in (2, 3, 4, 5)))
        alone = await begun(pool.run(lambda: "alone"), pool.run(lambda: "too"))
        work.open.set()
        assert await asyncio.gather(*others, *alone) == [4, 6, 8, 10, "alone", "too"]
        assert work.batches == [[1], [2, 4], [3, 5]]

    play(scene, most=9)


def test_a_bad_item_fails_alone(play):
    async def scene(pool, work, first):
        others = await begun(*(pool.batched(work, item) for item in (2, "bad", 3)))
        work.open.set()
        two, bad, three = await asyncio.gather(*others, return_exceptions=True)
        assert (two, three, str(bad)) == (4, 6, "bad")

    play(scene, most=9)


def test_a_full_queue_refuses_and_drops_what_nobody_waits_for(play):
    async def scene(pool, work, first):
        second, third = await begun(pool.batched(work, 2), pool.batched(work, 3))
        with pytest.raises(Refusal) as caught:
            await pool.run(print)
        assert caught.value.status_code == 429
        assert int(caught.value.headers["Retry-After"]) > 0
        second.cancel()
        (fourth,) = await begun(pool.batched(work, 4))  # it does not fill the queue
        work.open.set()
        assert (await first, await third, await fourth) == (2, 6, 8)
        assert work.batches == [[1], [3], [4]]

    play(scene, waiting=2)


def test_a_closed_pool_refuses_and_its_threads_end(play):
    async def scene(pool, work, first):
        (waiting,) = await begun(pool.batched(work, 2))
        work.open.set()
        await asyncio.to_thread(pool.close)
        with pytest.raises(Refusal):
            await pool.run(print)
        await asyncio.wait([first, waiting])
        assert not any(thread.name.startswith("test-") for thread in threading.enumerate())

    play(scene)
