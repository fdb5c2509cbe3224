"""Streams of random numbers, one per image."""

import numpy as np
import pytest
import torch
from scipy.stats import kstest, pearsonr

from lookalike.data.image_random import ImageRandom

WORD = 2**64


def splitmix64(state):
    """The published generator, in Python's integers: the state after a step, and its output."""
    state = (state + 0x9E3779B97F4A7C15) % WORD
    bits = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB % WORD
    return state, bits ^ (bits >> 31)


def test_a_stream_is_splitmix64_seeded_by_splitmix64():
    state = int(np.random.SeedSequence((5, 9)).generate_state(1, np.uint64)[0])
    found = ImageRandom(5, 9, range(3))
    first, second = found.uniform(2), found.uniform(2, 2)
    for row in range(3):
        state, stream = splitmix64(state)
        expected = []
        for _ in range(6):
            stream, bits = splitmix64(stream)
            expected.append((bits >> 11) / 2**53)
        assert [*first[row].tolist(), *second[row].flatten().tolist()] == expected


def test_an_image_does_not_depend_on_the_others():
    whole = ImageRandom(0, 3, range(100))
    part = ImageRandom(0, 3, [7, 93])
    for draw in (
        lambda r: r.uniform(4),
        lambda r: r.integers(5),
        lambda r: torch.tensor(r.seeds()),
    ):
        assert torch.equal(draw(whole)[[7, 93]], draw(part))


@pytest.mark.parametrize("other", [(1, 3, 0), (0, 4, 0), (0, 3, 100)])
def test_seed_step_and_position_make_other_streams(other):
    seed, step, first = other
    rows = ImageRandom(0, 3, range(100)).uniform(50).flatten()
    others = ImageRandom(seed, step, range(first, first + 100)).uniform(50).flatten()
    assert abs(pearsonr(rows, others).statistic) < 4 / len(rows) ** 0.5


def test_numbers_are_uniform_along_streams_and_across_images():
    numbers = ImageRandom(0, 0, range(2000)).uniform(20)
    assert numbers.dtype == torch.float64
    assert numbers.min() >= 0
    assert numbers.max() < 1
    for values in (numbers.flatten(), numbers[:, 0], numbers[:, 19], numbers[0]):
        assert kstest(values.numpy(), "uniform").pvalue > 1e-4
    neighbours = [(numbers[:-1], numbers[1:]), (numbers[:, :-1], numbers[:, 1:])]
    for left, right in neighbours:
        assert abs(pearsonr(left.flatten(), right.flatten()).statistic) < 4 / left.numel() ** 0.5


def test_integers_and_seeds_are_in_range():
    drawn = ImageRandom(1, 1, range(3000)).integers(3)
    assert torch.bincount(drawn).tolist() == pytest.approx([1000] * 3, abs=130)
    seeds = ImageRandom(1, 1, range(3000)).seeds()
    assert len(set(seeds)) == 3000
    assert all(0 <= seed < 2**63 for seed in seeds)
