"""Labels between 0 and 1 (mixed or multi-label): they weigh a term, never the number of terms.

Oracles are loops over anchors and candidates, from the definition of each loss: a pair of label y
adds y times its term as a positive and 1 - y times its term as a negative, and is one of the
positives if y > 0, one of the negatives if y < 1.
"""

import math

import pytest
import torch
from torch.nn.functional import softplus

import lookalike.losses as losses
from lookalike.relations import Relations

ANCHORS, CANDIDATES = 7, 9


def total_loss(loss, similarity, share, valid):
    """The loss of relations of which each pair is positive in part."""
    images = torch.zeros(len(similarity), 2), torch.zeros(similarity.shape[1], 2)
    r = Relations(
        similarity,
        share * valid,
        (1 - share) * valid,
        share,
        embeddings=images[0],
        ref_emb=images[1],
    )
    return loss.total_loss(r)


@pytest.fixture
def similarity():
    torch.manual_seed(3)
    return torch.rand(ANCHORS, CANDIDATES, dtype=torch.float64) * 1.8 - 0.9


@pytest.fixture
def labels():
    generator = torch.Generator().manual_seed(4)
    same = torch.rand(ANCHORS, CANDIDATES, dtype=torch.float64, generator=generator)
    same[same < 0.25] = 0
    same[same > 0.8] = 1
    return same


@pytest.fixture
def valid():
    generator = torch.Generator().manual_seed(5)
    drawn = torch.rand(ANCHORS, CANDIDATES, generator=generator)
    return (drawn < 0.8).double()


def pairs(valid):
    return [(i, j) for i in range(ANCHORS) for j in range(CANDIDATES) if valid[i, j]]


def mean(terms):
    """Of (weight, value, counts): sum w v over how many count."""
    number = sum(counts for _, _, counts in terms)
    return sum(weight * value for weight, value, _ in terms) / number


def both_kinds(s, y, valid, pull, push, above_zero):
    def part(weight, term):
        found = [(weight(y[i, j]), term(s[i, j])) for i, j in pairs(valid)]
        return mean(
            [(w, v, 1) for w, v in found if w > 0 and (v > 0 if above_zero else True)]
            or [(0, 0, 1)]
        )

    return part(lambda y: y, pull) + part(lambda y: 1 - y, push)


def contrastive(s, y, valid):
    return both_kinds(s, y, valid, lambda s: (-0.1 - s).relu(), lambda s: (s + 0.6).relu(), True)


def binomial_deviance(s, y, valid):
    return both_kinds(
        s, y, valid, lambda s: softplus(-2 * (s - 0.5)), lambda s: softplus(50 * (s - 0.5)), False
    )


def ntxent(s, y, valid, t=0.3):
    terms = []
    for i, j in pairs(valid):
        if y[i, j] > 0:
            push = sum(
                (1 - y[i, n]) * torch.exp(s[i, n] / t) for n in range(CANDIDATES) if valid[i, n]
            )
            pull = torch.exp(s[i, j] / t)
            terms.append((y[i, j], -torch.log(pull / (pull + push)), 1))
    return mean(terms)


def supcon(s, y, valid, t=0.3):
    terms = []
    for i in range(ANCHORS):
        total = sum(torch.exp(s[i, n] / t) for n in range(CANDIDATES) if valid[i, n])
        chances = [
            (y[i, j], -torch.log(torch.exp(s[i, j] / t) / total), 1)
            for j in range(CANDIDATES)
            if valid[i, j] and y[i, j] > 0
        ]
        if chances:
            terms.append(mean(chances))
    return sum(terms) / len(terms)


def tuplet_margin(s, y, valid):
    terms = []
    for i, j in pairs(valid):
        if y[i, j] > 0:
            eased = torch.cos(torch.acos(s[i, j]) - math.radians(5.73))
            push = sum(
                (1 - y[i, n]) * torch.exp(8 * (s[i, n] - eased))
                for n in range(CANDIDATES)
                if valid[i, n]
            )
            terms.append((y[i, j], torch.log1p(push), 1))
    return mean(terms)


def triplet(s, y, valid, margin=0.3):
    terms = []
    for i, p in pairs(valid):
        for j, n in pairs(valid):
            weight = y[i, p] * (1 - y[i, n])
            term = s[i, n] - s[i, p] + margin
            if i == j and weight > 0 and term > 0:
                terms.append((weight, term, 1))
    return mean(terms)


