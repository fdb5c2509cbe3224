import hashlib
import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from lookalike.data.archives import download, unpack
from lookalike.errors import BadInput, LookalikeError

BODY = bytes(range(256)) * 12_000  # three chunks of a megabyte
MD5 = hashlib.md5(BODY).hexdigest()


@pytest.fixture
def fetch(site, tmp_path):
    site.files["a.tgz"] = BODY
    target = tmp_path / "deep" / "a.tgz"

    def run(**options):
        return download(f"{site.url}/a.tgz?download=1", target, pause_seconds=0, **options)

    return run, target


def only(target):
    """Nothing else lies beside the file."""
    return [entry.name for entry in target.parent.iterdir()] == [target.name]


def test_fetches_with_progress(fetch):
    run, target = fetch
    seen = []
    assert run(md5=MD5, progress=lambda done, total: seen.append((done, total)))
    assert target.read_bytes() == BODY
    assert seen[-1] == (len(BODY), len(BODY))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert only(target)


def test_what_is_there_is_not_fetched_again(fetch, site):
    run, target = fetch
    run(md5=MD5)
    assert not run(md5=MD5)
    assert len(site.asked) == 1
    target.write_bytes(b"something else")
    with pytest.raises(LookalikeError, match=r"wrong checksum.*remove it"):
        run(md5=MD5)
    assert target.exists()


def test_a_broken_connection_is_taken_up_where_it_broke(fetch, site):
    run, target = fetch
    site.cut_after = [1_000_000, 500_000]
    run(md5=MD5)
    assert target.read_bytes() == BODY
    assert site.asked == [None, "bytes=1000000-", "bytes=1500000-"]
    assert only(target)


def test_a_later_call_goes_on(fetch, site):
    run, target = fetch
    site.cut_after = [700_000, 0, 0, 0]
    with pytest.raises(LookalikeError, match=r"700,000 bytes are kept.*run the same command again"):
        run()
    assert not target.exists()
    run()
    assert site.asked[-1] == "bytes=700000-"
    assert target.read_bytes() == BODY


def test_a_server_without_ranges_starts_over(fetch, site):
    run, target = fetch
    site.ranges = False
    site.cut_after = [1_000_000]
    run(md5=MD5)
    assert target.read_bytes() == BODY
    assert len(site.asked) == 2


def test_two_versions_are_never_joined(fetch, site):
    run, target = fetch
    site.cut_after = [1_000_000, 0, 0, 0]
    with pytest.raises(LookalikeError):
        run()
    site.files["a.tgz"], site.etag = BODY[::-1], '"two"'
    run()
    assert target.read_bytes() == BODY[::-1]


@pytest.mark.parametrize("etag", [None, 'W/"weak"'])
def test_without_a_mark_only_a_checksum_allows_to_go_on(fetch, site, etag):
    run, target = fetch
    site.etag = etag
    site.cut_after = [1_000_000]
    run(md5=MD5)
    assert site.asked[-1] == "bytes=1000000-"
    target.unlink()
    site.cut_after = [1_000_000]
    run()
    assert site.asked[-1] is None
    assert target.read_bytes() == BODY


def test_a_complete_part_is_recognised(fetch, site):
    run, target = fetch
    target.parent.mkdir()
    target.with_name("a.tgz.part").write_bytes(BODY)
    run(md5=MD5)
    assert site.asked == [f"bytes={len(BODY)}-"]
    assert target.read_bytes() == BODY


def test_a_part_that_is_too_long_is_thrown_away(fetch):
    run, target = fetch
    target.parent.mkdir()
    target.with_name("a.tgz.part").write_bytes(BODY + b"more")
    run(md5=MD5)
    assert target.read_bytes() == BODY


def test_another_part_than_asked_for_is_not_taken(fetch, site):
    run, target = fetch
    site.cut_after, site.shift = [1_000_000], 7
    run(md5=MD5)
    assert target.read_bytes() == BODY


def test_a_wrong_checksum_throws_the_file_away(fetch):
    run, target = fetch
    with pytest.raises(LookalikeError, match=f"MD5 {MD5}, expected 0000"):
        run(md5="0000")
    assert list(target.parent.iterdir()) == []


def test_refusals_are_told_at_once(fetch, site):
    run, _ = fetch
    site.status = 403
    with pytest.raises(LookalikeError, match=r"cannot download http.*403"):
        run()
    assert len(site.asked) == 1


def test_a_server_in_trouble_is_asked_again(fetch, site):
    run, _ = fetch
    site.status = 503
    with pytest.raises(LookalikeError, match="503"):
        run()
    assert len(site.asked) == 3


def test_nobody_there(tmp_path):
    with pytest.raises(LookalikeError, match="cannot download"):
        download("http://127.0.0.1:9/x", tmp_path / "x", pause_seconds=0)


def make_tar(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def make_zip(path: Path, *names: str, mode: int = 0) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, b"data")
    return path


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "in" / "target"


