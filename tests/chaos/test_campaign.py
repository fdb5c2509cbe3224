"""The frame of the campaign: shares of time, seeds, failures, the table."""

import signal

import pytest

from tests.chaos import page
from tests.chaos.campaign import run_campaign
from tests.chaos.commands import start
from tests.chaos.outcome import Outcome, Scenario, Unavailable
from tests.chaos.scenarios import scenarios


class Counted(Scenario):
    """Fails where its random number says so, and remembers the numbers."""

    def __init__(self, name, limit=2.0):
        self.name = name
        self.limit = limit
        self.drawn = []

    def attempt(self, random, folder):
        assert folder.is_dir()
        self.drawn.append(random.random())
        return Outcome(done=3, wrong=int(self.drawn[-1] > self.limit), problems=("too large",))


class Broken(Counted):
    def attempt(self, random, folder):
        raise RuntimeError("the harness itself")


class Unprepared(Counted):
    def prepare(self, folder):
        raise RuntimeError("no reference")


class Elsewhere(Counted):
    def prepare(self, folder):
        raise Unavailable("no such machine")


def run(chosen, folder, **options):
    lines = []
    given = {"seed": 7, "seconds": 0.0, "attempts": 4, "say": lines.append} | options
    return run_campaign(chosen, folder, **given), lines


def test_a_failure_is_replayed_by_its_seed(tmp_path):
    whole = Counted("some.work")
    entries, _ = run([whole], tmp_path / "whole", seconds=60)
    assert entries[0].attempts == 4
    assert entries[0].total.done == 12
    limit = sorted(whole.drawn)[-2]
    failing = Counted("some.work", limit)
    entries, lines = run([failing], tmp_path / "failing", seconds=60)
    ((seed, outcome),) = entries[0].failures
    assert outcome.problems == ("too large",)
    assert f"  again: python -m tests.chaos --only some.work --seed {seed} --attempts 1" in lines
    again = Counted("some.work")
    run([again], tmp_path / "again", seed=seed, attempts=1)
    assert again.drawn == [max(whole.drawn)]


def test_goes_on_after_failures_and_makes_one_attempt_of_each(tmp_path):
    chosen = [Broken("a"), Elsewhere("b"), Counted("c"), Counted("d")]
    entries, _ = run(chosen, tmp_path, jobs=2)
    assert [entry.attempts for entry in entries] == [1, 0, 1, 1]
    assert entries[0].total.wrong == 1
    assert entries[1].unavailable == "no such machine"
    text = page.table(entries)
    assert "did not run: no such machine" in text
    assert text.splitlines()[-1] == "| **all** | **3** | **6 faults** | **1** | **0** | **0** |  |"


def test_a_preparation_that_fails_is_one_failure(tmp_path):
    entries, lines = run([Unprepared("a")], tmp_path, seconds=60)
    assert entries[0].attempts == len(entries[0].failures) == 1
    assert "no reference" in "".join(lines)


class Idle(Counted):
    def attempt(self, random, folder):
        return Outcome()


def test_attempts_that_disturb_nothing_are_a_failure(tmp_path):
    entries, lines = run([Idle("a"), Elsewhere("b")], tmp_path, attempts=None)
    assert entries[0].attempts > 1
    assert [len(entry.failures) for entry in entries] == [1, 0]
    assert "no attempt disturbed anything" in lines[-1]


class Leaves(Counted):
    def attempt(self, random, folder):
        self.left = start(["600"], folder, program="import time; time.sleep(600)")
        return Outcome(done=1)


def test_a_command_that_still_runs_is_ended_and_a_failure(tmp_path):
    scenario = Leaves("a")
    entries, lines = run([scenario], tmp_path, attempts=1)
    assert len(entries[0].failures) == 1
    assert "still running" in "".join(lines)
    assert scenario.left.within(20) == -signal.SIGKILL


def test_a_share_of_the_time_is_for_one_attempt_alone_at_the_end(tmp_path):
    loads = [Counted("load.a"), Counted("load.b")]
    loads[0].share, loads[1].share = 0.5, 0.1
    beside = Counted("c")
    entries, lines = run([*loads, beside], tmp_path / "all", seconds=0.6, attempts=None, jobs=2)
    assert [entry.attempts for entry in entries[:2]] == [1, 1]
    assert entries[2].attempts > 1
    assert [load.seconds for load in loads] == pytest.approx([0.3, 0.06])
    assert [line.split()[0] for line in lines[-2:]] == ["load.a", "load.b"]
    run([loads[0]], tmp_path / "one", seconds=6)
    assert loads[0].seconds == pytest.approx(6)  # nothing else is there


def test_the_table_takes_its_place_on_the_page(tmp_path):
    entries, _ = run([Counted("c")], tmp_path)
    place = tmp_path / "page.md"
    place.write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n")
    for _ in range(2):
        page.write(entries, "make chaos", 7, 20, place)
    text = place.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert text.count("| `c` | 1 | 3 faults | 0 | 0 | 0 |  |") == 1


def test_names():
    everything = scenarios()
    names = [scenario.name for scenario in everything]
    assert len(set(names)) == len(names)
    with pytest.raises(ValueError, match="no scenario 'kill'"):
        scenarios(["kill"])
