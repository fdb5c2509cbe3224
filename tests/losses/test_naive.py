"""Losses against loops over explicit pairs, for what PML lacks or gets wrong."""

import itertools
import math

import pytest
import torch
from torch.nn.functional import normalize

import lookalike.losses as losses
import lookalike.miners as miners
from lookalike.relations import Relations, relate

SIZE, DIM = 18, 6


@pytest.fixture
def data(batch):
    embeddings, labels = batch("unbalanced", SIZE, dim=DIM)
    return normalize(embeddings), labels.tolist()


def positives(labels):
    return [
        (i, j) for i, j in itertools.permutations(range(len(labels)), 2) if labels[i] == labels[j]
    ]


def negatives_of(labels, i):
    return [j for j in range(len(labels)) if labels[j] != labels[i]]


def triplets(labels):
    return [(a, p, n) for a, p in positives(labels) for n in negatives_of(labels, a)]


def distance(x, y):
    return (x - y).norm()


def mean_above_zero(terms):
    kept = [term for term in terms if term > 0]
    return sum(kept) / len(kept)


def direction(x, a, p, n):
    return torch.cosine_similarity(x[p] - x[a], x[n] - x[a], dim=0)


def naive_triplet(x, labels, margin=0.05, swap=False, smooth=False, gamma=0.0):
    terms = []
    for a, p, n in triplets(labels):
        an = distance(x[a], x[n])
        if swap:
            an = torch.minimum(an, distance(x[p], x[n]))
        term = distance(x[a], x[p]) - an + margin - gamma * direction(x, a, p, n)
        terms.append(torch.log1p(term.exp()) if smooth else term)
    if gamma:
        return sum(term.relu() for term in terms) / len(terms)
    return mean_above_zero(terms)


def naive_contrastive_on_similarity(x, labels, margin=0.5):
    pull = -sum(x[i] @ x[j] for i, j in positives(labels))
    push = sum(
        (x[i] @ x[j] - margin).relu() for i in range(len(x)) for j in negatives_of(labels, i)
    )
    return (pull + push) / len(x)


def naive_multi_similarity(x, labels, alpha=2, beta=50, base=0.5, gamma=0.3):
    total = 0
    for a in range(len(x)):
        mine = [p for i, p in positives(labels) if i == a]
        pull = sum(torch.exp(-alpha * (x[a] @ x[p] - base)) for p in mine)
        hardest = min(mine, key=lambda p: float((x[a] @ x[p]).detach())) if mine else None
        push = 0
        for n in negatives_of(labels, a):
            shift = gamma * direction(x, a, hardest, n) if mine else 0
            push = push + torch.exp(beta * (x[a] @ x[n] - shift - base))
        pulled = torch.log1p(pull) if mine else 0
        total = total + pulled / alpha + torch.log1p(push) / beta
    return total / len(x)


def naive_quadruplet(x, labels, first=0.2, second=0.2):
    def squared(i, j):
        return distance(x[i], x[j]) ** 2

    pairs = positives(labels)
    one = [squared(a, p) - squared(a, n) + first for a, p, n in triplets(labels)]
    two = []
    for a, p in pairs:
        others = negatives_of(labels, a)
        two += [
            squared(a, p) - squared(k, n) + second
            for k in others
            for n in others
            if labels[k] != labels[n]
        ]
    return mean_above_zero(one) + mean_above_zero(two)


def naive_binomial_deviance(x, labels, alpha=2, beta=0.5, cost=25):
    pull = [torch.log1p(torch.exp(-alpha * (x[i] @ x[j] - beta))) for i, j in positives(labels)]
    push = [
        torch.log1p(torch.exp(alpha * cost * (x[i] @ x[j] - beta)))
        for i in range(len(x))
        for j in negatives_of(labels, i)
    ]
    return sum(pull) / len(pull) + sum(push) / len(push)


