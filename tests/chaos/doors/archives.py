"""Archives that try to leave their folder, to fill the disk, or to be something else than files."""

import gzip
import io
import os
import stat
import tarfile
import zipfile
from pathlib import Path

from hypothesis import strategies as st

from lookalike.data.archives import unpack
from tests.chaos.doors.door import Broken, Door, Input, damaged

__all__ = ["Archives"]

PLAIN = ("a.txt", "images/1.jpg", "images/", "deep/er/and/deeper/x", "ünïcode/ß.png", "-rf", "con")
OUTSIDE = (
    *("../evil", "images/../../evil", "/tmp/lookalike-evil", "//evil", "..\\evil", "C:\\evil"),
    *("C:evil", "\\evil", "a/../../../evil", "..", "images/..", "./../evil", "\\\\host\\evil"),
)
ODD = (
    *("", ".", "./", "a\0b", "a" * 300, "a/" * 2000 + "b", "a\nb", " ", "\x1b[2J", "a//b", "nul\0"),
    *("\udcff".encode("utf-8", "surrogateescape").decode("latin-1"), "a.txt/", "a.txt", "images"),
)
SPECIAL = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)
MODES = (stat.S_IFLNK, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO)
LINKS = ("/etc/passwd", "../../evil", "../victim", "a.txt", "")


class Archives(Door):
    """Through ``unpack``: whatever an archive says, files land in the target, or nowhere."""

    name = "archives"
    count = 100
    megabytes = 1500

    def inputs(self) -> st.SearchStrategy[Input]:
        """Archives of a few members, most of them with a trick."""
        return archives()

    def receive(self, sent: Input, folder: Path) -> None:
        """Unpack it, and look for what is where it must not be."""
        archive, target, victim = folder / "archive", folder / "target", folder / "victim"
        target.mkdir()
        archive.write_bytes(sent.content)
        victim.write_text("untouched")
        try:
            unpack(archive, target)
        finally:
            check(folder, victim)


@st.composite
def archives(draw: st.DrawFn) -> Input:
    """A zip, a tar or a compressed tar."""
    kind = draw(st.sampled_from(("zip", "tar", "tgz")))
    trick = draw(st.sampled_from(("plain", "outside", "special", "odd", "twice") * 6 + ("bomb",)))
    if trick == "bomb":
        return Input(f"bomb {kind}", bomb(draw(st.sampled_from((200, 400))), kind), True)
    names = draw(st.lists(st.sampled_from(PLAIN), min_size=1, max_size=5))
    if trick in ("outside", "odd"):
        name = draw(st.sampled_from(OUTSIDE if trick == "outside" else ODD))
        names.insert(draw(st.integers(0, len(names))), name)
    elif trick == "twice":
        names += names
    special = draw(st.sampled_from(names)) if trick == "special" else None
    data = draw((zipped if kind == "zip" else tarred)(names, special))
    if kind == "tgz":
        data = gzip.compress(data, 1)
    if draw(st.integers(0, 9)) < 3:
        return Input(f"damaged {kind}", draw(damaged(data)))
    # a zip is unpacked with its names made harmless, and its links as plain files
    return Input(f"{trick} {kind}", data, trick == "special" and kind != "zip")


@st.composite
def zipped(draw: st.DrawFn, names: list[str], special: str | None) -> bytes:
    """A zip archive, in which one name is a link or a device."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in names:
            info = zipfile.ZipInfo("x")
            info.filename = name
            info.compress_type = draw(st.sampled_from((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))
            kind = draw(st.sampled_from(MODES)) if name == special else stat.S_IFREG
            info.external_attr = (kind | 0o777) << 16
            body = draw(st.binary(max_size=50))
            archive.writestr(info, b"../../evil" if kind == stat.S_IFLNK else body)
    return out.getvalue()


@st.composite
def tarred(draw: st.DrawFn, names: list[str], special: str | None) -> bytes:
    """A tar archive, in which one name is a link or a device."""
    out = io.BytesIO()
    form = draw(st.sampled_from((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)))
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name in names:
            info, body = tarfile.TarInfo(name), draw(st.binary(max_size=700))
            info.mode = draw(st.sampled_from((0o644, 0o7777, 0)))
            if name == special:
                info.type, body = draw(st.sampled_from(SPECIAL)), b""
                info.linkname = draw(st.sampled_from(LINKS))
            elif name.endswith("/"):
                info.type, body = tarfile.DIRTYPE, b""
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))
    return out.getvalue()


def bomb(megabytes: int, kind: str) -> bytes:
    """Much more than it seems."""
    out = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("0", bytes(megabytes * 2**20))
        return out.getvalue()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as archive:
        for number in range(megabytes >> 4):
            info = tarfile.TarInfo(str(number))
            info.size = 2**24
            archive.addfile(info, io.BytesIO(bytes(2**24)))
    return out.getvalue()


def check(place: Path, victim: Path) -> None:
    """Only plain files and folders, and those in the target."""
    beside = {entry.name for entry in place.iterdir()} - {"archive", "target", "victim"}
    if beside or Path("/tmp/lookalike-evil").exists() or (place.parent / "evil").exists():
        raise Broken(f"files outside of the target: {beside}")
    if victim.read_text() != "untouched" or victim.stat().st_nlink != 1:
        raise Broken("a file outside of the target was changed or linked")
    for folder, _, names in os.walk(place / "target"):
        for name in names:
            status = os.lstat(os.path.join(folder, name))
            if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
                raise Broken(f"'{name}' is neither file nor folder")
            if status.st_mode & 0o7000:
                raise Broken(f"'{name}' has the mode {status.st_mode:o}")
