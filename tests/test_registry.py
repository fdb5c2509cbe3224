import pytest

from lookalike.errors import BadInput
from lookalike.registry import LOSSES, MINERS, Registry

pytestmark = pytest.mark.trust(
    "nowhere:Thing",
    "fractions:Nothing",
    "fractions:Fraction",
    ":x",
    "math:pi",
)


@pytest.fixture
def shapes():
    registry = Registry("shapes")

    @registry.register("square", paper="Euclid")
    class Square:
        """Four equal sides."""

        def __init__(self, side=1.0):
            self.side = side

    return registry


def test_builds_by_name(shapes):
    assert shapes.create("square", side=2).side == 2


def test_summary_is_the_first_line_of_the_docstring(shapes):
    (entry,) = shapes.entries()
    assert (entry.name, entry.summary, entry.paper) == ("square", "Four equal sides.", "Euclid")


def test_wrong_name_is_refused_with_the_nearest(shapes):
    with pytest.raises(BadInput, match="did you mean 'square'"):
        shapes.create("sqare")


def test_wrong_argument_is_refused_with_the_nearest(shapes):
    with pytest.raises(BadInput, match="no argument 'sde'; did you mean 'side'"):
        shapes.create("square", sde=3)


def test_any_importable_class(shapes):
    assert shapes.create("fractions:Fraction", 1, 2) * 2 == 1


@pytest.mark.parametrize("name", ["nowhere:Thing", "fractions:Nothing", ":x", "math:pi"])
def test_what_cannot_be_imported_is_refused(shapes, name):
    with pytest.raises(BadInput):
        shapes.create(name)


@pytest.mark.parametrize("value", [float("nan"), "nan"])
def test_an_argument_that_is_not_a_number_is_refused(value):
    with pytest.raises(BadInput, match=r"'triplet' of the .*margin = .*a number is wanted"):
        LOSSES.check("triplet", {"margin": value})
    LOSSES.check("triplet", {"margin": 0.1})
    MINERS.check("triplet-margin", {"margin": float("inf")})  # every triplet


@pytest.mark.parametrize("name", ["sphereface", "large-margin-softmax"])
def test_an_infinite_angle_is_refused(name):
    with pytest.raises(BadInput, match="the margin must be a whole number, not infinite"):
        LOSSES.create(name, num_classes=2, embedding_size=2, margin=float("inf"))