def naive_smooth_ap(x, labels, temperature=0.1):
    total = 0
    for i in range(len(x)):
        similarity = x @ x[i]
        group = [j for j in range(len(x)) if labels[j] == labels[i]]
        precision = 0
        for j in group:
            above = torch.sigmoid((similarity - similarity[j]) / temperature)
            rank = 1 + sum(above[k] for k in range(len(x)) if k != j)
            inside = 1 + sum(above[k] for k in group if k != j)
            precision = precision + inside / rank
        total = total + 1 - precision / len(group)
    return total / len(x)


def naive_lifted(x, labels):
    terms = []
    for i, j in positives(labels):
        push = sum(
            torch.exp(1 - distance(x[k], x[n])) for k in (i, j) for n in negatives_of(labels, k)
        )
        terms.append((distance(x[i], x[j]) + push.log()).relu() ** 2 / 2)
    return sum(terms) / len(terms)


def naive_angular(x, labels, alpha=40):
    tan2 = math.tan(math.radians(alpha)) ** 2
    terms = []
    for a, p in positives(labels):
        push = sum(
            torch.exp(4 * tan2 * (x[a] + x[p]) @ x[n] - 2 * (1 + tan2) * x[a] @ x[p])
            for n in negatives_of(labels, a)
        )
        terms.append(torch.log1p(push))
    return sum(terms) / len(terms)


def naive_n_pairs(x, labels):
    pairs = {}
    for a, p in positives(labels):
        pairs.setdefault(labels[a], (a, p))
    terms = [
        -torch.log(torch.exp(x[a] @ x[p]) / sum(torch.exp(x[a] @ x[q]) for _, q in pairs.values()))
        for a, p in pairs.values()
    ]
    return sum(terms) / len(terms)


def naive_histogram(x, labels, bins=20):
    def shares(values):
        histogram = [0.0] * (bins + 1)
        for value in values:
            place = (value + 1) * bins / 2
            left = int(place)
            histogram[left] = histogram[left] + (left + 1 - place)
            histogram[left + 1] = histogram[left + 1] + (place - left)
        return [share / len(values) for share in histogram]

    pairs = [(i, j) for i, j in itertools.combinations(range(len(x)), 2)]
    inside = shares([x[i] @ x[j] for i, j in pairs if labels[i] == labels[j]])
    across = shares([x[i] @ x[j] for i, j in pairs if labels[i] != labels[j]])
    return sum(across[r] * sum(inside[: r + 1]) for r in range(bins + 1))


CASES = [
    (losses.TripletMarginLoss(), naive_triplet),
    (losses.TripletMarginLoss(swap=True), lambda x, y: naive_triplet(x, y, swap=True)),
    (losses.TripletMarginLoss(smooth_loss=True), lambda x, y: naive_triplet(x, y, smooth=True)),
    (
        losses.TripletMarginLoss(0.278, direction=0.492),
        lambda x, y: naive_triplet(x, y, 0.278, gamma=0.492),
    ),
    (losses.ContrastiveLoss(neg_margin=0.5, on="similarity"), naive_contrastive_on_similarity),
    (losses.MultiSimilarityLoss(direction=0.3), naive_multi_similarity),
    (losses.QuadrupletLoss(), naive_quadruplet),
    (losses.BinomialDevianceLoss(), naive_binomial_deviance),
    (losses.SmoothAPLoss(0.1), naive_smooth_ap),
    (losses.LiftedStructureLoss(), naive_lifted),
    (losses.AngularLoss(), naive_angular),
    (losses.NPairsLoss(), naive_n_pairs),
    (losses.HistogramLoss(20), naive_histogram),
]


