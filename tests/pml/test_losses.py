"""Losses and wrappers that PML has and no configuration names, and what both sides load."""

import pytest
import pytorch_metric_learning.losses as theirs
import torch

import lookalike.pml.losses as ours
import lookalike.pml.miners as miners
from lookalike.errors import BadInput
from lookalike.pml.utils import loss_and_miner_utils

SIZES = (8, 6)


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(30, 6, dtype=torch.float64, generator=generator)
    other = rows + 0.5 * torch.randn(30, 6, dtype=torch.float64, generator=generator)
    return rows, torch.randint(0, 8, (30,), generator=generator), other


def both(name, *args, **settings):
    """The loss of each library, with the same weights."""
    torch.manual_seed(0)
    mine = getattr(ours, name)(*args, **settings).double()
    torch.manual_seed(0)
    other = getattr(theirs, name)(*args, **settings).double()
    return mine, other


@pytest.fixture
def same(value_and_gradient, assert_same):
    """Two losses have the same value, and the same gradient of the embeddings."""

    def compare(*both, tolerance=1e-9, **named):
        found = [value_and_gradient(loss, *both[2:], **named) for loss in both[:2]]
        assert_same(*((value, gradients[:1]) for value, gradients in found), tolerance)

    return compare


LABELLED = [
    ("LargeMarginSoftmaxLoss", SIZES, {}),
    ("LargeMarginSoftmaxLoss", SIZES, {"margin": 2, "scale": 1.5}),
    *(("PNPLoss", (), {"variant": variant, "anneal": 0.1}) for variant in theirs.PNPLoss.VARIANTS),
    ("ThresholdConsistentMarginLoss", (), {}),
    ("ThresholdConsistentMarginLoss", (), {"margin_plus": 0.3, "lambda_plus": 2.0}),
]


@pytest.mark.parametrize(("name", "sizes", "settings"), LABELLED)
def test_with_labels(name, sizes, settings, data, same):
    rows, labels, _ = data
    same(*both(name, *sizes, **settings), rows, labels)
    if name == "ThresholdConsistentMarginLoss":
        mined = tuple(miners.MultiSimilarityMiner()(rows, labels))
        same(*both(name, **settings), rows, labels, mined)


def test_instance_where_every_image_is_its_own_class(data, same):
    rows, _, _ = data
    same(*both("InstanceLoss", gamma=3), rows, torch.arange(len(rows)))


def test_instance_by_a_loop(data):
    rows, labels, _ = data
    unit = torch.nn.functional.normalize(rows)
    chance = (3 * unit @ unit.T).log_softmax(1)
    same = labels.unsqueeze(1) == labels
    expected = sum(-chance[a][same[a]].sum() / same[a].sum() for a in range(30))
    torch.testing.assert_close(ours.InstanceLoss(gamma=3)(rows, labels), expected / 30)


def test_p2s_grad(data, same):
    """PML brings its weights to length 1 by float32, and in place."""
    rows, labels, _ = data
    mine, other = both("P2SGradLoss", 6, 8)
    other.load_state_dict(mine.state_dict())
    same(mine, other, rows, labels, tolerance=1e-6)


def test_views_without_labels(data, same):
    rows, _, other = data
    same(*both("VICRegLoss"), rows, ref_emb=other)
    same(*both("VICRegLoss", 1, 2, 3, eps=0.1), rows, ref_emb=other)
    value = ours.VICRegLoss()(rows[:1].clone(), ref_emb=other[:1])
    assert torch.isfinite(value)
    leaf = rows[:5].clone().requires_grad_()
    loss = ours.VICRegLoss()
    assert torch.autograd.gradcheck(lambda x: loss(x, ref_emb=other[:5]), (leaf,))
    for wrong in ({"labels": torch.arange(30), "ref_emb": other}, {}, {"ref_emb": other[:3]}):
        with pytest.raises(BadInput, match="VICRegLoss"):
            loss(rows, **wrong)


def test_manifold(data, same):
    """PML inverts its matrix in float32."""
    rows, _, _ = data
    own = torch.arange(30) % 5
    for settings in ({}, {"lambdaC": 0.0}, {"alpha": 0.5, "margin": 0.01}):
        mine, other = both("ManifoldLoss", 6, K=5, **settings)
        same(mine, other, rows, indices_tuple=own, tolerance=1e-5)
    mine, other = both("ManifoldLoss", 6, K=5)
    same(mine, other, rows, tolerance=1e-5)  # random proxies, by the same draws
    leaf = rows[:6].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: mine(x, indices_tuple=own[:6]), (leaf,), atol=1e-4)
    assert torch.isfinite(ours.ManifoldLoss(6, K=50)(rows.float()))  # fewer images than proxies
    with pytest.raises(BadInput, match="no labels"):
        mine(rows, own)


