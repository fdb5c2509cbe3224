import asyncio
import threading

import pytest

from lookalike.serve.limits import Refusal
from lookalike.serve.queues import Workers


def test_who_finds_the_waiting_room_full_is_told():
    async def scene():
        gate = threading.Event()
        workers = Workers(1, 2, "test")
        waiting = [asyncio.ensure_future(workers.threaded(gate.wait)(20)) for _ in range(3)]
        await asyncio.sleep(0.05)
        with pytest.raises(Refusal) as caught:
            await workers.threaded(lambda: 7)()
        assert caught.value.status_code == 429
        assert "Retry-After" in caught.value.headers
        gate.set()
        assert await asyncio.gather(*waiting) == [True] * 3
        assert await workers.threaded(lambda: 7)() == 7

    asyncio.run(scene())


def test_work_that_nobody_waits_for_is_dropped():
    async def scene():
        gate, done = threading.Event(), []
        workers = Workers(1, 5, "test")
        first = asyncio.ensure_future(workers.threaded(gate.wait)(20))
        second = asyncio.ensure_future(workers.threaded(done.append)("second"))
        await asyncio.sleep(0.05)
        second.cancel()
        await asyncio.sleep(0.05)
        gate.set()
        await first
        await workers.threaded(done.append)("third")
        assert done == ["third"]

    asyncio.run(scene())
