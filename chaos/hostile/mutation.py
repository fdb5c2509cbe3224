"""Changes of bytes that break what reads them: the same for every format."""

from random import Random

__all__ = ["interesting", "mutated", "spliced"]

EDGES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
"""Numbers at the ends of their types."""
ORDERS = ("big", "little")


def interesting(random: Random, width: int, order: str) -> bytes:
    """A number of ``width`` bytes at or near the end of some type."""
    value = random.choice(EDGES) + random.choice((-1, 0, 0, 0, 1))
    return (value % (1 << 8 * width)).to_bytes(width, order)  # type: ignore[arg-type]


def mutated(random: Random, data: bytes, head: int | None = None) -> bytes:
    """``data`` with one to six changes; most of them within the first ``head`` bytes, if given."""
    made = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        if not made:
            return b""
        end = len(made)
        if head is not None and random.random() < 0.7:
            end = min(end, head)
        place = random.randrange(end)
        kind = random.randrange(8)
        if kind == 0:
            made[place] ^= 1 << random.randrange(8)
        elif kind == 1:
            made[place] = random.randrange(256)
        elif kind == 2:
            width = random.choice((1, 2, 4, 8))
            made[place : place + width] = interesting(random, width, random.choice(ORDERS))
        elif kind == 3:
            del made[place:]
        elif kind == 4:
            del made[place : place + random.choice((1, 2, 4, 16, 256))]
        elif kind == 5:
            made[place:place] = random.randbytes(random.choice((1, 2, 4, 16, 256)))
        elif kind == 6:
            length = random.choice((4, 16, 64, 256))
            other = random.randrange(len(made))
            made[place:place] = made[other : other + length]
        else:
            made[place : place + 16] = bytes((random.choice((0, 255)),)) * 16
    return bytes(made)


def spliced(random: Random, first: bytes, second: bytes) -> bytes:
    """The beginning of one and the end of another."""
    return first[: random.randrange(len(first) + 1)] + second[random.randrange(len(second) + 1) :]