def test_dynamic_soft_margin(data):
    """The same values batch after batch; PML's gradient goes through its histogram too."""
    rows, labels, _ = data
    mine, pml = both("DynamicSoftMarginLoss")
    for number in range(3):
        moved = rows.roll(number, 1) + number
        found, expected = (loss(moved, labels).detach() for loss in (mine, pml))
        torch.testing.assert_close(found, expected)


def test_weights_of_dynamic_soft_margin_are_constants(data, value_and_gradient):
    rows, labels, _ = data
    loss = ours.DynamicSoftMarginLoss()
    value, (gradient, *_) = value_and_gradient(loss, rows, labels)
    leaf = rows.clone().requires_grad_()
    unit = torch.nn.functional.normalize(leaf)
    a, p, n = (torch.tensor(part) for part in zip(*every_triplet(labels), strict=True))
    apart = (unit[a] - unit[p]).norm(dim=1) - (unit[a] - unit[n]).norm(dim=1)
    place = ((apart.detach() + 2) / 0.4).floor().long()
    weights = loss.hist_.cumsum(0)[place]
    expected = (weights * apart).mean()
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, leaf)[0])


def every_triplet(labels):
    number = range(len(labels))
    return [
        (a, p, n)
        for a in number
        for p in number
        for n in number
        if a != p and labels[a] == labels[p] != labels[n]
    ]


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("name", ["NTXentLoss", "TripletMarginLoss", "SupConLoss"])
def test_self_supervised(name, symmetric, data, same):
    rows, _, other = data
    mine = ours.SelfSupervisedLoss(getattr(ours, name)(), symmetric=symmetric)
    pml = theirs.SelfSupervisedLoss(getattr(theirs, name)(), symmetric=symmetric)
    same(mine, pml, rows, other)


def test_three_views(data):
    rows, _, other = data
    third = other.flip(1)
    loss = ours.NTXentLoss()
    numbers = torch.arange(30)
    found = ours.SelfSupervisedLoss(loss)(rows, other, third)
    torch.testing.assert_close(found, loss(torch.cat([rows, other, third]), numbers.repeat(3)))
    found = ours.SelfSupervisedLoss(loss, symmetric=False)(rows, other, third)
    candidates = torch.cat([other, third]), numbers.repeat(2)
    torch.testing.assert_close(found, loss(rows, numbers, None, *candidates))
    with pytest.raises(BadInput, match="same number"):
        ours.SelfSupervisedLoss(loss)(rows, other[:3])


def test_several_losses(data):
    rows, labels, _ = data
    miner = miners.MultiSimilarityMiner()
    parts = ours.ContrastiveLoss(), ours.NTXentLoss()
    expected = 2 * parts[0](rows, labels, miner(rows, labels)) + 0.5 * parts[1](rows, labels)
    listed = ours.MultipleLosses(parts, miners=[miner, None], weights=[2, 0.5])
    torch.testing.assert_close(listed(rows, labels), expected)
    assert listed.weights == [2, 0.5]
    named = ours.MultipleLosses({"a": parts[0], "b": parts[1]}, {"a": miner}, {"a": 2, "b": 0.5})
    torch.testing.assert_close(named(rows, labels), expected)
    plain = ours.MultipleLosses(list(parts))
    mined = miner(rows, labels)
    torch.testing.assert_close(
        plain(rows, labels, mined), sum(part(rows, labels, mined) for part in parts)
    )
    with pytest.raises(BadInput, match="miners of their own"):
        listed(rows, labels, mined)
    for wrong in ({"weights": [1]}, {"miners": [miner]}, {"weights": {"0": 1, "1": 1}}):
        with pytest.raises(BadInput, match="must be given"):
            ours.MultipleLosses(list(parts), **wrong)
    with pytest.raises(BadInput, match="each of the losses"):
        ours.MultipleLosses({"a": parts[0], "b": parts[1]}, weights={"a": 1})


def test_labels_that_are_numbers(data):
    """Of every pair, against all that are as far in label or farther."""
    rows, labels, _ = data
    ages = labels.double() / 10
    unit = torch.nn.functional.normalize(rows)
    logits = unit @ unit.T / 0.5
    terms = []
    for i in range(30):
        for j in range(30):
            if i != j:
                far = (ages - ages[i]).abs() >= (ages[j] - ages[i]).abs()
                far[i] = False
                terms.append(logits[i, far].logsumexp(0) - logits[i, j])
    loss = ours.SupCRLoss(temperature=0.5)
    torch.testing.assert_close(loss(rows, ages), torch.stack(terms).mean())
    leaf = rows[:8].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: loss(x, ages[:8]), (leaf,))
    for size in (1, 2):
        assert torch.isfinite(loss(rows[:size], ages[:size]))


