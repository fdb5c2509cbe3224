"""The mixed term against loops over anchors, positives and negatives, from the definition.

For an anchor a with positives P(a) and negatives N(a), V(a) holds the mixes
``v = y x + (1 - y) x'`` with x' in N(a) and x in P(a) (positive-negative) or x = a
(anchor-negative). The mixed loss is ``t(S+(sum_V y r+(s_av)) + S-(sum_V (1 - y) r-(s_av)))``.
In proxy-anchor an anchor is a proxy, its positives are the images of its class, and its negatives
all other images.
"""

import pytest
import torch

from lookalike.mixing import Mixing

KINDS = ["positive-negative", "anchor-negative"]
LABELS = (3, 8, 3, 5, 8, 3, 1, 5, 8)  # classes of 3, 3, 2 and 1 images
SIZE, WIDTH, DIM, CLASSES = len(LABELS), 4, 5, 10


class Known(Mixing):
    """Mixing whose shares the test knows: above a half, so that the first of a mix is seen."""

    def shares(self, like, *shape):
        drawn = 0.55 + 0.4 * torch.rand(shape if self.per_pair else (), dtype=like.dtype)
        object.__setattr__(self, "drawn", drawn.expand(shape))
        return self.drawn


def unit(rows):
    return rows / rows.norm(dim=-1, keepdim=True)


class World:
    """Images or maps that carry their own number, a small network, and what it was asked for."""

    def __init__(self, where, labels=LABELS, seed=0, pooling="max"):
        torch.manual_seed(seed)
        self.where, self.labels = where, labels
        size = len(labels)
        self.values = torch.randn(size, WIDTH, 2, 2, dtype=torch.float64).requires_grad_()
        self.weight = torch.randn(WIDTH, DIM, dtype=torch.float64).requires_grad_()
        numbers = torch.eye(size, dtype=torch.float64)[:, :, None, None].expand(-1, -1, 2, 2)
        self.source = torch.cat((self.values, numbers), 1)
        self.pooling = pooling
        self.seen = []
        self.embeddings = unit(self.network(self.values))
        self.leaves = [self.values, self.weight]

    def network(self, values):
        pooled = values.amax((2, 3)) if self.pooling == "max" else values.mean((2, 3))
        return pooled @ self.weight

    def embed(self, mixes):
        self.seen.append(mixes[:, WIDTH:, 0, 0].detach())
        return unit(self.network(mixes[:, :WIDTH]))

    def arguments(self):
        return () if self.where == "embed" else (self.source, self.embed)

    def mix(self, i, j, share):
        """The embedding of the mix of image i and image j."""
        if self.where == "embed":
            return unit(share * self.embeddings[i] + (1 - share) * self.embeddings[j])
        mixed = share * self.values[i] + (1 - share) * self.values[j]
        return unit(self.network(mixed[None]))[0]

    def mixes(self):
        """(i, j, share) of everything that was embedded, in order; i has the larger share."""
        (rows,) = self.seen
        return [(int(row.argmax()), int(row.topk(2).indices[1]), row.max()) for row in rows]


def image_candidates(world, kind, share_of):
    """V(a) of every image: similarity to the anchor and label."""
    found = []
    for a, label in enumerate(world.labels):
        row = []
        for i, of_first in enumerate(world.labels):
            first = i == a if kind == "anchor-negative" else i != a and of_first == label
            for j, of_second in enumerate(world.labels):
                if first and of_second != label:
                    y = share_of(i, j)
                    row.append((world.embeddings[a] @ world.mix(i, j, y), y))
        found.append(row)
    return found


def proxy_candidates(world, kind, share_of, proxies):
    """V(w) of every proxy: similarity to the proxy and label."""
    found = []
    for c in range(len(proxies)):
        w, row = unit(proxies[c]), []
        for j, of_second in enumerate(world.labels):
            if of_second == c:
                continue
            if kind == "anchor-negative":
                y = share_of(c, j)
                row.append((w @ unit(y * w + (1 - y) * world.embeddings[j]), y))
                continue
            for i, of_first in enumerate(world.labels):
                if of_first == c:
                    y = share_of(i, j)
                    row.append((w @ world.mix(i, j, y), y))
        found.append(row)
    return found


def total(terms):
    return sum(terms, torch.zeros((), dtype=torch.float64))


