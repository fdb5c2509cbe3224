import numpy as np
import pytest

from lookalike.data import draw_test_half, load, make_splits
from lookalike.errors import BadInput, LookalikeError


@pytest.fixture
def twenty(image_set):
    """Twenty classes of three images, shuffled; ten for training."""
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(20), 3))
    return image_set([np.zeros((1, 1, 3), np.uint8)] * 60, labels.tolist())


def classes_of(subset):
    return set(subset.images.labels[subset.indices].tolist())


def assert_sound(split, images):
    """Class-disjoint, complete, and labels re-encoded in class order."""
    parts = [split.train, split.final_test()]
    if split.validation is not None:
        parts.append(split.validation)
    found = [classes_of(part) for part in parts]
    assert sum(map(len, found)) == len(set().union(*found)) == 20
    assert sorted(np.concatenate([part.indices for part in parts])) == list(range(60))
    for part in parts:
        assert part.labels.dtype == np.int64
        assert set(part.labels.tolist()) == set(range(part.class_count))
        assert np.array_equal(part.classes[part.labels], images.labels[part.indices])
        assert part.class_names == tuple(f"class {c}" for c in sorted(classes_of(part)))
        assert part.files == tuple(f"{i}.png" for i in part.indices)
    assert classes_of(parts[1]) == set(range(10, 20))


def test_paper_trains_on_the_whole_half(twenty):
    (split,) = make_splits(twenty, "paper")
    assert split.validation is None
    assert classes_of(split.train) == set(range(10))
    assert split.description == "paper: 10 training, 10 test classes"
    assert_sound(split, twenty)


@pytest.mark.parametrize(("ratio", "held_out"), [(0.5, 5), (0.7, 3), (0.8, 2), (0.9, 2), (0.95, 2)])
def test_fixed_validation_holds_classes_out(twenty, ratio, held_out):
    (split,) = make_splits(twenty, "fixed-validation", seed=3, ratio=ratio)
    assert split.validation is not None
    assert split.validation.class_count == held_out
    assert_sound(split, twenty)


@pytest.mark.parametrize("protocol", ["fixed-validation", "cross-validation"])
def test_what_is_drawn_follows_the_seed(twenty, protocol):
    def drawn(seed):
        first = make_splits(twenty, protocol, seed=seed, ratio=0.5, folds=2)[0]
        return frozenset(classes_of(first.validation))

    assert drawn(1) == drawn(1)
    assert len({drawn(seed) for seed in range(10)}) > 4


@pytest.mark.parametrize("order", ["sequential", "random"])
@pytest.mark.parametrize("folds", [2, 3, 4, 5])
def test_every_class_validates_once(twenty, order, folds):
    splits = make_splits(twenty, "cross-validation", seed=1, folds=folds, order=order)
    assert [split.fold for split in splits] == list(range(folds))
    assert all(split.folds == folds for split in splits)
    held = [c for split in splits for c in sorted(classes_of(split.validation))]
    assert sorted(held) == list(range(10))
    if order == "sequential":
        assert held == list(range(10))
    for split in splits:
        assert_sound(split, twenty)


def test_the_test_set_is_handed_out_once(twenty):
    (split,) = make_splits(twenty, "paper")
    with pytest.raises(LookalikeError, match=r"final_test\(\) returns it, once"):
        _ = split.test
    assert len(split.final_test()) == 30
    with pytest.raises(LookalikeError, match="was used already"):
        split.final_test()


def test_query_and_gallery_come_with_the_test_set(image_set):
    query = np.array([0] * 6 + [1, 0] * 3, bool)
    gallery = np.array([0] * 6 + [0, 1] * 3, bool)
    images = image_set(
        [np.zeros((1, 1, 3), np.uint8)] * 12,
        [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5],
        query=query,
        gallery=gallery,
    )
    (split,) = make_splits(images, "fixed-validation", ratio=0.5)
    assert split.train.query is None
    assert split.validation is not None
    assert split.validation.gallery is None
    test = split.final_test()
    assert test.query is not None
    assert test.gallery is not None
    assert test.query.tolist() == [True, False] * 3
    assert test.gallery.tolist() == [False, True] * 3


def test_classes_of_one_image_cannot_be_tested(image_set):
    images = image_set([np.zeros((1, 1, 3), np.uint8)] * 4, [0, 1, 2, 3])
    with pytest.raises(BadInput, match="one image each"):
        make_splits(images, "paper")


def test_a_class_that_lost_all_images_is_no_class(twenty):
    gone = np.flatnonzero(twenty.labels == 4)
    (split,) = make_splits(twenty.without(gone), "paper")
    assert split.train.class_count == 9
    assert split.train.labels.max() == 8


