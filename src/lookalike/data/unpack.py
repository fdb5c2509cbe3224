"""Unpacking archives so that nothing leaves the target and nothing is half there."""

import shutil
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

from lookalike.errors import BadInput, LookalikeError

__all__ = ["unpack"]

_MAC_LEFTOVERS = "__MACOSX"


def unpack(archive: Path, target: Path) -> None:
    """Unpack a .tgz, .tar or .zip into ``target``.

    Only ordinary files and folders whose path stays inside are taken; anything else (links,
    devices, absolute paths, "..") refuses the whole archive. The content is unpacked aside and
    moved into place at the end.
    """
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target, prefix=".unpacking-") as aside:
        try:
            if zipfile.is_zipfile(archive):
                _unpack_zip(archive, Path(aside))
            else:
                _unpack_tar(archive, Path(aside))
        except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
            raise LookalikeError(
                f"cannot unpack {archive}: {error}; remove it to download it again"
            ) from error
        entries = sorted(Path(aside).iterdir())
        for entry in entries:
            if (target / entry.name).exists():
                raise BadInput(
                    f"{target / entry.name} is there already; move it away to unpack {archive.name}"
                )
        for entry in entries:
            shutil.move(entry, target / entry.name)


def _unpack_tar(archive: Path, aside: Path) -> None:
    with tarfile.open(archive) as opened:
        opened.extractall(aside, members=_plain_members(archive, opened), filter="data")


def _plain_members(archive: Path, opened: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    for member in opened:
        if not (member.isfile() or member.isdir()):
            raise _refused(archive, member.name, "is neither file nor folder")
        _check_inside(archive, member.name)
        yield member


def _unpack_zip(archive: Path, aside: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            _check_inside(archive, info.filename)
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _refused(archive, info.filename, "is neither file nor folder")
            if PurePosixPath(info.filename).parts[:1] != (_MAC_LEFTOVERS,):
                opened.extract(info, aside)


def _check_inside(archive: Path, name: str) -> None:
    """Refuse a name that could lead out of the target on any system."""
    windows = PureWindowsPath(name)  # splits at both kinds of slash
    if name.startswith(("/", "\\")) or windows.drive or ".." in windows.parts:
        raise _refused(archive, name, "would leave the target folder")


def _refused(archive: Path, name: str, why: str) -> LookalikeError:
    return LookalikeError(f"refused to unpack {archive}: its entry '{name}' {why}")