def contrastive_on_distance(rows, margin=0.9):
    """Each part ``sum y r / #{y > 0 and r > 0}``: the label weighs the term, not the count."""
    distances = [((2 - 2 * s).sqrt(), y) for row in rows for s, y in row]
    pull = [(y, d) for d, y in distances if d > 0 and y > 0]
    push = [(1 - y, margin - d) for d, y in distances if margin - d > 0 and y < 1]
    return total(y * r for y, r in pull) / max(1, len(pull)) + total(y * r for y, r in push) / max(
        1, len(push)
    )


def contrastive_on_similarity(rows, margin=0.3):
    """``sum_V -y s + (1 - y) [s - m]+``, mean over anchors."""
    return total(
        -y * s + (1 - y) * (s - margin).clamp(min=0) for row in rows for s, y in row
    ) / len(rows)


def lifted_structure(rows, margin=0.4):
    """``[log sum_V y e^(m - s) + log sum_V (1 - y) e^s]+``, mean over anchors."""
    values = [
        (
            total(y * (margin - s).exp() for s, y in row).log()
            + total((1 - y) * s.exp() for s, y in row).log()
        ).clamp(min=0)
        for row in rows
        if row
    ]
    return total(values) / len(rows)


def multi_similarity(rows, alpha=2, beta=10, base=0.5):
    """``1/a log(1 + sum_V y e^(-a(s-m))) + 1/b log(1 + sum_V (1-y) e^(b(s-m)))``, mean."""
    pull = total((1 + total(y * (-alpha * (s - base)).exp() for s, y in r)).log() for r in rows)
    push = total((1 + total((1 - y) * (beta * (s - base)).exp() for s, y in r)).log() for r in rows)
    return (pull / alpha + push / beta) / len(rows)


def proxy_anchor(rows, alpha=8, margin=0.1):
    """``1/|W+| sum log(1 + sum_V y e^(-a(s-m))) + 1/|W| sum log(1 + sum_V (1-y) e^(a(s+m)))``."""
    pull = [(1 + total(y * (-alpha * (s - margin)).exp() for s, y in r)).log() for r in rows if r]
    push = [(1 + total((1 - y) * (alpha * (s + margin)).exp() for s, y in r)).log() for r in rows]
    return total(pull) / max(1, len(pull)) + total(push) / len(rows)


ORACLES = {
    "contrastive on distances": (
        "contrastive",
        {"neg_margin": 0.9},
        contrastive_on_distance,
    ),
    "contrastive on similarities": (
        "contrastive",
        {"on": "similarity", "neg_margin": 0.3},
        contrastive_on_similarity,
    ),
    "lifted structure": (
        "generalized-lifted-structure",
        {"distance": "cosine", "pos_margin": 0.4, "neg_margin": 0},
        lifted_structure,
    ),
    "multi-similarity": (
        "multi-similarity",
        {"alpha": 2, "beta": 10, "base": 0.5},
        multi_similarity,
    ),
    "proxy-anchor": ("proxy-anchor", {"alpha": 8, "margin": 0.1}, proxy_anchor),
}


def assert_same(value, expected, leaves):
    torch.testing.assert_close(value, expected, rtol=1e-10, atol=1e-12)
    ours, theirs = (
        torch.autograd.grad(x, leaves, allow_unused=True, retain_graph=True)
        for x in (value, expected)
    )
    for one, other in zip(ours, theirs, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)


def share_lookup(mixing, world):
    """The share of a mix by its two images: as drawn (embed), or as the network saw it."""
    if world.where == "embed":
        return lambda i, j: mixing.drawn[i, j]
    seen = {(i, j): share for i, j, share in world.mixes()}
    assert len(seen) == len(world.seen[0])  # no mix twice
    return lambda i, j: seen[i, j]


@pytest.mark.parametrize("per_pair", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["embed", "feature", "input"])
@pytest.mark.parametrize("case", [case for case in ORACLES if case != "proxy-anchor"])
def test_all_negatives_of_image_anchors(case, where, kind, per_pair, built):
    name, arguments, oracle = ORACLES[case]
    loss, world = built(name, **arguments), World(where)
    negatives = "all" if where == "input" else None
    mixing = Known(where, pairs=kind, per_pair=per_pair, negatives=negatives)
    value = mixing.term(loss, world.embeddings, torch.tensor(LABELS), *world.arguments())
    rows = image_candidates(world, kind, share_lookup(mixing, world))
    assert sum(map(len, rows)) > 40
    assert_same(value, oracle(rows), world.leaves)