def margin(s, y, valid, m=0.2, beta=1.25):
    terms = []
    for i, p in pairs(valid):
        for j, n in pairs(valid):
            weight = y[i, p] * (1 - y[i, n])
            if i == j and weight > 0:
                for term in (-s[i, p] - beta + m, beta + s[i, n] + m):
                    if term > 0:
                        terms.append((weight, term, 1))
    return mean(terms)


def intra_pair_variance(s, y, valid, eps=0.01):
    found = pairs(valid)
    usual = mean([(y[i, j], s[i, j], y[i, j]) for i, j in found]) * (1 - eps)
    rare = mean([(1 - y[i, j], s[i, j], 1 - y[i, j]) for i, j in found]) * (1 + eps)
    pull = [(y[i, j], (usual - s[i, j]).relu() ** 2, 1) for i, j in found if y[i, j] > 0]
    push = [(1 - y[i, j], (s[i, j] - rare).relu() ** 2, 1) for i, j in found if y[i, j] < 1]
    return mean(pull) + mean(push)


CASES = {
    "contrastive": (losses.ContrastiveLoss(0.1, 0.6), contrastive),
    "binomial-deviance": (losses.BinomialDevianceLoss(), binomial_deviance),
    "ntxent": (losses.NTXentLoss(0.3), ntxent),
    "supcon": (losses.SupConLoss(0.3), supcon),
    "tuplet-margin": (losses.TupletMarginLoss(5.73, 8), tuplet_margin),
    "triplet": (losses.TripletMarginLoss(0.3, distance="cosine"), triplet),
    "triplet in blocks": (
        losses.TripletMarginLoss(0.3, distance="cosine", smooth_loss=True),
        lambda s, y, valid: mean(
            [
                (y[i, p] * (1 - y[i, n]), softplus(s[i, n] - s[i, p] + 0.3), 1)
                for i, p in pairs(valid)
                for j, n in pairs(valid)
                if i == j and y[i, p] > 0 and y[i, n] < 1
            ]
        ),
    ),
    "margin": (losses.MarginLoss(beta=1.25), margin),
    "intra-pair-variance": (losses.IntraPairVarianceLoss(), intra_pair_variance),
}


@pytest.mark.parametrize("name", CASES)
def test_against_loops(name, similarity, labels, valid):
    loss, naive = CASES[name]
    # minus a distance where the loss reads distances
    values = similarity - 1 if name in ("contrastive", "margin") else similarity
    left, right = (values.clone().requires_grad_() for _ in range(2))
    found, expected = total_loss(loss, left, labels, valid), naive(right, labels, valid)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
    gradients = [torch.autograd.grad(found, left)[0], torch.autograd.grad(expected, right)[0]]
    torch.testing.assert_close(*gradients, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("name", ["contrastive", "binomial-deviance"])
def test_one_label_for_all_pairs_does_not_cancel(name, similarity, valid):
    loss = CASES[name][0]

    def at(share):
        return total_loss(loss, similarity - 1, torch.full_like(similarity, share), valid)

    for share in (0.1, 0.5, 0.9):
        expected = share * at(1.0) + (1 - share) * at(0.0)
        torch.testing.assert_close(at(share), expected, rtol=1e-12, atol=0)


def test_a_pair_that_a_miner_names_twice_counts_twice(similarity):
    """Counts of a miner are no labels: they weigh the mean as repeated pairs would."""
    embeddings = torch.nn.functional.normalize(similarity)
    classes = torch.tensor([0, 0, 1, 1, 2, 2, 2])
    listed = [[0, 0, 2], [1, 1, 3], [0, 4, 4, 4], [2, 0, 0, 0]]
    indices = tuple(torch.tensor(index) for index in listed)

    def distance(i, j):
        return (embeddings[i] - embeddings[j]).norm()

    pull = [distance(i, j) for i, j in zip(*listed[:2], strict=True)]
    push = [(1.5 - distance(i, j)).relu() for i, j in zip(*listed[2:], strict=True)]
    push = [term for term in push if term > 0]
    found = losses.ContrastiveLoss(neg_margin=1.5)(embeddings, classes, indices)
    expected = sum(pull) / len(pull) + sum(push) / len(push)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=0)
