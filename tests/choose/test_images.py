import shutil

import pytest

from lookalike import data
from lookalike.choose.images import Classes, Extraction, Look, Survey


@pytest.fixture
def flawed(coloured_noise):
    """Twelve classes: one image that is broken, one that is there twice, one class of one."""
    folder = coloured_noise(12, 3, size=(24, 24))
    (folder / "00" / "0.png").write_bytes(b"no image")
    shutil.copy(folder / "01" / "0.png", folder / "02" / "copy.png")
    for number in (1, 2):
        (folder / "03" / f"{number}.png").unlink()
    return data.load("folder", folder)


def test_survey_tells_what_is_wrong(flawed):
    found = Survey.of(flawed, data.check(flawed))
    assert (found.images, found.classes) == (34, 12)
    assert (found.smallest, found.median, found.largest) == (1, 3, 4)
    unreadable, duplicates, mislabelled, single = found.problems
    assert unreadable.startswith("1 image cannot be read and left out, such as 00/0.png")
    assert "01/0.png = 02/copy.png" in duplicates
    assert "one label must be wrong" in mislabelled
    assert "1 class of one image, such as '03'" in single


def test_the_look_survives_its_file(flawed, tmp_path):
    survey = Survey.of(flawed, data.check(flawed))
    for found in (Look("a", Extraction(3), survey), Look("b", Extraction(0, 7), survey, 0.3)):
        found.write(tmp_path)
        assert Look.read(tmp_path) == found


def test_classes_of_one_image_do_not_count(flawed):
    assert Classes.of(flawed) == Classes(training=5, test=6)


@pytest.mark.parametrize(("training", "folds"), [(4, 2), (10, 2), (15, 3), (20, 4), (1000, 4)])
def test_folds_have_several_classes(training, folds):
    assert Classes(training, 100).folds == folds


def test_what_cannot_be_known():
    assert Classes(4, 5).unknown == ()
    (method,) = Classes(3, 5).unknown
    assert method.startswith("which method is best: 3 classes")
    (training,) = Classes(4, 1).unknown
    assert training.startswith("whether training helps on classes it has not seen: 1 class ")
    assert len(Classes(0, 0).unknown) == 2
