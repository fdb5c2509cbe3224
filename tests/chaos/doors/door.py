"""What a door is, how what comes in by it is judged, and changes that break any format."""

import faulthandler
import gc
import signal
import traceback
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from lookalike.errors import LookalikeError

__all__ = ["Broken", "Door", "Input", "Logged", "Verdicts", "damaged", "edge_number", "judge"]

EDGES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
"""Numbers at the ends of their types."""


class Broken(Exception):
    """A promise that was not kept: a file outside of the folder, a picture that is too large."""


class Logged(Exception):
    """A process of the product wrote a traceback; it counts as one."""


class TooSlow(BaseException):
    """An input took longer than its door allows."""


@dataclass(frozen=True)
class Input:
    """One input.

    Attributes:
        kind: For the counts.
        content: What is sent.
        refuse: Whether it must be refused.
    """

    kind: str
    content: Any
    refuse: bool = False


class Door(ABC):
    """A way by which strangers' work comes in.

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

    def prepare(self, folder: Path) -> None:  # noqa: B027 - not every door needs one
        """Make what inputs are made of; called once."""

    @abstractmethod
    def inputs(self) -> st.SearchStrategy[Input]:
        """What may come in."""

    @abstractmethod
    def receive(self, sent: Input, folder: Path) -> None:
        """Hand an input to the product, and check what it makes of it.

        Args:
            sent: The input.
            folder: A new folder for files.

        Raises:
            LookalikeError: The input is refused.
            Broken: A promise was not kept.
        """


@dataclass
class Verdicts:
    """What became of the inputs of one attempt."""

    kinds: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    accepted: int = 0
    wrong: int = 0
    tracebacks: int = 0
    problems: list[str] = field(default_factory=list)


def judge(door: Door, number: int, folder: Path) -> Verdicts:
    """Try as many inputs as the door asks for, drawn by a seed, each in a folder of its number."""
    found = Verdicts()

    @seed(number)
    @settings(
        max_examples=door.count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(door.inputs())
    def attempt(sent: Input) -> None:
        count = found.kinds.total()
        place = folder / str(count)
        place.mkdir()
        found.kinds[sent.kind] += 1
        if problem := _problem(door, sent, place, found):
            shown = repr(sent.content)[:120]
            found.problems.append(f"input {count} ({sent.kind}): {problem}\n    {shown}")
        if count % 100 == 99:
            gc.collect()

    attempt()
    return found


def _problem(door: Door, sent: Input, place: Path, found: Verdicts) -> str:
    """What is wrong with how an input was received; empty: nothing."""
    faulthandler.dump_traceback_later(door.seconds * 3, exit=True)  # if a library does not return
    signal.setitimer(signal.ITIMER_REAL, door.seconds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            door.receive(sent, place)
        found.accepted += 1
        if sent.refuse:
            found.wrong += 1
            return "accepted, and must be refused"
    except door.refusals as error:
        found.refused += 1
        sentence = str(getattr(error, "detail", error)).strip()
        if not sentence or "\n" in sentence or len(sentence) > 4000:
            found.wrong += 1
            return f"not refused in one clear sentence: {sentence[:300]!r}"
    except (TooSlow, MemoryError, Broken) as error:
        found.wrong += 1
        return _shown(error)
    except Exception as error:  # what a user would see as a traceback
        found.tracebacks += 1
        return _shown(error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
    return ""


def _shown(error: BaseException) -> str:
    where = "".join(traceback.format_tb(error.__traceback__)[-6:])
    return f"{type(error).__name__}: {str(error)[:2000]}\n{where}"


def too_slow(_: int, frame: FrameType | None) -> None:
    """The handler of SIGALRM."""
    raise TooSlow(f"in {frame.f_code.co_qualname if frame else 'a library'}")


@st.composite
def edge_number(draw: st.DrawFn, width: int, order: str) -> bytes:
    """A number of ``width`` bytes at or near the end of some type."""
    value = draw(st.sampled_from(EDGES)) + draw(st.sampled_from((-1, 0, 0, 0, 1)))
    return (value % (1 << 8 * width)).to_bytes(width, order)  # type: ignore[arg-type]


@st.composite
def damaged(draw: st.DrawFn, data: bytes, head: int | None = None) -> bytes:
    """``data`` with one to six changes; most of them within the first ``head`` bytes, if given."""
    made = bytearray(data)
    for _ in range(draw(st.sampled_from((1, 1, 1, 2, 3, 6)))):
        if not made:
            break
        end = len(made)
        if head is not None and draw(st.integers(0, 9)) < 7:
            end = min(end, head)
        at = draw(st.integers(0, end - 1))
        width = draw(st.sampled_from((1, 2, 4, 8, 16, 256)))
        match draw(st.sampled_from(("flip", "number", "cut", "drop", "insert", "repeat", "fill"))):
            case "flip":
                made[at] ^= 1 << draw(st.integers(0, 7))
            case "number":
                order = draw(st.sampled_from(("big", "little")))
                made[at : at + min(width, 8)] = draw(edge_number(min(width, 8), order))
            case "cut":
                del made[at:]
            case "drop":
                del made[at : at + width]
            case "insert":
                made[at:at] = draw(st.binary(min_size=1, max_size=16))
            case "repeat":
                other = draw(st.integers(0, len(made) - 1))
                made[at:at] = made[other : other + width]
            case "fill":
                made[at : at + 16] = bytes((draw(st.sampled_from((0, 255))),)) * 16
    return bytes(made)
