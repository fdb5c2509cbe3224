"""Fetching one file over HTTP: goes on where it stopped, and is whole or not there."""

import hashlib
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from lookalike.errors import LookalikeError

__all__ = ["download"]

Progress = Callable[[int, int | None], None]

_CHUNK = 1 << 20
_TIMEOUT_SECONDS = 60
_FRUITLESS_TRIES = 3
_TRY_AGAIN = (http.HTTPStatus.REQUEST_TIMEOUT, http.HTTPStatus.TOO_MANY_REQUESTS)


def download(
    url: str,
    target: Path,
    md5: str | None = None,
    progress: Progress | None = None,
    pause_seconds: float = 1.0,
) -> bool:
    """Fetch ``url`` into ``target``, which appears only when complete and with the right checksum.

    What has come so far lies in ``target`` + ".part"; a later call, or a try after a broken
    connection, asks for the rest only. The server's mark of the version is kept beside it, so
    halves of two versions are never joined. Returns False where ``target`` was there already.
    """
    if target.exists():
        if md5 is not None and (found := _md5(target)) != md5:
            raise LookalikeError(
                f"{target} has the wrong checksum (MD5 {found}, expected {md5}); remove it"
            )
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    fruitless = 0
    while True:
        before = _size(part)
        try:
            _fetch_rest(url, part, progress, checked_later=md5 is not None)
            break
        except urllib.error.HTTPError as error:
            reason: Exception = error
            if error.code < 500 and error.code not in _TRY_AGAIN:
                raise LookalikeError(f"cannot download {url}: {error}") from error
        except (OSError, http.client.HTTPException) as error:
            reason = error
        fruitless = 0 if _size(part) > before else fruitless + 1
        if fruitless >= _FRUITLESS_TRIES:
            raise LookalikeError(
                f"cannot download {url}: {reason}; {_size(part):,} bytes are kept in {part}, "
                "run the same command again to go on"
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


def _fetch_rest(url: str, part: Path, progress: Progress | None, checked_later: bool) -> None:
    """Append to ``part`` what it lacks; raise where the connection ends before the file does."""
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
        raise ConnectionError("the server cannot go on from here; starting over") from error
    with response:
        goes_on = response.status == http.HTTPStatus.PARTIAL_CONTENT
        if goes_on and not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            part.unlink()
            raise ConnectionError("the server sent another part than was asked for")
        have = have if goes_on else 0
        length = response.headers.get("Content-Length")
        total = None if length is None else have + int(length)
        mark = response.headers.get("ETag") or response.headers.get("Last-Modified")
        if mark and not mark.startswith("W/"):  # weak marks may not be used to join parts
            version.write_text(mark)
        else:
            version.unlink(missing_ok=True)
        with part.open("ab" if goes_on else "wb") as file:
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                have += len(chunk)
                if progress:
                    progress(have, total)
        if total is not None and have < total:
            raise ConnectionError(f"the connection ended after {have:,} of {total:,} bytes")


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _version_file(part: Path) -> Path:
    return part.with_name(part.name + ".version")
