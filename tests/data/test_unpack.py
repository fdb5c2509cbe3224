import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from lookalike.data.unpack import unpack
from lookalike.errors import BadInput, LookalikeError


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
        member("/evil"),
        member("C:\\evil"),
        member("..\\evil"),
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
    with pytest.raises(LookalikeError, match="refused to unpack"):
        unpack(archive, target)
    assert sorted(tmp_path.rglob("*")) == sorted([*before, target.parent, target])


@pytest.mark.parametrize("evil", ["../evil", "A/../../evil", "/evil", "C:/evil", "..\\evil"])
def test_an_evil_zip_is_refused_whole(tmp_path, target, evil):
    archive = make_zip(tmp_path / "a.zip", "A/fine.txt", evil)
    with pytest.raises(LookalikeError, match="would leave the target folder"):
        unpack(archive, target)
    assert list(target.iterdir()) == []
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.zip", "in"]


def test_links_in_a_zip_are_refused(tmp_path, target):
    archive = make_zip(tmp_path / "a.zip", "A/link", mode=stat.S_IFLNK | 0o777)
    with pytest.raises(LookalikeError, match="neither file nor folder"):
        unpack(archive, target)


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
