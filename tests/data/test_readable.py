import pytest

from lookalike.data import load, open_store
from lookalike.errors import BadInput


@pytest.fixture
def with_a_broken_one(tmp_path, save_image):
    for i in range(6):
        save_image(tmp_path / "abc"[i // 2] / f"{i}.png", seed=i)
    (tmp_path / "b" / "2.png").write_text("no picture")
    return tmp_path


def test_a_run_stops_unless_told_to_skip(with_a_broken_one, own_cache):
    with pytest.raises(BadInput, match=r"1 image of 'folder' cannot be read: b/2\.png"):
        open_store(load("folder", with_a_broken_one), 16)
    images = load("folder", with_a_broken_one, skip_unreadable=True)
    assert images.unreadable == ("b/2.png",)
    assert images.files == ("a/0.png", "a/1.png", "b/3.png", "c/4.png", "c/5.png")
    assert images.labels.tolist() == [0, 0, 1, 2, 2]
    assert len(open_store(images, 16)) == 5


def test_the_finding_is_kept_until_a_file_changes(with_a_broken_one, own_cache, save_image):
    first = load("folder", with_a_broken_one, skip_unreadable=True)
    kept = set(own_cache.glob("unreadable-folder-*"))
    again = load("folder", with_a_broken_one, skip_unreadable=True)
    assert again.fingerprint == first.fingerprint
    assert set(own_cache.glob("unreadable-folder-*")) == kept
    save_image(with_a_broken_one / "b" / "2.png")
    assert load("folder", with_a_broken_one, skip_unreadable=True).unreadable == ()


def test_all_readable_changes_nothing(tmp_path, save_image):
    save_image(tmp_path / "a" / "1.png")
    plain, checked = load("folder", tmp_path), load("folder", tmp_path, skip_unreadable=True)
    assert checked.fingerprint == plain.fingerprint
    assert checked.unreadable == ()
