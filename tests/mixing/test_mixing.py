"""The mixed term at its limits, and for every additive loss (what it is: test_definition)."""

import math

import pytest
import torch

from lookalike import losses
from lookalike.distances import CosineSimilarity, LpDistance, SNRDistance
from lookalike.errors import BadInput
from lookalike.losses import PairLoss
from lookalike.mixing import Mixing, additive_names
from lookalike.mixing.mixed_embeddings import cosines_to_mixes, similarity_of_cosine
from lookalike.mixing.pairs import all_pairs
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
        one, other = (torch.zeros(1) if x is None else x for x in (one, other))
        torch.testing.assert_close(
            *torch.broadcast_tensors(one, other), rtol=1e-8, atol=1e-11, check_dtype=False
        )


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


def unmixed(loss, embeddings, labels, kind):
    """The loss on the first image of every pair, as a positive of its anchor."""
    first, _ = all_pairs(labels)
    if isinstance(loss, losses.ProxyLoss) and not loss.proxies_are_anchors:
        return loss(embeddings[first], labels[first])
    anchor, classes = torch.arange(len(labels))[:, None], labels[:, None]
    if isinstance(loss, losses.ProxyLoss):
        similarity = loss.distance.similarity(loss.proxies, embeddings[first])
        own = torch.arange(len(loss.proxies))[:, None] == labels[first]
        if kind == "anchor-negative":
            proxies = through_the_head(loss.proxies)
            similarity = (proxies * proxies).sum(1, keepdim=True).expand(10, 9)
            own = torch.arange(10)[:, None] != labels
    else:
        similarity = loss.distance.similarity(embeddings, embeddings[first])
        own = (first == anchor) if kind == "anchor-negative" else (first != anchor)
        own = own & (classes == labels[first])
    positives = own.to(similarity.dtype)
    relations = Relations(
        similarity,
        positives,
        torch.zeros_like(positives),
        torch.ones_like(positives),
        ref_emb=embeddings[first],
    )
    return loss.total_loss(relations)


@pytest.mark.parametrize("name", additive_names())
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["embed", "feature"])
def test_share_1_is_the_loss_on_the_unmixed_candidates(name, kind, where, batch, built):
    """An image mixed with nothing is itself: at distance 0 of itself, with gradient 0."""
    leaf, labels = batch()
    embeddings = through_the_head(leaf)
    loss = built(name)
    if where == "feature" and kind == "anchor-negative" and name == "proxy-anchor":
        pytest.skip("a proxy has no feature map")
    more = (embeddings, through_the_head) if where == "feature" else ()
    value = Fixed(where, pairs=kind).using(1.0).term(loss, embeddings, labels, *more)
    same_values(value, unmixed(loss, embeddings, labels, kind), [leaf, *loss.parameters()])


@pytest.mark.parametrize(
    "distance", [CosineSimilarity(), LpDistance(), LpDistance(power=2), LpDistance(power=3)]
)
def test_cosines_alone_give_what_written_out_mixes_give(distance, batch):
    leaf, _ = batch()
    rows = through_the_head(leaf)
    share = torch.rand(9, 9, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    cosine = rows @ rows.T
    first = torch.tensor([[(a + 1) % 9, (a + 4) % 9] for a in range(9)])
    found = cosines_to_mixes(cosine.gather(1, first), cosine, first, cosine, share)
    found = similarity_of_cosine(found, distance, 5).view(9, 2, 9)
    for a in range(9):
        for place, x in enumerate(first[a].tolist()):
            for z in range(9):
                if z in (a, x):
                    continue
                mix = through_the_head((share[x, z] * rows[x] + (1 - share[x, z]) * rows[z])[None])
                wanted = distance.similarity(rows[[a]], mix)[0, 0]
                same_values(found[a, place, z], wanted, [leaf])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["contrastive", "ntxent", "supcon", "multi-similarity"])
def test_the_closed_form_is_the_loss_of_mixes_that_are_made(name, kind, batch, built):
    """A model that only brings embeddings to unit length makes mixes of them out of ``feature``."""
    leaf, labels = batch()
    embeddings, loss = through_the_head(leaf), built(name)
    closed, made = (
        Fixed(where, pairs=kind).using(0.3).term(loss, embeddings, labels, *more)
        for where, more in (("embed", ()), ("feature", (embeddings, through_the_head)))
    )
    same_values(closed, made, [leaf])


def test_a_distance_that_cosines_do_not_tell_gets_all_mixes_too(batch, built):
    embeddings, labels = batch()
    loss = built("contrastive", distance=SNRDistance())
    value = Fixed("embed", pairs="anchor-negative").using(0.3).term(loss, embeddings, labels)
    assert value > 0


def seeded(mixing, *arguments):
    """The term with the same draws each time."""
    torch.manual_seed(0)
    return mixing.term(*arguments)


