"""Archives: a resumable download over HTTP, and unpacking that never leaves the target folder."""

import hashlib
import http.client
import shutil
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path

from lookalike.errors import BadInput, LookalikeError
from lookalike.files import is_bomb, open_regular

DownloadProgress = Callable[[int, int | None], None]

_CHUNK = 1 << 20
_TIMEOUT_SECONDS = 60
_MAX_FAILURES = 3
_RETRIED = (http.HTTPStatus.REQUEST_TIMEOUT, http.HTTPStatus.TOO_MANY_REQUESTS)
_MAC_METADATA = "__MACOSX/"


def download(
    url: str,
    target: Path,
    md5: str | None = None,
    progress: DownloadProgress | None = None,
    pause_seconds: float = 1.0,
) -> bool:
    """Download ``url`` to ``target``, which exists only when complete and with the right checksum.

    A partial download is kept in ``target`` + ".part"; a later call, or a retry after a broken
    connection, requests the rest only. The server's version tag is kept beside it, so that parts of
    two versions are never joined. Returns False if ``target`` existed already.
    """
    if target.exists():
        if md5 is not None and (found := _md5(target)) != md5:
            raise LookalikeError(
                f"{target} has the wrong checksum (MD5 {found}, expected {md5}); remove it"
            )
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    failures = 0
    while True:
        before = _size(part)
        try:
            _fetch_rest(url, part, progress, checked_later=md5 is not None)
            break
        except urllib.error.HTTPError as error:
            reason: Exception = error
            if error.code < 500 and error.code not in _RETRIED:
                raise LookalikeError(f"cannot download {url}: {error}") from error
        except (OSError, http.client.HTTPException) as error:
            reason = error
        failures = 0 if _size(part) > before else failures + 1
        if failures >= _MAX_FAILURES:
            raise LookalikeError(
                f"cannot download {url}: {reason}; {_size(part):,} bytes are kept in {part}, "
                "run the same command again to resume"
            ) from reason
        time.sleep(pause_seconds)
    _version_file(part).unlink(missing_ok=True)
    if md5 is not None and (found := _md5(part)) != md5:
        part.unlink()
        raise LookalikeError(
            f"{url} has the wrong checksum (MD5 {found}, expected {md5}); it was thrown away"
        )
    part.replace(target)
    return True


def _fetch_rest(
    url: str, part: Path, progress: DownloadProgress | None, checked_later: bool
) -> None:
    """Append the missing bytes to ``part``; raise if the connection ends too early."""
    have = _size(part)
    version = _version_file(part)
    headers = {"User-Agent": "lookalike", "Accept-Encoding": "identity"}
    if have and version.exists():
        headers |= {"Range": f"bytes={have}-", "If-Range": version.read_text()}
    elif have and checked_later:
        headers |= {"Range": f"bytes={have}-"}
    request = urllib.request.Request(url, headers=headers)
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        if error.headers.get("Content-Range", "").rpartition("/")[2] == str(have):
            return
        part.unlink()
        raise ConnectionError("the server cannot resume from here; starting over") from error
    with response:
        resumes = response.status == http.HTTPStatus.PARTIAL_CONTENT
        if resumes and not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            part.unlink()
            raise ConnectionError("the server sent another part than was asked for")
        have = have if resumes else 0
        length = response.headers.get("Content-Length")
        total = None if length is None else have + int(length)
        tag = response.headers.get("ETag") or response.headers.get("Last-Modified")
        if tag and not tag.startswith("W/"):  # weak tags may not be used to join parts
            version.write_text(tag)
        else:
            version.unlink(missing_ok=True)
        with part.open("ab" if resumes else "wb") as file:
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                have += len(chunk)
                if progress:
                    progress(have, total)
        if total is not None and have < total:
            raise ConnectionError(f"the connection ended after {have:,} of {total:,} bytes")


def _md5(path: Path) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _version_file(part: Path) -> Path:
    return part.with_name(part.name + ".version")


def unpack(archive: Path, target: Path) -> None:
    """Unpack a .tgz, .tar or .zip into ``target``.

    Only regular files and folders inside the target are allowed; a tar with anything else (links,
    devices, absolute paths, "..") is refused whole, of a zip such names are made harmless; and so
    is a content of a hundred times the archive's size. The content is unpacked into a temporary
    folder and moved at the end.
    """
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target, prefix=".unpacking-") as aside:
        try:
            if zipfile.is_zipfile(archive):
                with zipfile.ZipFile(archive) as packed:
                    _check_size(archive, sum(one.file_size for one in packed.infolist()))
                    names = [one for one in packed.namelist() if not one.startswith(_MAC_METADATA)]
                    packed.extractall(aside, names)
            else:
                with tarfile.open(archive) as opened:
                    opened.extractall(aside, filter=_PlainMembers(archive))
        except LookalikeError:
            raise
        except Exception as error:  # readers of archives raise almost any exception
            reason = str(error).partition("\n")[0].rstrip(":") or type(error).__name__
            raise LookalikeError(
                f"cannot unpack {archive}: {reason}; remove it to download it again"
            ) from error
        moves = {entry: target / entry.name for entry in sorted(Path(aside).iterdir())}
        for there in filter(Path.exists, moves.values()):
            raise BadInput(f"{there} is there already; move it away to unpack {archive.name}")
        for entry, final in moves.items():
            shutil.move(entry, final)


class _PlainMembers:
    """The filter of a tar: Python's own for data, without links, and with a limit on the size."""

    def __init__(self, archive: Path) -> None:
        self.archive = archive
        self.unpacked = 0

    def __call__(self, member: tarfile.TarInfo, place: str) -> tarfile.TarInfo:
        self.unpacked += member.size
        _check_size(self.archive, self.unpacked)
        if not (member.isfile() or member.isdir()):
            raise LookalikeError(
                f"refused to unpack {self.archive}: its entry '{member.name}' is neither file nor "
                "folder"
            )
        return tarfile.data_filter(member, place)


def _check_size(archive: Path, unpacked: int) -> None:
    """Refuse an archive whose content is out of all proportion to its own size."""
    if is_bomb(unpacked, _size(archive)):
        raise LookalikeError(
            f"refused to unpack {archive}: its {_size(archive):,} bytes become {unpacked:,} or more"
        )