@pytest.mark.parametrize(
    ("protocol", "options", "sentence"),
    [
        ("papers", {}, "did you mean 'paper'"),
        ("fixed-validation", {"ratio": 0.0}, "between 0 and 1"),
        ("fixed-validation", {"ratio": 1.0}, "between 0 and 1"),
        ("fixed-validation", {"ratio": 0.01}, "leave none of 10"),
        ("cross-validation", {"folds": 1}, "must lie between 2 and 5"),
        ("cross-validation", {"folds": 6}, "two of the 10 training classes"),
        ("cross-validation", {"order": "sorted"}, "there is no order 'sorted'"),
    ],
)
def test_wrong_protocols_get_a_sentence(twenty, protocol, options, sentence):
    with pytest.raises(BadInput, match=sentence):
        make_splits(twenty, protocol, **options)


def test_halves_that_overlap_or_are_empty_are_refused(image_set):
    pixels = [np.zeros((1, 1, 3), np.uint8)] * 4
    with pytest.raises(BadInput, match=r"1 class\(es\) in both halves \(the first: 'class 1'\)"):
        make_splits(image_set(pixels, [0, 1, 1, 2], test=np.array([0, 0, 1, 1], bool)), "paper")
    with pytest.raises(BadInput, match="no training classes"):
        make_splits(image_set(pixels, [0] * 4, test=np.ones(4, bool)), "paper")
    with pytest.raises(BadInput, match="no test classes"):
        make_splits(image_set(pixels, [0] * 4, test=np.zeros(4, bool)), "paper")


@pytest.fixture
def marked(image_set):
    """Two images of each class, which ``marks`` puts into train, val or test."""

    def make(*marks):
        part = np.repeat(np.array(marks), 2)
        labels = np.repeat(np.arange(len(marks)), 2).tolist()
        masks = {"test": part == "test", "validation": part == "val"}
        return image_set([np.zeros((1, 1, 3), np.uint8)] * len(labels), labels, **masks)

    return make


def test_classes_named_for_validation_validate(marked):
    images = marked("train", "val", "train", "val", "test", "test", "train")
    (split,) = make_splits(images, "fixed-validation", seed=3)
    assert split.validation.classes.tolist() == [1, 3]
    assert split.train.classes.tolist() == [0, 2, 6]
    (paper,) = make_splits(images.without([0]), "paper")
    assert paper.train.classes.tolist() == [0, 1, 2, 3, 6]


def test_too_few_classes_for_validation_are_refused(marked):
    with pytest.raises(BadInput, match="names 1 of 3 classes for validation"):
        make_splits(marked("train", "val", "train", "test"), "fixed-validation")


def test_classes_of_a_folder_are_drawn_by_the_seed(tmp_path):
    for number in range(20):
        (tmp_path / f"{number:02}").mkdir()
        for image in ("a.png", "b.png"):
            (tmp_path / f"{number:02}" / image).write_bytes(b"")
    images = load("folder", tmp_path)
    alphabetical = set(range(10, 20))
    assert classes_of_mask(images) == alphabetical

    drawn = [draw_test_half(images, seed) for seed in range(5)]
    assert all(len(classes_of_mask(one)) == 10 for one in drawn)
    assert classes_of_mask(drawn[0]) == classes_of_mask(draw_test_half(images, 0)) != alphabetical
    assert len({frozenset(classes_of_mask(one)) for one in drawn}) == 5
    assert {one.fingerprint for one in drawn} == {images.fingerprint}
    kept = draw_test_half(images.without([0, 5]), 0)  # unreadable images change no class
    assert classes_of_mask(kept) == classes_of_mask(drawn[0])


def test_a_split_of_the_data_stays(tmp_path):
    rows = [f"{n}{i}.png,{n},{'test' if n < 4 else 'train'}" for n in range(10) for i in range(2)]
    (tmp_path / "table.csv").write_text("path,label,split\n" + "\n".join(rows))
    images = load("csv", tmp_path / "table.csv")
    assert classes_of_mask(draw_test_half(images, 0)) == set(range(4))
    glyphs = load("glyphs")
    assert draw_test_half(glyphs, 3) is glyphs


def classes_of_mask(images):
    return set(images.labels[images.test].tolist())


def test_a_split_for_tuning_has_no_test_labels(twenty):
    """The labels and names of test images are gone; those of the others are as they were."""
    (split,) = make_splits(twenty, "fixed-validation", ratio=0.5)
    blind = split.for_tuning()
    known = np.isin(twenty.labels, np.arange(10))
    for part in (blind.train, blind.validation):
        assert np.array_equal(part.images.labels[known], twenty.labels[known])
        assert not part.images.labels[~known].any()
        assert [name for name, kept in zip(part.images.files, known, strict=True) if not kept] == [
            ""
        ] * int((~known).sum())
        assert all(part.files)
    with pytest.raises(LookalikeError, match="for tuning"):
        blind.final_test()
