"""A sample of the classes (partial FC) against the full loss of only those classes."""

import pytest
import torch

from lookalike import losses
from lookalike.errors import BadInput
from lookalike.losses.proxies import sampled_classes
from lookalike.reducers import ClassWeightedReducer

CLASSES, DIM = 60, 8
CENTRES = {"subcenter-arcface": 3, "soft-triple": 10}
NAMES = [
    "normalized-softmax",
    "arcface",
    "cosface",
    "subcenter-arcface",
    "sphereface",
    "proxy-nca",
    "proxy-nca++",
    "soft-triple",
]


def batch():
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(7, DIM, dtype=torch.float64, generator=generator)
    return rows.requires_grad_(), torch.tensor([3, 59, 3, 0, 17, 17, 41])


@pytest.mark.parametrize("name", NAMES)
def test_equals_the_loss_of_those_classes(name):
    rows, labels = batch()
    torch.manual_seed(0)
    loss = losses.create(name, num_classes=CLASSES, embedding_size=DIM, sample=0.3).double()
    (weights,) = loss.parameters()
    torch.manual_seed(5)
    chosen = sampled_classes(labels, CLASSES, 18)
    assert len(chosen.unique()) == 18
    assert torch.isin(labels, chosen).all()
    small = losses.create(name, num_classes=18, embedding_size=DIM).double()
    of_class = CENTRES.get(name, 1)
    as_columns = weights.shape[0] == DIM
    by_class = (weights.T if as_columns else weights).detach().view(CLASSES, of_class, DIM)
    kept = by_class[chosen].reshape(-1, DIM)
    with torch.no_grad():
        next(small.parameters()).copy_(kept.T if as_columns else kept)
    torch.manual_seed(5)
    value = loss(rows, labels)
    expected = small(rows, torch.tensor([chosen.tolist().index(y) for y in labels.tolist()]))
    torch.testing.assert_close(value, expected)
    mine = torch.autograd.grad(value, [rows, weights])
    right = torch.autograd.grad(expected, [rows, next(small.parameters())])
    torch.testing.assert_close(mine[0], right[0])
    found = (mine[1].T if as_columns else mine[1]).reshape(CLASSES, -1)
    torch.testing.assert_close(
        found[chosen], (right[1].T if as_columns else right[1]).reshape(18, -1)
    )
    found[chosen] = 0
    assert not found.any()


def test_all_classes_in_evaluation_and_for_mixed_images():
    rows, labels = batch()
    loss = losses.create("arcface", num_classes=CLASSES, embedding_size=DIM, sample=0.3).double()
    whole = losses.create("arcface", num_classes=CLASSES, embedding_size=DIM).double()
    whole.load_state_dict(loss.state_dict())
    mixed = torch.rand(7, CLASSES, dtype=torch.float64).softmax(1)
    torch.testing.assert_close(loss(rows, mixed), whole(rows, mixed))
    torch.testing.assert_close(loss.eval()(rows, labels), whole(rows, labels))


def test_a_batch_with_more_images_than_the_sample():
    rows, labels = batch()
    loss = losses.create("cosface", num_classes=CLASSES, embedding_size=DIM, sample=0.01).double()
    assert loss.relations(rows, labels).similarity.shape == (7, 7)


def test_reducers_are_given_the_classes():
    rows, labels = batch()
    weights = torch.zeros(CLASSES, dtype=torch.float64)
    weights[labels] = 2.0  # of other classes 0
    options = {"num_classes": CLASSES, "embedding_size": DIM, "sample": 0.3}
    torch.manual_seed(0)
    plain = losses.create("cosface", **options).double()
    weighed = losses.create("cosface", **options, reducer=ClassWeightedReducer(weights)).double()
    weighed.load_state_dict(plain.state_dict())
    torch.manual_seed(5)
    expected = 2 * plain(rows, labels)
    torch.manual_seed(5)
    torch.testing.assert_close(weighed(rows, labels), expected)


@pytest.mark.parametrize("name", ["arcface", *CENTRES])
def test_logits_of_no_images(name):
    loss = losses.create(name, num_classes=5, embedding_size=DIM)
    assert loss.get_logits(torch.empty(0, DIM)).shape == (0, 5)


@pytest.mark.parametrize("share", [0, 1.5, -1])
def test_bad_share(share):
    with pytest.raises(BadInput, match=f"sample is {share}"):
        losses.create("arcface", num_classes=5, embedding_size=2, sample=share)


def test_losses_that_need_all_classes():
    with pytest.raises(BadInput, match="vectors of all classes"):
        losses.create("large-margin-softmax", num_classes=5, embedding_size=2, sample=0.5)
    with pytest.raises(BadInput, match="vectors of all classes"):
        losses.create("proxy-nca", num_classes=5, embedding_size=2, sample=0.5, direction=0.1)
