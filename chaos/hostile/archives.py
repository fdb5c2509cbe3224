"""Archives that try to leave their folder, to fill the disk, or to be something else than files."""

import gzip
import io
import os
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random

from chaos.hostile.fuzzer import Broken, Fuzzer, Input
from chaos.hostile.mutation import mutated
from lookalike.data.archives import unpack

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


class Archives(Fuzzer):
    """Through ``unpack``: whatever an archive says, files land in the target, or nowhere."""

    name = "archives"
    count = 100
    megabytes = 1500

    def inputs(self, random: Random, folder: Path) -> Iterator[Input]:
        """Archives of a few members, most of them with a trick."""
        for number in range(10**9):
            place = folder / str(number)
            (place / "target").mkdir(parents=True)
            kind = random.choice(("zip", "tar", "tgz"))
            draw = random.random()
            if draw < 0.03:
                trick, data, refuse = "bomb", bomb(random, kind), True
            else:
                names, trick = members(random)
                refuse = trick in ("outside", "special")
                writer = zipped if kind == "zip" else tarred
                data = writer(random, names, trick == "special", place)
                if kind == "tgz":
                    data = gzip.compress(data, 1)
                if random.random() < 0.3:
                    data, refuse, trick = mutated(random, data), False, "damaged"
            yield Input(f"{trick} {kind}", partial(unpacked, place, data), refuse, data)


def members(random: Random) -> tuple[list[str], str]:
    """Names of members, and the trick that one of them plays."""
    names = [random.choice(PLAIN) for _ in range(random.randrange(1, 6))]
    trick = random.choice(("plain", "outside", "special", "odd", "twice"))
    place = random.randrange(len(names) + 1)
    if trick == "outside":
        names.insert(place, random.choice(OUTSIDE))
    elif trick == "odd":
        names.insert(place, random.choice(ODD))
    elif trick == "twice":
        names += names
    return names, trick


def zipped(random: Random, names: list[str], special: bool, _: Path) -> bytes:
    """A zip archive; ``special``: one of its members is a link or a device."""
    out = io.BytesIO()
    chosen = random.randrange(len(names))
    with zipfile.ZipFile(out, "w") as archive:
        for number, name in enumerate(names):
            info = zipfile.ZipInfo("x")
            info.filename = name
            info.compress_type = random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
            kind = stat.S_IFREG
            if special and number == chosen:
                kind = random.choice((stat.S_IFLNK, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO))
            info.external_attr = (kind | 0o777) << 16
            archive.writestr(info, b"../../evil" if kind == stat.S_IFLNK else random.randbytes(50))
    return out.getvalue()


def tarred(random: Random, names: list[str], special: bool, place: Path) -> bytes:
    """A tar archive; ``special``: one of its members is a link or a device."""
    out = io.BytesIO()
    chosen = random.randrange(len(names))
    form = random.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT))
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for number, name in enumerate(names):
            info = tarfile.TarInfo(name)
            data = random.randbytes(random.choice((0, 50, 700)))
            info.mode = random.choice((0o644, 0o7777, 0))
            if special and number == chosen:
                info.type = random.choice(SPECIAL)
                info.linkname = random.choice(
                    ("/etc/passwd", "../../evil", str(place / "victim"), "a.txt", "")
                )
                data = b""
            elif name.endswith("/"):
                info.type, data = tarfile.DIRTYPE, b""
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def bomb(random: Random, kind: str) -> bytes:
    """Much more than it seems."""
    size = random.choice((200, 400)) * 2**20
    out = io.BytesIO()
    if kind == "zip":
        with (
            zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed,
            packed.open("0", "w") as file,
        ):
            for _ in range(size >> 20):
                file.write(bytes(2**20))
        return out.getvalue()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as archive:
        for number in range(size >> 24):
            info = tarfile.TarInfo(str(number))
            info.size = 2**24
            archive.addfile(info, io.BytesIO(bytes(2**24)))
    return out.getvalue()


def unpacked(place: Path, data: bytes) -> None:
    """Unpack it, and look for what is where it must not be."""
    archive, target = place / "archive", place / "target"
    archive.write_bytes(data)
    victim = place / "victim"
    victim.write_text("untouched")
    try:
        unpack(archive, target)
    finally:
        check(place, victim)


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