def test_unpacks_tar_and_zip(tmp_path, target):
    unpack(make_tar(tmp_path / "a.tgz", (member("A/b/c.txt"), b"tar")), target)
    unpack(make_zip(tmp_path / "b.zip", "B/c.txt", "__MACOSX/B/._c.txt"), target)
    assert (target / "A/b/c.txt").read_bytes() == b"tar"
    assert (target / "B/c.txt").read_bytes() == b"data"
    assert sorted(entry.name for entry in target.iterdir()) == ["A", "B"]


@pytest.mark.parametrize(
    "evil",
    [
        member("../evil"),
        member("A/../../evil"),
        member("A/link", tarfile.SYMTYPE, "../../.."),
        member("A/link", tarfile.SYMTYPE, "inside"),
        member("A/link", tarfile.LNKTYPE, "/etc/passwd"),
        member("A/pipe", tarfile.FIFOTYPE),
        member("A/device", tarfile.CHRTYPE),
    ],
    ids=lambda info: f"{info.name}>{info.linkname}",
)
def test_an_evil_tar_is_refused_whole(tmp_path, target, evil):
    archive = make_tar(tmp_path / "a.tgz", (member("A/fine.txt"), b"fine"), (evil, b""))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(LookalikeError, match=r"refused to unpack|outside the destination"):
        unpack(archive, target)
    assert sorted(tmp_path.rglob("*")) == sorted([*before, target.parent, target])


@pytest.mark.parametrize("evil", ["../evil", "A/../../evil", "/evil", "..\\evil", "A/link"])
def test_an_evil_zip_leaves_the_target_by_no_name(tmp_path, target, evil):
    unpack(make_zip(tmp_path / "a.zip", "A/fine.txt", evil, mode=stat.S_IFLNK | 0o777), target)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.zip", "in"]
    assert list(target.parent.iterdir()) == [target]
    assert not any(path.is_symlink() for path in target.rglob("*"))


@pytest.mark.parametrize("name", ["a.tgz", "a.zip"])
def test_a_broken_archive_leaves_nothing(tmp_path, target, name):
    if name == "a.tgz":
        data = bytes(range(256)) * 1000
        archive = make_tar(tmp_path / name, (member("A/1"), data), (member("A/2"), data[::-1]))
    else:
        archive = make_zip(tmp_path / name, "A/1", "A/2")
    content = bytearray(archive.read_bytes())
    if name == "a.tgz":
        content = content[: len(content) // 2]
    else:
        content[35:39] = b"DATA"  # the content no longer fits its checksum
    archive.write_bytes(content)
    with pytest.raises(LookalikeError, match="cannot unpack"):
        unpack(archive, target)
    assert list(target.iterdir()) == []


def test_what_is_there_is_not_overwritten(tmp_path, target):
    (target / "A").mkdir(parents=True)
    (target / "A" / "mine").touch()
    with pytest.raises(BadInput, match="is there already"):
        unpack(make_tar(tmp_path / "a.tgz", (member("A/b"), b"")), target)
    assert [entry.name for entry in (target / "A").iterdir()] == ["mine"]


def test_a_bomb_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(150_000_000))
    with tarfile.open(tmp_path / "bomb.tgz", "w:gz") as archive:
        info = tarfile.TarInfo("zeros")
        info.size = 150_000_000
        archive.addfile(info, io.BytesIO(bytes(info.size)))
    for name in ("bomb.zip", "bomb.tgz"):
        with pytest.raises(LookalikeError, match="bytes become 150,000,000 or more"):
            unpack(tmp_path / name, tmp_path / "target")
        assert list((tmp_path / "target").iterdir()) == []


@pytest.mark.parametrize("name", ["", "a/" * 2000 + "b", "x" * 300])
def test_a_name_that_cannot_be_is_one_sentence(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "odd.zip", "w") as archive:
        info = zipfile.ZipInfo("x")
        info.filename = name
        archive.writestr(info, b"1")
    with pytest.raises(LookalikeError, match="cannot unpack") as refused:
        unpack(tmp_path / "odd.zip", tmp_path / "target")
    assert "\n" not in refused.value.args[0]


def test_a_password_and_a_file_of_another_kind_are_one_sentence(tmp_path):
    with zipfile.ZipFile(tmp_path / "locked.zip", "w") as archive:
        archive.writestr("a", b"1")
    data = bytearray((tmp_path / "locked.zip").read_bytes())
    data[6] |= 1  # in the file's header
    data[data.index(b"PK\x01\x02") + 8] |= 1  # and in the directory
    (tmp_path / "locked.zip").write_bytes(data)
    (tmp_path / "text.tgz").write_text("hello")
    for name in ("locked.zip", "text.tgz"):
        with pytest.raises(LookalikeError, match="cannot unpack") as refused:
            unpack(tmp_path / name, tmp_path / "target")
        assert "\n" not in refused.value.args[0]
