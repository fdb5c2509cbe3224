"""The mixed term: against naive loops, at its limits, and for every additive loss."""

import math

import pytest
import torch

from lookalike import losses
from lookalike.distances import CosineSimilarity, LpDistance, SNRDistance
from lookalike.errors import BadInput
from lookalike.mixing import Mixing, additive_names
from lookalike.mixing.pairs import MixedPairs, choose_pairs
from lookalike.mixing.relations import relations_from_cosines, relations_to_mixes
from lookalike.ops.rows import products
from lookalike.relations import Relations

NAMED = {
    "contrastive",
    "lifted-structure",
    "generalized-lifted-structure",
    "ntxent",
    "multi-similarity",
    "binomial-deviance",
    "proxy-anchor",
    "proxy-nca",
    "normalized-softmax",
}
KINDS = ["positive-negative", "anchor-negative"]


class Fixed(Mixing):
    """Mixing with shares that are given, not drawn."""

    def using(self, share):
        object.__setattr__(self, "share", share)
        return self

    def shares(self, like, *shape):
        return torch.as_tensor(self.share, dtype=like.dtype).expand(shape)


def gradient(value, *leaves):
    return torch.autograd.grad(value, leaves, allow_unused=True, retain_graph=True)


def same_values(a, b, leaves):
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)
    for one, other in zip(gradient(a, *leaves), gradient(b, *leaves), strict=True):
        if one is None or other is None:
            assert (one if other is None else other) is None or not (one or other).any()
            continue
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-11)


def through_the_head(leaf):
    """Embeddings as a model gives them: of unit length, so that only directions have a gradient."""
    return torch.nn.functional.normalize(leaf, dim=1)


def test_the_losses_that_the_paper_and_others_need_are_additive():
    assert set(additive_names()) >= NAMED


@pytest.mark.parametrize("name", additive_names())
@pytest.mark.parametrize("where", ["embed", "feature"])
def test_weight_0_adds_nothing_and_draws_nothing(name, where, batch, built):
    embeddings, labels = batch()
    loss = built(name)
    state = torch.get_rng_state()
    more = (embeddings, lambda x: x) if where == "feature" else ()
    assert Mixing(where, weight=0)(loss, embeddings, labels, *more) == 0
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("name", additive_names())
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("negatives", [None, 2])
def test_share_1_is_the_loss_on_the_unmixed_candidates(name, kind, negatives, batch, built):
    embeddings, labels = batch()
    loss = built(name)
    mixing = Fixed("embed", pairs=kind, negatives=negatives).using(1.0)
    leaves = [embeddings, *loss.parameters()]
    number = mixing._negatives(loss)
    with torch.no_grad():
        first, _ = choose_pairs(labels, embeddings @ embeddings.T, number)
    if isinstance(loss, losses.ProxyLoss):
        plain = loss.compute(loss.relations(embeddings[first], labels[first]))
    else:
        anchor = torch.arange(len(labels))[:, None]
        valid = (first == anchor) if kind == "anchor-negative" else (first != anchor)
        valid = valid & (labels[:, None] == labels[first])
        similarity = loss.distance.similarity(embeddings, embeddings[first])
        plain = loss.compute(
            Relations(similarity, torch.ones_like(similarity), valid.to(similarity.dtype))
        )
    same_values(mixing.term(loss, embeddings, labels), plain, leaves)


def mixed_by_loops(embeddings, labels, share, kind):
    """For each anchor its mixes: cosine to the anchor, and label."""
    size = len(labels)
    found = []
    for a in range(size):
        row = []
        for i in range(size):
            mates = i == a if kind == "anchor-negative" else i != a and labels[i] == labels[a]
            for j in range(size):
                if not mates or labels[j] == labels[i]:
                    continue
                v = share[i, j] * embeddings[i] + (1 - share[i, j]) * embeddings[j]
                row.append((embeddings[a] @ v / v.norm() / embeddings[a].norm(), share[i, j]))
        found.append(row)
    return found