@pytest.mark.parametrize("per_pair", [True, False])
@pytest.mark.parametrize("where", ["embed", "feature", "input"])
def test_all_negatives_of_proxies_mixed_with_their_positives(where, per_pair, built):
    name, arguments, oracle = ORACLES["proxy-anchor"]
    loss, world = built(name, **arguments), World(where)
    negatives = "all" if where == "input" else None
    mixing = Known(where, pairs="positive-negative", per_pair=per_pair, negatives=negatives)
    value = mixing.term(loss, world.embeddings, torch.tensor(LABELS), *world.arguments())
    share_of = share_lookup(mixing, world)
    rows = proxy_candidates(world, "positive-negative", share_of, loss.proxies)
    assert [len(row) for row in rows] == [0, 8, 0, 18, 0, 14, 0, 0, 18, 0]
    assert_same(value, oracle(rows), [*world.leaves, loss.proxies])


@pytest.mark.parametrize("per_pair", [True, False])
@pytest.mark.parametrize("negatives", [None, 2])
def test_proxies_mixed_with_their_negatives(per_pair, negatives, built):
    name, arguments, oracle = ORACLES["proxy-anchor"]
    loss, world = built(name, **arguments), World("embed")
    mixing = Known("embed", pairs="anchor-negative", per_pair=per_pair, negatives=negatives)
    value = mixing.term(loss, world.embeddings, torch.tensor(LABELS))
    drawn = mixing.drawn
    rows = proxy_candidates(world, "anchor-negative", lambda c, j: drawn[c, j], loss.proxies)
    if negatives is not None:
        for c, row in enumerate(rows):
            others = [j for j in range(SIZE) if LABELS[j] != c]
            near = (world.embeddings[others] @ unit(loss.proxies[c])).tolist()
            order = sorted(range(len(row)), key=lambda place, near=near: -near[place])
            rows[c] = [row[place] for place in order[:negatives]]
    assert_same(value, oracle(rows), [*world.leaves, loss.proxies])


def hardest(similarity, labels, label, negatives):
    """The most similar images of other classes, from a list of similarities to the anchor."""
    others = [j for j in range(len(labels)) if labels[j] != label]
    near = similarity.tolist()
    return sorted(others, key=lambda j: -near[j])[:negatives]


@pytest.mark.parametrize("negatives", [1, 2, 3])
@pytest.mark.parametrize("where", ["feature", "input"])
@pytest.mark.parametrize("case", [case for case in ORACLES if case != "proxy-anchor"])
def test_hard_negatives_are_those_of_the_anchor_not_of_its_positive(case, where, negatives, built):
    """Classes of two images: the one positive of an anchor with the anchor's own negatives."""
    name, arguments, oracle = ORACLES[case]
    labels = (3, 8, 5, 3, 8, 5, 1, 1)
    loss, world = built(name, **arguments), World(where, labels)
    mixing = Known(where, pairs="positive-negative", negatives=negatives)
    value = mixing.term(loss, world.embeddings, torch.tensor(labels), *world.arguments())
    seen = {(i, j): share for i, j, share in world.mixes()}
    rows, differ = [], 0
    for a, label in enumerate(labels):
        (p,) = (i for i in range(len(labels)) if i != a and labels[i] == label)
        chosen = hardest(world.embeddings @ world.embeddings[a], labels, label, negatives)
        differ += chosen != hardest(
            world.embeddings @ world.embeddings[p], labels, label, negatives
        )
        rows.append(
            [(world.embeddings[a] @ world.mix(p, j, seen[p, j]), seen[p, j]) for j in chosen]
        )
    assert differ > 0  # otherwise the test would not tell them apart
    assert len(seen) == len(labels) * negatives
    assert_same(value, oracle(rows), world.leaves)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", [case for case in ORACLES if case != "proxy-anchor"])
