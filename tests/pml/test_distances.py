"""The methods of PML's distances, and distances of one's own."""

import pytest
import pytorch_metric_learning.distances as theirs
import torch

import lookalike.pml.distances as ours
from lookalike.errors import BadInput
from lookalike.pml.losses import ContrastiveLoss, TripletMarginLoss

NAMES = ["CosineSimilarity", "DotProductSimilarity", "LpDistance", "SNRDistance"]


@pytest.fixture
def rows():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, 9, 5, dtype=torch.float64, generator=generator)


@pytest.mark.parametrize("name", NAMES)
def test_methods(name, rows):
    mine, pml = getattr(ours, name)(), getattr(theirs, name)()
    x, y = rows
    for method in ("pairwise_distance", "margin"):
        torch.testing.assert_close(getattr(mine, method)(x, y), getattr(pml, method)(x, y))
    for method in ("smallest_dist", "largest_dist"):
        found, expected = (getattr(kind, method)(x, dim=1).indices for kind in (mine, pml))
        assert torch.equal(found, expected)
    for method in ("normalize", "maybe_normalize", "get_norm"):
        torch.testing.assert_close(getattr(mine, method)(x), getattr(pml, method)(x))
    units = mine.maybe_normalize(x), mine.maybe_normalize(y)
    # torch's pairwise distance adds 1e-6 to every difference
    found = mine.pairwise_distance(*units)
    torch.testing.assert_close(mine(x, y).diagonal(), found, rtol=1e-5, atol=1e-5)


def test_rows_as_they_are(rows):
    plain = ours.LpDistance(normalize_embeddings=False, p=1)
    x = rows[0]
    assert plain.maybe_normalize(x) is x
    torch.testing.assert_close(plain.get_norm(x), x.abs().sum(1))


class Manhattan(ours.BaseDistance):
    """As a user of PML writes a distance."""

    def compute_mat(self, query_emb, ref_emb):
        return torch.cdist(query_emb, ref_emb, p=1)


def test_a_distance_written_as_pmls(rows):
    x, labels = rows.flatten(0, 1), torch.arange(18) % 4
    plain = ours.LpDistance(normalize_embeddings=False, p=1)
    mine = Manhattan(normalize_embeddings=False)
    torch.testing.assert_close(mine(x), plain(x))
    torch.testing.assert_close(Manhattan(False, power=2)(x), plain(x) ** 2)
    for loss in (ContrastiveLoss, TripletMarginLoss):
        torch.testing.assert_close(loss(distance=mine)(x, labels), loss(distance=plain)(x, labels))


class OfSets(ours.BaseDistance):
    """Between sets of vectors [N, members, D]: that of their nearest members."""

    def check_shapes(self, query_emb, ref_emb):
        pass

    def compute_mat(self, query_emb, ref_emb):
        apart = torch.cdist(query_emb.flatten(0, 1), ref_emb.flatten(0, 1))
        members = query_emb.shape[1], ref_emb.shape[1]
        apart = apart.view(len(query_emb), members[0], len(ref_emb), members[1])
        return apart.amin((1, 3))


def test_a_distance_may_read_other_shapes():
    sets, labels = torch.randn(8, 3, 5, requires_grad=True), torch.arange(8) // 2
    loss = TripletMarginLoss(distance=OfSets(normalize_embeddings=False))
    loss(sets, labels).backward()
    assert sets.grad.isfinite().all()
    with pytest.raises(BadInput, match="rows"):
        TripletMarginLoss()(sets, labels)
    with pytest.raises(ValueError, match="embeddings"):
        TripletMarginLoss(distance=theirs.LpDistance())(sets, labels)
