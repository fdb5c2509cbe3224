import numpy as np
import pytest

from lookalike.errors import BadInput
from lookalike.search.mislabelled import find_mislabelled


def test_swapped_labels_are_found():
    random = np.random.default_rng(4)
    centres = random.normal(size=(5, 32))
    labels = np.repeat(np.arange(5), 20)
    vectors = (centres[labels] + 0.2 * random.normal(size=(100, 32))).astype(np.float32)
    wrong = labels.copy()
    wrong[[3, 50, 77]] = [2, 4, 0]
    suspects = find_mislabelled(vectors, wrong)
    assert sorted(s.row for s in suspects) == [3, 50, 77]
    assert {s.row: s.proposed for s in suspects} == {3: 0, 50: 2, 77: 3}
    assert all(s.share > s.agreement for s in suspects)
    assert find_mislabelled(vectors, labels) == []
    with pytest.raises(BadInput, match="too few"):
        find_mislabelled(vectors[:2], labels[:2])