def naive_multi_similarity(rows, alpha=2.0, beta=50.0, base=0.5):
    total = 0
    for row in rows:
        pull = sum(y * torch.exp(-alpha * (s - base)) for s, y in row)
        push = sum((1 - y) * torch.exp(beta * (s - base)) for s, y in row)
        total = total + torch.log(1 + torch.as_tensor(pull)) / alpha
        total = total + torch.log(1 + torch.as_tensor(push)) / beta
    return total / len(rows)


def naive_contrastive_on_similarity(rows, margin=0.5):
    total = 0
    for row in rows:
        for s, y in row:
            total = total - y * s + (1 - y) * torch.relu(s - margin)
    return total / len(rows)


def naive_contrastive_on_distance(rows, margin=1.0):
    pulled, pushed = [], []
    for row in rows:
        for s, y in row:
            d = torch.sqrt(2 - 2 * s)
            pulled.append((d, y))
            pushed.append((torch.relu(margin - d), 1 - y))
    parts = []
    for terms in (pulled, pushed):
        above = [(value, weight) for value, weight in terms if value > 0]
        weight = sum(w for _, w in above)
        parts.append(sum(v * w for v, w in above) / weight if above else 0)
    return parts[0] + parts[1]


NAIVE = {
    "multi-similarity": ("multi-similarity", naive_multi_similarity, {}),
    "contrastive": ("contrastive", naive_contrastive_on_distance, {}),
    "contrastive on similarity": (
        "contrastive",
        naive_contrastive_on_similarity,
        {"on": "similarity", "neg_margin": 0.5},
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", NAIVE)
def test_pair_losses_against_loops(kind, case, batch, built):
    leaf, labels = batch()
    embeddings = through_the_head(leaf)
    name, naive, arguments = NAIVE[case]
    loss = built(name, **arguments)
    share = torch.rand(9, 9, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    value = Fixed("embed", pairs=kind).using(share).term(loss, embeddings, labels)
    same_values(value, naive(mixed_by_loops(embeddings, labels, share, kind)), [leaf])


@pytest.mark.parametrize("where", ["embed", "feature"])
def test_proxy_anchor_against_loops(where, batch, built):
    leaf, labels = batch()
    embeddings = through_the_head(leaf)
    loss = built("proxy-anchor")
    share = torch.linspace(0.1, 0.9, 9, dtype=torch.float64)
    more = ()
    if where == "feature":
        more = (2 * embeddings, lambda maps: torch.nn.functional.normalize(maps, dim=1))
    mixing = Fixed(where, negatives=1).using(share)
    value = mixing.term(loss, embeddings, labels, *more)
    mixes = []
    for i in range(9):
        others = [j for j in range(9) if labels[j] != labels[i]]
        j = max(others, key=lambda j: (leaf[i] @ leaf[j]).item())
        v = share[i] * embeddings[i] + (1 - share[i]) * embeddings[j]
        mixes.append((v / v.norm(), {int(labels[i]): share[i], int(labels[j]): 1 - share[i]}))
    pull, push, with_positive = 0, 0, set(labels.tolist())
    for c in range(10):
        w = loss.proxies[c] / loss.proxies[c].norm()
        inside = sum(y.get(c, 0) * torch.exp(-loss.alpha * (w @ v - loss.margin)) for v, y in mixes)
        outside = sum(
            (1 - y.get(c, 0)) * torch.exp(loss.alpha * (w @ v + loss.margin)) for v, y in mixes
        )
        pull = pull + (torch.log(1 + inside) if c in with_positive else 0)
        push = push + torch.log(1 + outside)
    same_values(value, pull / len(with_positive) + push / 10, [leaf, loss.proxies])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "distance", [CosineSimilarity(), LpDistance(), LpDistance(power=2), LpDistance(power=3)]
)
def test_cosines_alone_give_what_written_out_mixes_give(kind, distance, batch, built):
    leaf, labels = batch()
    embeddings = through_the_head(leaf)
    share = torch.rand(9, 9, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    cosine = products(embeddings, unit_rows=True)
    rows = relations_from_cosines(cosine, labels, share, kind, distance)
    first, second = choose_pairs(labels, cosine.detach(), None)
    pairs = MixedPairs(first, second, share[first, second])
    dense = relations_to_mixes(embeddings, labels, pairs.of(embeddings), pairs, kind, distance)
    for a in range(9):
        for name in ("similarity", "same"):
            short = getattr(rows, name)[a][rows.valid[a] > 0]
            long = getattr(dense, name)[a][dense.valid[a] > 0]
            torch.testing.assert_close(short, long, rtol=1e-10, atol=1e-10)
    loss = built("ntxent", distance=distance)
    same_values(loss.compute(rows), loss.compute(dense), [leaf])


def test_a_distance_that_cosines_do_not_tell_gets_all_mixes_too(batch, built):
    embeddings, labels = batch()
    loss = built("contrastive", distance=SNRDistance())
    value = Fixed("embed", pairs="anchor-negative").using(0.3).term(loss, embeddings, labels)
    assert value > 0


@pytest.mark.parametrize("name", ["multi-similarity", "ntxent", "binomial-deviance", "proxy-nca"])
@pytest.mark.parametrize("negatives", [None, 2])
def test_gradcheck(name, negatives, batch, built):
    embeddings, labels = batch()
    loss = built(name)
    mixing = Fixed("embed", pairs="positive-negative", negatives=negatives).using(0.3)
    assert torch.autograd.gradcheck(
        lambda leaf: mixing.term(loss, through_the_head(leaf), labels),
        embeddings,
    )


@pytest.mark.parametrize("name", additive_names())
@pytest.mark.parametrize("where", ["embed", "input"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "labels", [(1,), (1, 1, 1), (1, 2, 3), (1, 1, 2), (4, 4, 4, 4, 4, 5)], ids=str
)
def test_degenerate_batches_are_finite(name, where, kind, labels, batch, built):
    embeddings, labels = batch(labels)
    loss = built(name)
    more = () if where == "embed" else (embeddings, lambda x: torch.nn.functional.normalize(x))
    value = embeddings.sum() * 0 + Mixing(where, pairs=kind)(loss, embeddings, labels, *more)
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(embeddings.grad).all()


@pytest.mark.parametrize("name", additive_names())
def test_identical_and_zero_embeddings_are_finite(name, built):
    labels = torch.tensor([0, 0, 1, 1])
    loss = built(name)
    for rows in (torch.ones(4, 5), torch.zeros(4, 5)):
        embeddings = rows.double().requires_grad_()
        value = Mixing("embed")(loss, embeddings, labels)
        value.backward()
        assert torch.isfinite(value)
        assert torch.isfinite(embeddings.grad).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype, batch):
    embeddings, labels = batch(dtype=torch.float32)
    loss = losses.MultiSimilarityLoss()
    mixing = Fixed("embed", pairs="positive-negative").using(0.3)
    half = mixing.term(loss, embeddings.to(dtype), labels)
    assert half.dtype == torch.float32
    torch.testing.assert_close(half, mixing.term(loss, embeddings, labels), rtol=0.05, atol=0.05)


@pytest.mark.parametrize("where", ["embed", "feature"])
def test_autocast_reaches_the_model_only(where, batch):
    embeddings, labels = batch(dtype=torch.float32)
    loss = losses.MultiSimilarityLoss()
    mixing = Fixed(where, pairs="positive-negative", negatives=2).using(0.3)
    around = []

    def embed(maps):
        around.append(torch.is_autocast_enabled("cpu"))
        return torch.nn.functional.normalize(maps, dim=1)

    more = (embeddings, embed) if where == "feature" else ()
    plain = mixing.term(loss, embeddings, labels, *more)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(mixing.term(loss, embeddings, labels, *more), plain)
    assert around == ([False, True] if where == "feature" else [])


def test_input_mode_embeds_only_the_mixes(batch, built):
    embeddings, labels = batch()
    images = torch.rand(9, 3, 4, 4, dtype=torch.float64)
    seen = []

    def model(batch):
        seen.append(batch)
        return torch.nn.functional.normalize(batch.mean((2, 3)) @ torch.ones(3, 5).double())

    Fixed("input", negatives=2).using(0.25).term(built("ntxent"), embeddings, labels, images, model)
    (mixes,) = seen
    assert mixes.shape == (18, 3, 4, 4)
    nearest = [j for j in range(9) if labels[j] != labels[0]]
    j = max(nearest, key=lambda j: (embeddings[0] @ embeddings[j]).item())
    torch.testing.assert_close(mixes[0], 0.25 * images[0] + 0.75 * images[j])


def test_gradients_flow_through_both_sides(batch, built):
    embeddings, labels = batch()
    maps = embeddings.detach().clone().requires_grad_()
    value = Mixing("feature")(
        built("multi-similarity"), embeddings, labels, maps, torch.nn.functional.normalize
    )
    of_anchors, of_mixes = gradient(value, embeddings, maps)
    assert of_anchors.abs().sum() > 0
    assert of_mixes.abs().sum() > 0


def test_direction_regularisation_of_mixes(batch, built):
    embeddings, labels = batch()
    loss = built("multi-similarity", direction=0.3)
    assert torch.isfinite(Mixing("embed", negatives=2)(loss, embeddings, labels))
    with pytest.raises(BadInput, match=r"set mix\.negatives"):
        Mixing("embed")(loss, embeddings, labels)


def test_shares_are_beta_distributed_by_pair_or_by_batch():
    torch.manual_seed(0)
    like = torch.zeros(1, dtype=torch.float64)
    drawn = Mixing("embed", alpha=2).shares(like, 20000)
    assert drawn.dtype == torch.float64
    assert drawn.min() > 0
    assert drawn.max() < 1
    assert float(drawn.mean()) == pytest.approx(0.5, abs=0.01)
    assert float(drawn.var()) == pytest.approx(1 / 20, abs=0.003)  # 1 / (4 (2 alpha + 1))
    one = Mixing("embed", per_pair=False).shares(like, 7)
    assert one.unique().numel() == 1


def test_a_fair_coin_chooses_the_pairs():
    torch.manual_seed(0)
    mixing = Mixing("embed")
    drawn = [mixing.kind() == "anchor-negative" for _ in range(400)]
    assert abs(sum(drawn) - 200) < 5 * math.sqrt(100)
    assert Mixing("embed", pairs="anchor-negative").kind() == "anchor-negative"


def test_all_randomness_is_torchs(batch, built):
    embeddings, labels = batch()
    loss, values = built("multi-similarity"), []
    for _ in range(2):
        torch.manual_seed(5)
        values.append([Mixing("embed")(loss, embeddings, labels).item() for _ in range(3)])
    assert values[0] == values[1]
    assert len(set(values[0])) == 3


@pytest.mark.parametrize("name", ["triplet", "histogram", "sphereface"])
def test_a_loss_that_does_not_add_up_is_refused(name, batch, built):
    embeddings, labels = batch()
    with pytest.raises(BadInput, match=r"sums over its candidates.*multi-similarity, .*proxy-nca"):
        Mixing("embed")(built(name), embeddings, labels)


def test_a_loss_of_another_library_is_refused(batch):
    embeddings, labels = batch()
    with pytest.raises(BadInput, match="sums over its candidates"):
        Mixing("embed")(torch.nn.Identity(), embeddings, labels)


def test_a_mode_without_its_source_is_refused(batch, built):
    embeddings, labels = batch()
    with pytest.raises(BadInput, match="needs source and embed"):
        Mixing("input")(built("ntxent"), embeddings, labels)
    with pytest.raises(BadInput, match="the embeddings themselves"):
        Mixing("embed")(built("ntxent"), embeddings, labels, embeddings, lambda x: x)
