import re
import time

import numpy as np
import pytest

from lookalike.choose.chooser import clock_of
from lookalike.choose.images import EXTRACTION_SHARE, Extraction, Pace, plan_extraction
from lookalike.errors import BadInput

LABELS = np.repeat(np.arange(10), 100)
PACE = Pace(decode=0.01, forward=0.02)


def seconds_for(images, views):
    """The smallest budget for so many images and views."""
    return PACE.seconds(images, views) / EXTRACTION_SHARE + 1e-6


@pytest.mark.parametrize("views", [0, 1, 4])
def test_as_many_views_as_fit(views):
    assert plan_extraction(PACE, LABELS, seconds_for(1000, views), 4) == Extraction(views)


def test_no_more_views_than_wanted():
    assert plan_extraction(PACE, LABELS, 1e9, 2) == Extraction(2)


def test_fewer_images_where_one_view_is_too_much():
    assert plan_extraction(PACE, LABELS, seconds_for(300, 0), 4) == Extraction(0, 30)


def test_small_classes_stay_whole_in_a_sample():
    labels = np.repeat([0, 1], [5, 100])
    assert plan_extraction(PACE, labels, seconds_for(25, 0), 4) == Extraction(0, 20)


def test_too_little_time_is_refused_with_the_time_that_is_needed():
    with pytest.raises(BadInput, match=r"--minutes 0\.01 is too little") as refused:
        plan_extraction(PACE, LABELS, 0.6, 4)
    minutes = float(re.search(r"about (\d+) minutes", str(refused.value)).group(1))
    assert plan_extraction(PACE, LABELS, 60 * minutes, 4).per_class >= 4


def test_data_sets_that_cannot_be_sampled_are_refused():
    with pytest.raises(BadInput, match="the features of all 1,000 images need a budget of about"):
        plan_extraction(PACE, LABELS, seconds_for(300, 0), 4, whole=True)


def test_the_clock_keeps_a_reserve():
    assert clock_of(15).left == pytest.approx(870, abs=5)
    assert clock_of(1 / 6, time.monotonic() - 9).left < 0