PROXIES = {
    **dict.fromkeys(("NormalizedSoftmaxLoss", "ArcFaceLoss", "CosFaceLoss", "SphereFaceLoss"), 1),
    **dict.fromkeys(("LargeMarginSoftmaxLoss", "ProxyAnchorLoss"), 1),
    "ProxyNCALoss": -1,
    "SoftTripleLoss": 20,
}
"""Ours over PML's logits: it gives distances, or leaves out the scale."""


@pytest.mark.parametrize("name", PROXIES)
def test_logits_and_state_dicts(name, data):
    rows, _, _ = data
    mine, other = both(name, *SIZES)
    other.load_state_dict(mine.state_dict())
    mine.load_state_dict(other.state_dict())
    torch.testing.assert_close(mine.get_logits(rows), PROXIES[name] * other.get_logits(rows))


def test_softmax_of_logits_is_the_loss_without_margin(data):
    rows, labels, _ = data
    for name in ("NormalizedSoftmaxLoss", "ProxyNCAPlusPlusLoss"):
        loss = getattr(ours, name)(*SIZES).double()
        expected = torch.nn.functional.cross_entropy(loss.get_logits(rows), labels)
        torch.testing.assert_close(loss(rows, labels), expected)


@pytest.mark.parametrize("name", ["MarginLoss", "ContrastiveLoss"])
def test_state_dicts_without_proxies(name):
    mine, other = both(name)
    other.load_state_dict(mine.state_dict())
    mine.load_state_dict(other.state_dict())


@pytest.mark.parametrize("threshold", [60, 75, 90, 180])
def test_outliers(threshold, data):
    rows, labels, _ = data
    mine, other = both(
        "SubCenterArcFaceLoss", num_classes=9, embedding_size=6
    )  # one class is empty
    outliers, centres = mine.get_outliers(rows, labels, threshold)
    expected, of_pml = other.get_outliers(rows, labels, threshold)
    assert outliers.tolist() == expected.long().tolist()
    torch.testing.assert_close(centres[:, :8], of_pml[:, :8])
    assert not centres[:, 8].any()
    alone = mine.get_outliers(rows, labels, threshold, return_dominant_centers=False)
    assert torch.equal(alone, outliers)


class HardPairs(ours.BaseMetricLossFunction):
    """As a user of PML writes a loss."""

    def __init__(self, margin=0.1, **kwargs):
        super().__init__(**kwargs)
        self.margin = margin
        self.add_to_recordable_attributes(name="margin", is_stat=False)

    def compute_loss(self, embeddings, labels, indices_tuple, ref_emb, ref_labels):
        a, p, n = loss_and_miner_utils.convert_to_triplets(indices_tuple, labels, ref_labels, "all")
        if len(a) == 0:
            return self.zero_losses()
        mat = self.distance(embeddings, ref_emb)
        values = self.distance.margin(mat[a, p], mat[a, n]) + self.margin
        entry = {"losses": values.relu(), "indices": (a, p, n), "reduction_type": "triplet"}
        return {"loss": entry}


def test_a_loss_written_as_pmls(data, same):
    rows, labels, other = data
    plain = ours.TripletMarginLoss(0.1, reducer="mean")
    same(HardPairs(), plain, rows, labels)
    mined = miners.SemiHardMiner()(rows, labels)
    same(HardPairs(), plain, rows, labels, mined)
    same(HardPairs(), plain, rows, labels, None, other, labels.flip(0))
    given = {"reducer": "sum", "distance": "cosine", "embedding_regularizer": "l2"}
    same(HardPairs(**given), ours.TripletMarginLoss(0.1, **given), rows, labels)
    assert HardPairs()(rows[:1], labels[:1]) == 0


class PairGap(ours.GenericPairLoss):
    """Of a matrix, or of pairs."""

    def _compute_loss(self, *found):
        if found[0] is not None and len(found) == 3 and isinstance(found[2], tuple):
            pulled, pushed, (a, p, b, n) = found
        else:
            matrix, positive, negative = found
            (a, p), (b, n) = torch.where(positive > 0), torch.where(negative > 0)
            pulled, pushed = matrix[a, p], matrix[b, n]
        return {
            "pos_loss": {"losses": pulled, "indices": (a, p), "reduction_type": "pos_pair"},
            "neg_loss": {"losses": -pushed, "indices": (b, n), "reduction_type": "neg_pair"},
        }


@pytest.mark.parametrize("of_matrix", [True, False])
def test_a_pair_loss_written_as_pmls(of_matrix, data):
    rows, labels, _ = data
    unit = torch.nn.functional.normalize(rows)
    apart = torch.cdist(unit, unit)
    same = labels.unsqueeze(1) == labels
    expected = apart[same & ~torch.eye(30).bool()].mean() - apart[~same].mean()
    torch.testing.assert_close(PairGap(of_matrix)(rows, labels), expected)