def test_larger_classes_mix_each_hard_negative_with_one_positive(case, kind, built):
    name, arguments, oracle = ORACLES[case]
    loss, world = built(name, **arguments), World("input")
    mixing = Known("input", pairs=kind, negatives=2)
    value = mixing.term(loss, world.embeddings, torch.tensor(LABELS), *world.arguments())
    mixes = iter(world.mixes())
    rows = []
    for a, label in enumerate(LABELS):
        positives = [i for i in range(SIZE) if i != a and LABELS[i] == label]
        allowed = positives if kind == "positive-negative" else [a]
        row = []
        for wanted in hardest(world.embeddings @ world.embeddings[a], LABELS, label, 2):
            if not allowed:
                continue
            i, j, y = next(mixes)
            assert i in allowed
            assert j == wanted
            row.append((world.embeddings[a] @ world.mix(i, j, y), y))
        rows.append(row)
    assert next(mixes, None) is None
    assert_same(value, oracle(rows), world.leaves)


@pytest.mark.parametrize("where", ["feature", "input", "embed"])
def test_hard_negatives_of_proxies(where, built):
    name, arguments, oracle = ORACLES["proxy-anchor"]
    loss, world = built(name, **arguments), World(where)
    mixing = Known(where, pairs="positive-negative", negatives=2, per_pair=where != "embed")
    value = mixing.term(loss, world.embeddings, torch.tensor(LABELS), *world.arguments())
    seen = {} if where == "embed" else {(i, j): share for i, j, share in world.mixes()}
    rows = []
    for c in range(CLASSES):
        w, row = unit(loss.proxies[c]), []
        for j in hardest(world.embeddings @ w, LABELS, c, 2):
            for i in (i for i in range(SIZE) if LABELS[i] == c):
                y = seen[i, j] if seen else mixing.drawn[0]
                row.append((w @ world.mix(i, j, y), y))
        rows.append(row)
    assert sum(map(len, rows)) == 2 * SIZE
    assert_same(value, oracle(rows), [*world.leaves, loss.proxies])


@pytest.mark.parametrize("where", ["embed", "feature"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_label_does_not_cancel_in_the_averaged_contrastive_loss(where, share, built):
    """With one share per batch, of equal distances: ``y mean r+ + (1 - y) mean r-``."""

    class Constant(Mixing):
        def shares(self, like, *shape):
            return like.new_full(shape, share)

    loss, world = built("contrastive", neg_margin=3), World(where)  # no term is 0
    mixing = Constant(where, pairs="positive-negative")
    value = mixing.term(loss, world.embeddings, torch.tensor(LABELS), *world.arguments())
    rows = image_candidates(world, "positive-negative", lambda *_: share)
    distances = torch.stack([(2 - 2 * s).sqrt() for row in rows for s, _ in row])
    expected = share * distances.mean() + (1 - share) * (3 - distances).mean()
    torch.testing.assert_close(value, expected, rtol=1e-10, atol=0)


SOFTMAX = {
    "normalized-softmax": {"temperature": 0.5},
    "cosface": {"margin": 0.1, "scale": 4},
    "proxy-nca": {"softmax_scale": 2},
    "proxy-nca++": {"temperature": 0.5},
}


@pytest.mark.parametrize("negatives", ["all", 2])
@pytest.mark.parametrize("where", ["embed", "feature", "input"])
@pytest.mark.parametrize("name", SOFTMAX)
def test_softmax_losses_have_a_label_of_two_classes_over_all_classes(name, where, negatives, built):
    """Mixup's cross-entropy: the mix is the anchor, every class is in the sum."""
    loss, world = built(name, **SOFTMAX[name]), World(where)
    mixing = Known(where, negatives=negatives, per_pair=False)
    value = mixing.term(loss, world.embeddings, torch.tensor(LABELS), *world.arguments())
    share = mixing.drawn[0]
    terms = []
    for i in range(SIZE):
        others = [j for j in range(SIZE) if LABELS[j] != LABELS[i]]
        if negatives != "all":
            others = hardest(world.embeddings @ world.embeddings[i], LABELS, LABELS[i], negatives)
        for j in others:
            cosine = unit(loss.class_vectors()) @ world.mix(i, j, share)
            label = torch.zeros(CLASSES, dtype=torch.float64)
            label[LABELS[i]], label[LABELS[j]] = share, 1 - share
            if name == "cosface":
                logits = 4 * (cosine - 0.1 * label)
            elif name == "normalized-softmax":
                logits = cosine / 0.5
            else:
                logits = -2 * (2 - 2 * cosine)
            terms.append(-(label * logits.log_softmax(0)).sum())
    assert_same(value, total(terms) / len(terms), [*world.leaves, *loss.parameters()])