@pytest.mark.parametrize(("loss", "naive"), CASES)
def test_loops(loss, naive, data, value_and_gradient):
    embeddings, labels = data
    leaf = embeddings.clone().requires_grad_()
    expected = naive(normalize(leaf), labels)
    expected.backward()
    value, (gradient,) = value_and_gradient(loss, embeddings, torch.tensor(labels))
    torch.testing.assert_close(value, expected, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(gradient, leaf.grad, rtol=1e-7, atol=1e-10)


def naive_proxy_nca(x, w, labels, scale=1.0, others=False, gamma=0.0):
    terms = []
    for row, y in zip(x, labels, strict=True):
        exponents = []
        for c in range(len(w)):
            turned = torch.cosine_similarity(w[y] - row, w[c] - row, dim=0) if c != y else 0
            exponents.append(-scale * distance(row, w[c]) ** 2 - gamma * turned)
        below = [e for c, e in enumerate(exponents) if c != y or not others]
        terms.append(torch.stack(below).logsumexp(0) - exponents[y])
    return sum(terms) / len(terms)


def naive_proxy_to_proxy(x, w, labels, variant, average=False, alpha=32, margin=0.1):
    pull, push, seen = 0, 0, set(labels)
    for c in range(len(w)):
        mine = [row for row, y in zip(x, labels, strict=True) if y == c]
        if mine:
            pull = pull + torch.log1p(
                sum(torch.exp(-alpha * (w[c] @ row - margin)) for row in mine)
            )
        terms = []
        for d in range(len(w)):
            if d != c:
                through = sum((w[c] @ row) * (row @ w[d]) for row in x)
                through = through / len(x) if average else through
                terms.append(alpha * ((w[c] @ w[d] if variant == 1 else through) + margin))
        push = push + torch.stack([terms[0] * 0, *terms]).logsumexp(0)
    return pull / len(seen) + push / len(w)


@pytest.mark.parametrize(
    ("name", "settings", "naive"),
    [
        ("ProxyNCALoss", {"softmax_scale": 3}, lambda *a: naive_proxy_nca(*a, scale=3)),
        (
            "ProxyNCALoss",
            {"denominator": "others"},
            lambda *a: naive_proxy_nca(*a, others=True),
        ),
        (
            "ProxyNCALoss",
            {"denominator": "others", "direction": 0.3, "softmax_scale": 2},
            lambda *a: naive_proxy_nca(*a, scale=2, others=True, gamma=0.3),
        ),
        ("ProxyNCALoss", {"direction": 0.3}, lambda *a: naive_proxy_nca(*a, gamma=0.3)),
        ("ProxyNCAPlusPlusLoss", {}, lambda *a: naive_proxy_nca(*a, scale=9)),
        ("ProxyToProxy1Loss", {}, lambda *a: naive_proxy_to_proxy(*a, 1)),
        ("ProxyToProxy2Loss", {}, lambda *a: naive_proxy_to_proxy(*a, 2)),
        ("ProxyToProxy2Loss", {"average": True}, lambda *a: naive_proxy_to_proxy(*a, 2, True)),
    ],
)
def test_proxy_loops(name, settings, naive, data, value_and_gradient):
    embeddings, labels = data
    torch.manual_seed(0)
    loss = getattr(losses, name)(6, DIM, **settings).double()
    leaf = embeddings.clone().requires_grad_()
    weights = loss.proxies.detach().clone().requires_grad_()
    expected = naive(normalize(leaf), normalize(weights), labels)
    expected.backward()
    value, gradients = value_and_gradient(loss, embeddings, torch.tensor(labels))
    torch.testing.assert_close(value, expected, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(gradients, [leaf.grad, weights.grad], rtol=1e-7, atol=1e-9)


def test_proxy_anchor_on_a_distance_with_a_direction(data, value_and_gradient):
    """Signal-to-noise goes from the image: ``var(x - w) / var(x)``."""
    embeddings, labels = data
    torch.manual_seed(0)
    loss = losses.ProxyAnchorLoss(6, DIM, margin=0.1, alpha=2, distance="snr").double()
    leaf = embeddings.clone().requires_grad_()
    weights = loss.proxies.detach().clone().requires_grad_()
    x, w = normalize(leaf), normalize(weights)
    pull, push = 0, 0
    for c in range(6):
        far = [(row - w[c]).var() / row.var() for row in x]
        mine = [torch.exp(2 * (d - 0.1)) for d, y in zip(far, labels, strict=True) if y == c]
        rest = [torch.exp(-2 * (d + 0.1)) for d, y in zip(far, labels, strict=True) if y != c]
        pull = pull + torch.log1p(sum(mine)) if mine else pull
        push = push + torch.log1p(sum(rest))
    expected = pull / len(set(labels)) + push / 6
    expected.backward()
    value, gradients = value_and_gradient(loss, embeddings, torch.tensor(labels))
    torch.testing.assert_close(value, expected, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(gradients, [leaf.grad, weights.grad], rtol=1e-7, atol=1e-9)


def test_swap_with_reference(data):
    """The positive is compared with the negative among the references (PML mixes up indices)."""
    embeddings, labels = data
    torch.manual_seed(1)
    reference, classes = normalize(torch.randn(11, DIM).double()), [i % 4 for i in range(11)]
    terms = [
        distance(x, reference[p])
        - torch.minimum(distance(x, reference[n]), distance(reference[p], reference[n]))
        + 0.05
        for x, y in zip(embeddings, labels, strict=True)
        for p in range(11)
        for n in range(11)
        if classes[p] == y and classes[n] != y
    ]
    found = losses.TripletMarginLoss(swap=True)(
        embeddings, torch.tensor(labels), None, reference, torch.tensor(classes)
    )
    torch.testing.assert_close(found, mean_above_zero(terms), rtol=1e-9, atol=0)


@pytest.mark.parametrize(
    ("loss", "miner"),
    [
        (losses.TripletMarginLoss(0.2, swap=True), None),
        (losses.TripletMarginLoss(0.2), miners.SemiHardMiner()),
        (losses.SmoothAPLoss(), None),
        (losses.PNPLoss(), None),
        (losses.RecallAtKLoss(), None),
    ],
)
def test_large_arrays_in_blocks(loss, miner, data, value_and_gradient, monkeypatch):
    """Where they would be large, arrays of pairs x candidates are made in blocks."""
    embeddings, labels = data
    labels = torch.tensor(labels)
    whole = value_and_gradient(loss, embeddings, labels, miner and miner(embeddings, labels))
    monkeypatch.setattr("lookalike.ops.blocks.AT_ONCE", 5 * SIZE)
    parts = value_and_gradient(loss, embeddings, labels, miner and miner(embeddings, labels))
    torch.testing.assert_close(parts, whole, rtol=1e-12, atol=1e-14)


class Cubed(losses.PairLoss):
    """A user's loss: relations in, a number out."""

    def terms(self, relations: Relations) -> losses.Terms:
        pull = ((1 - relations.similarity) ** 3 * relations.positives).sum()
        push = (relations.similarity.relu() ** 3 * relations.negatives).sum()
        return losses.Terms((pull + push) / (relations.positives + relations.negatives).sum())


def test_user_loss_gets_everything(data):
    embeddings, labels = data
    names = [f"class {label}" for label in labels]
    loss = Cubed(embedding_regularizer="l2", embedding_reg_weight=0.1)
    plain = Cubed()(embeddings, torch.tensor(labels))
    torch.testing.assert_close(Cubed()(embeddings, names), plain)
    torch.testing.assert_close(loss(embeddings, names), plain + 0.1)
    mined = miners.MultiSimilarityMiner()(embeddings, names)
    assert torch.isfinite(Cubed()(embeddings, names, mined))
    memory, classes = embeddings[:5].flip(1), names[:5]
    assert torch.isfinite(Cubed()(embeddings, names, None, memory, classes))


def test_soft_labels_weigh_pairs(data):
    """A pair that is 30 % positive counts 0.3 as a positive and 0.7 as a negative."""
    embeddings, labels = data
    plain = relate(embeddings, torch.tensor(labels))
    every = plain.positives + plain.negatives
    loss = losses.ContrastiveLoss(on="similarity")

    def at(share):
        return loss.total_loss(
            plain._replace(
                positives=share * every,
                negatives=(1 - share) * every,
                share=torch.full_like(every, share),
            )
        )

    torch.testing.assert_close(at(0.3), 0.3 * at(1.0) + 0.7 * at(0.0))
