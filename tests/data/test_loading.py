import hashlib
import shutil
import tarfile
from pathlib import Path

import pytest

from lookalike.data import Counts, load, open_store, prepare
from lookalike.data.loading import Archive
from lookalike.data.official import cars, cub
from lookalike.errors import BadInput, LookalikeError

TINY = Counts(4, 4, 2, 2)


def packed(folder: Path, inner: str) -> bytes:
    """``folder/inner`` as a .tgz; the folder is removed."""
    path = folder / "packed.tgz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder / inner, inner)
    data = path.read_bytes()
    path.unlink()
    shutil.rmtree(folder / inner)
    return data


@pytest.fixture
def cub_site(site, tiny_cub):
    """A server with a tiny CUB archive, and the table that points there."""
    data = packed(tiny_cub, "CUB_200_2011")
    site.files["CUB_200_2011.tgz"] = data
    url = f"{site.url}/CUB_200_2011.tgz?download=1"
    archive = Archive(url, md5=hashlib.md5(data).hexdigest())
    return {"sources": {"cub": (archive,)}, "read": lambda root: cub(root, TINY)}


def test_downloads_unpacks_and_reads(cub_site, site, tmp_path):
    root = tmp_path / "new"
    seen = []
    images = prepare("cub", root, lambda *step: seen.append(step), **cub_site)
    size = len(site.files["CUB_200_2011.tgz"])
    assert seen[-1] == ("CUB_200_2011.tgz", size, size)
    assert Counts.of(images) == TINY
    assert images.decode(0).shape == (20, 24, 3)
    assert [entry.name for entry in root.iterdir()] == ["CUB_200_2011"]
    again = prepare("cub", root, **cub_site)
    assert again.fingerprint == images.fingerprint
    assert len(site.asked) == 1


def test_goes_on_after_an_interruption(cub_site, site, tmp_path):
    def interrupt(*_):
        raise KeyboardInterrupt

    site.cut_after = [500]
    with pytest.raises(KeyboardInterrupt):
        prepare("cub", tmp_path / "new", interrupt, **cub_site)
    prepare("cub", tmp_path / "new", **cub_site)
    assert site.asked == [None, "bytes=500-"]


def test_an_archive_put_there_by_hand_is_used_and_kept(cub_site, site, tmp_path):
    root = tmp_path / "new"
    root.mkdir()
    (root / "CUB_200_2011.tgz").write_bytes(site.files["CUB_200_2011.tgz"])
    prepare("cub", root, **cub_site)
    assert site.asked == []
    assert (root / "CUB_200_2011.tgz").exists()


def test_a_wrong_checksum_unpacks_nothing(cub_site, site, tmp_path):
    site.files["CUB_200_2011.tgz"] += b"!"
    with pytest.raises(LookalikeError, match="wrong checksum"):
        prepare("cub", tmp_path / "new", **cub_site)
    assert list((tmp_path / "new").iterdir()) == []


def test_an_incomplete_data_set_is_not_overwritten(cub_site, tmp_path):
    root = tmp_path / "new"
    (root / "CUB_200_2011").mkdir(parents=True)
    with pytest.raises(BadInput, match="is there already; move it away"):
        prepare("cub", root, **cub_site)


def test_several_files_and_a_mirror(site, tiny_cars, tmp_path):
    site.files["mirror/cars_annos.mat"] = (tiny_cars / "cars196" / "cars_annos.mat").read_bytes()
    site.files["mirror/car_ims.tgz"] = packed(tiny_cars / "cars196", "car_ims")
    mirror = f"{site.url}/mirror/"
    images = prepare("cars", tmp_path / "new", base_url=mirror, read=lambda root: cars(root, TINY))
    assert len(images) == 8
    home = tmp_path / "new" / "cars196"
    assert sorted(entry.name for entry in home.iterdir()) == ["car_ims", "cars_annos.mat"]


def test_what_cannot_be_downloaded_is_said(tmp_path):
    with pytest.raises(BadInput, match=f"list_eval_partition.txt.*{tmp_path}/InShop_Clothes"):
        prepare("inshop", tmp_path)
    for name in ("folder", "csv"):
        with pytest.raises(BadInput, match="nothing to download"):
            prepare(name, tmp_path)
    with pytest.raises(BadInput, match=r"data\.root is missing"):
        prepare("cub")
    with pytest.raises(BadInput, match="did you mean 'cars'"):
        prepare("carss", tmp_path)
    with pytest.raises(BadInput, match="begins with http"):
        prepare("cub", tmp_path, base_url="mirror")


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