@pytest.mark.parametrize(
    "name", ["multi-similarity", "ntxent", "lifted-structure", "proxy-nca", "proxy-anchor"]
)
@pytest.mark.parametrize("negatives", [None, 2])
def test_gradcheck(name, negatives, batch, built):
    embeddings, labels = batch()
    loss = built(name)
    mixing = Fixed("embed", pairs="positive-negative", negatives=negatives).using(0.3)
    assert torch.autograd.gradcheck(
        lambda leaf: seeded(mixing, loss, through_the_head(leaf), labels),
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
    if where == "input" and name == "proxy-anchor":
        kind = "positive-negative"
    more = () if where == "embed" else (embeddings, through_the_head)
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
    plain = seeded(mixing, loss, embeddings, labels, *more)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(seeded(mixing, loss, embeddings, labels, *more), plain)
    assert around == ([False, True] if where == "feature" else [])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("negatives", "number"), [(None, 1), (2, 2), (3, 3)])
def test_input_mode_embeds_so_many_mixes_per_anchor_in_one_pass(
    kind, negatives, number, batch, built
):
    embeddings, labels = batch((3, 8, 3, 5, 8, 3, 5, 5))
    images = torch.rand(8, 3, 4, 4, dtype=torch.float64)
    seen = []

    def model(batch):
        seen.append(batch.shape)
        return through_the_head(batch.mean((2, 3)) @ torch.ones(3, 5).double())

    mixing = Mixing("input", pairs=kind, negatives=negatives)
    mixing.term(built("ntxent"), embeddings, labels, images, model)
    assert seen == [(8 * number, 3, 4, 4)]


@pytest.mark.parametrize("name", ["multi-similarity", "proxy-anchor", "normalized-softmax"])
@pytest.mark.parametrize("where", ["embed", "feature"])
def test_features_and_embeddings_are_mixed_with_all_negatives(name, where, batch, built):
    embeddings, labels = batch()
    loss = built(name)
    more = (embeddings, through_the_head) if where == "feature" else ()
    values = [
        seeded(
            Mixing(where, pairs="positive-negative", negatives=n), loss, embeddings, labels, *more
        )
        for n in (None, "all", 3)
    ]
    torch.testing.assert_close(values[0], values[1])
    assert values[0] != values[2]


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
    for where, more in (("embed", ()), ("feature", (embeddings, through_the_head))):
        with pytest.raises(BadInput, match=r"set mix\.negatives"):
            Mixing(where)(loss, embeddings, labels, *more)


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


class Rank(PairLoss):
    """A ranking loss of a user, who says nothing about mixing."""

    def terms(self, relations):
        return losses.Terms((relations.similarity * relations.positives).argsort(1).double())


def test_a_loss_that_does_not_say_that_it_is_additive_is_refused(batch):
    embeddings, labels = batch()
    with pytest.raises(BadInput, match=r"sums over its candidates by weight; Rank does not\."):
        Mixing("embed")(Rank(), embeddings, labels)


@pytest.mark.parametrize("name", ["proxy-to-proxy-1", "proxy-to-proxy-2"])
def test_a_loss_without_images_as_negatives_is_refused(name, batch, built):
    embeddings, labels = batch()
    with pytest.raises(BadInput, match="sums over its candidates by weight"):
        Mixing("embed")(built(name), embeddings, labels)


@pytest.mark.parametrize("where", ["input", "feature"])
def test_a_proxy_has_no_pixels_and_no_map(where, batch, built):
    embeddings, labels = batch()
    loss = built("proxy-anchor")
    with pytest.raises(BadInput, match=r"mixes a proxy with images: that needs mix\.where=embed"):
        Mixing(where, pairs="anchor-negative").check(loss)
    seen = []

    def embed(mixes):
        seen.append(len(mixes))
        return mixes

    for _ in range(8):  # a coin would fall on either side
        Mixing(where, negatives=1)(loss, embeddings, labels, embeddings, embed)
    assert seen == [9] * 8


def test_a_mode_without_its_source_is_refused(batch, built):
    embeddings, labels = batch()
    with pytest.raises(BadInput, match="needs source and embed"):
        Mixing("input")(built("ntxent"), embeddings, labels)
    with pytest.raises(BadInput, match="the embeddings themselves"):
        Mixing("embed")(built("ntxent"), embeddings, labels, embeddings, lambda x: x)


@pytest.mark.parametrize("name", ["multi-similarity", "proxy-anchor", "cosface"])
def test_regularisers_count_once_in_the_clean_loss(name, batch, built):
    embeddings, labels = batch()
    plain = built(name)
    penalties = {"embedding_regularizer": "l2"}
    if name != "multi-similarity":
        penalties["weight_regularizer"] = "l2"
    values = [
        Fixed("embed", pairs="positive-negative").using(0.3).term(loss, embeddings, labels)
        for loss in (plain, built(name, **penalties))
    ]
    assert values[0] == values[1]
