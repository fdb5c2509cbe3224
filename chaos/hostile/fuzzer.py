"""What a fuzzer provides, and how its inputs are judged."""

import faulthandler
import gc
import signal
import traceback
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import FrameType

from lookalike.errors import LookalikeError

__all__ = ["Broken", "Fuzzer", "Input", "Logged", "Verdicts", "judge"]


class Broken(Exception):
    """A promise that was not kept: a file outside of the folder, a picture that is too large."""


class Logged(Exception):
    """A process of the product wrote a traceback; it counts as one."""


class TooSlow(BaseException):
    """An input took longer than its fuzzer allows."""


@dataclass(frozen=True)
class Input:
    """One input, and what is done with it.

    Attributes:
        kind: For the counts.
        run: Hands it to the product. It raises a ``LookalikeError`` if the input is refused.
        refuse: Whether it must be refused.
        keep: Its content, for the report of a failure.
    """

    kind: str
    run: Callable[[], object]
    refuse: bool = False
    keep: bytes | str = b""


class Fuzzer(ABC):
    """Makes inputs of one kind.

    Attributes:
        name: As of a scenario.
        count: Inputs of one attempt.
        seconds: How long one may take.
        megabytes: How much memory the process may take beyond what it has at the beginning.
        refusals: The exceptions by which an input may be refused.
    """

    name: str
    count: int = 200
    seconds: float = 20.0
    megabytes: int = 3000
    refusals: tuple[type[BaseException], ...] = (LookalikeError,)

    def prepare(self, folder: Path) -> None:  # noqa: B027 - not every fuzzer needs one
        """Make what inputs are made of; called once."""

    @abstractmethod
    def inputs(self, random: Random, folder: Path) -> Iterator[Input]:
        """Inputs without end; their files belong in ``folder``."""


@dataclass
class Verdicts:
    """What became of the inputs of one attempt."""

    kinds: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    accepted: int = 0
    wrong: int = 0
    tracebacks: int = 0
    problems: list[str] = field(default_factory=list)


def judge(fuzzer: Fuzzer, seed: int, folder: Path, before: Callable[[int], None]) -> Verdicts:
    """Try as many inputs as the fuzzer asks for; ``before`` is told the number of each."""
    found = Verdicts()
    random = Random(seed)
    inputs = fuzzer.inputs(random, folder)
    for number in range(fuzzer.count):
        one = next(inputs)
        before(number)
        found.kinds[one.kind] += 1
        problem = _problem(fuzzer, one, found)
        if problem:
            shown = one.keep[:120]
            found.problems.append(f"input {number} ({one.kind}): {problem}\n    {shown!r}")
        if number % 100 == 99:
            gc.collect()
    return found


def _problem(fuzzer: Fuzzer, one: Input, found: Verdicts) -> str:
    """What is wrong with how an input was received; empty: nothing."""
    faulthandler.dump_traceback_later(fuzzer.seconds * 3, exit=True)  # if a library does not return
    signal.setitimer(signal.ITIMER_REAL, fuzzer.seconds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one.run()
        found.accepted += 1
        if one.refuse:
            found.wrong += 1
            return "accepted, and must be refused"
    except fuzzer.refusals as error:
        found.refused += 1
        return _bad_sentence(found, str(getattr(error, "detail", error)))
    except (TooSlow, MemoryError, Broken) as error:
        found.wrong += 1
        where = "".join(traceback.format_tb(error.__traceback__)[-6:])
        return f"{type(error).__name__}: {error}\n{where}"
    except Exception as error:  # what a user would see as a traceback
        found.tracebacks += 1
        where = "".join(traceback.format_tb(error.__traceback__)[-6:])
        return f"{type(error).__name__}: {str(error)[:2000]}\n{where}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
    return ""


def _bad_sentence(found: Verdicts, sentence: str) -> str:
    """Why a refusal is not one clear sentence."""
    if not sentence.strip():
        reason = "refused without a word"
    elif "\n" in sentence.strip():
        reason = f"refused in several lines: {sentence[:300]!r}"
    elif len(sentence) > 4000:
        reason = f"refused in {len(sentence):,} characters: {sentence[:200]!r}"
    else:
        return ""
    found.wrong += 1
    return reason


def too_slow(_: int, frame: FrameType | None) -> None:
    """The handler of SIGALRM."""
    raise TooSlow(f"in {frame.f_code.co_qualname if frame else 'a library'}")
