"""Writing files so that a reader, or a crash, never sees half of one, and reading them checked."""

import errno
import io
import json
import os
import re
import secrets
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lookalike.errors import BadInput, LookalikeError

__all__ = [
    "atomically",
    "checksum",
    "damaged",
    "file_checksum",
    "is_bomb",
    "locked",
    "naming",
    "open_regular",
    "parse_json",
    "read_json",
    "read_text",
    "refuse_journal",
    "refuse_links",
    "refuse_packed",
    "seal",
    "unseal",
    "write_json",
    "write_new",
    "write_texts",
]

CHECKSUM = "checksum"
"""The key of a JSON file's own checksum."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The system's numbers of errors for which space has to be freed."""
OF_DISKS = (*FULL, errno.EIO, errno.EROFS)
JOURNAL_NAMED = bytes.fromhex("d9d505f920a163d7")
"""The end of a journal of SQLite that names a second one (https://sqlite.org/fileformat.html)."""
MOST_TEXT_BYTES = 2**28
"""A file with holes may say that it has a terabyte, and take no space."""
MOST_UNPACKED_BYTES, MOST_RATIO = 100_000_000, 100


@contextmanager
def atomically(path: Path) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its place when the block ends without error.

    Raises:
        OSError: Writing failed; it names ``path``.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        name = _new_draft(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    draft = Path(name)
    try:
        with naming(path, name):
            yield draft
            with draft.open("rb") as written:
                os.fsync(written.fileno())
            draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _new_draft(path: Path) -> str:
    """An empty file beside ``path``, which others may read as far as the user's umask lets them."""
    name = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
    return str(name)


@contextmanager
def naming(path: Path, *others: str) -> Iterator[None]:
    """Let a failed write name ``path``: errors of open files, and of writers in C or Rust, do not.

    Args:
        path: What is written.
        others: Names that are replaced by it, such as that of a draft.

    Raises:
        OSError: Writing failed.
    """
    try:
        yield
    except Exception as error:
        number, name = _number_of(error), getattr(error, "filename", None)
        if number is None or (name not in others and (name is not None or number not in OF_DISKS)):
            raise
        raise OSError(number, os.strerror(number), str(path)) from error


def _number_of(error: Exception) -> int | None:
    """The system's number of an error, also of writers that tell it only in words.

    Those are safetensors (in Rust), FAISS, and NumPy, which counts what it could not write.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    text = str(error)
    if isinstance(error, OSError) and re.fullmatch(r"\d+ requested and \d+ written", text):
        return errno.ENOSPC
    if found := re.search(r"\(os error (\d+)\)", text):
        return int(found.group(1))
    return next((number for number in OF_DISKS if f"({os.strerror(number)})" in text), None)


@contextmanager
def locked(path: Path, seconds: float = -1) -> Iterator[bool]:
    """Whether this process has the lock ``path`` while the block runs: one process at a time has.

    It is in the folder of what it guards, or beside it, and stays there. It ends with the process,
    however that ends; a link in its place is refused, and nothing is written to it.

    Args:
        path: The file of the lock; its folder is created.
        seconds: How long to wait for it; by default as long as it takes.

    Yields:
        False: another process had it for all this time.
    """
    from filelock import FileLock, Timeout  # with torch's own imports, not with every command

    lock = FileLock(path, timeout=seconds, poll_interval=0.005, fallback_to_soft=False)
    while not lock.is_locked:
        try:
            with suppress(FileNotFoundError):  # who had it before has removed the empty folder
                path.parent.mkdir(parents=True, exist_ok=True)
                lock.acquire()
        except FileExistsError:  # it was removed between two steps of creating it, unless:
            if path.parent.is_file() or path.parent.is_symlink():
                raise
        except Timeout:
            yield False
            return
    try:
        yield True
    finally:
        lock.release()


def refuse_links(folder: Path) -> None:
    """Refuse to write into a folder with symbolic links: what they lead to is elsewhere.

    Args:
        folder: It may be a link itself: the user named it.

    Raises:
        BadInput: There is a link inside, or a journal that :func:`refuse_journal` refuses; the
            sentence names it.
    """
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            refuse_journal(Path(parent, name))
            if (path := Path(parent, name)).is_symlink():
                raise BadInput(
                    f"'{path}' is a symbolic link, and nothing is written through links that are "
                    "inside of a folder: remove it, or put in its place what it leads to"
                )


def refuse_journal(path: Path) -> None:
    """Refuse a journal of SQLite that names a second one, of a change of several databases.

    We never make one, and SQLite would remove the file of that name, wherever it is.

    Raises:
        BadInput: It does.
        OSError: It cannot be read.
    """
    if not path.name.endswith("-journal") or not path.is_file():
        return
    with open_regular(path) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - len(JOURNAL_NAMED)))
        if file.read() == JOURNAL_NAMED:
            raise BadInput(
                f"'{path}' names another file, which SQLite would remove; no database of a study "
                "has such a journal: remove it"
            )


def checksum(*parts: Any) -> str:
    """The CRC-32 of bytes, text or contiguous arrays, one after another, as eight hex digits.

    >>> checksum(b"12345", "6789")
    'cbf43926'
    """
    value = 0
    for part in parts:
        value = zlib.crc32(part.encode() if isinstance(part, str) else part, value)
    return f"{value:08x}"


def open_regular(path: Path | str) -> io.FileIO:
    """Open a file to read it, and nothing else: a pipe or a device would be waited for for ever.

    Raises:
        OSError: It is no regular file, or cannot be opened.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return io.FileIO(handle)


def read_text(path: Path | str, errors: str = "strict") -> str:
    """The text of a regular file in UTF-8.

    Args:
        path: The file.
        errors: What becomes of bytes that are not UTF-8, as ``open`` has it.

    Raises:
        OSError: It is no regular file, cannot be opened, or is larger than any text of ours.
        UnicodeDecodeError: It is not UTF-8.
    """
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > MOST_TEXT_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
        return file.readall().decode(errors=errors)


def is_bomb(unpacked: int, packed: int) -> bool:
    """Whether what a file becomes in memory or on disk is out of all proportion to its size.

    >>> is_bomb(5_000_000_000, 40_000), is_bomb(50_000_000, 40_000)
    (True, False)
    """
    return unpacked > max(MOST_UNPACKED_BYTES, MOST_RATIO * packed)


def refuse_packed(path: Path) -> None:
    """Refuse an archive of arrays or tensors that becomes far larger in memory.

    Raises:
        ValueError: It does.
        OSError: It is no regular file, or a damaged archive.
    """
    with io.BufferedReader(open_regular(path)) as file:
        if not zipfile.is_zipfile(file):
            return
        with zipfile.ZipFile(file) as archive:
            unpacked = sum(one.file_size for one in archive.infolist())
        if is_bomb(unpacked, os.fstat(file.fileno()).st_size):
            raise ValueError("what is in it is far larger than the file")


def file_checksum(path: Path) -> str:
    """The :func:`checksum` of a file's content."""
    value = 0
    with open_regular(path) as file:
        while block := file.read(1 << 20):
            value = zlib.crc32(block, value)
    return f"{value:08x}"


def write_json(path: Path, value: Any, *, sealed: bool = False) -> None:
    """Write ``value`` as readable JSON, whole or not at all.

    Args:
        path: The file.
        value: What JSON can express.
        sealed: Add a checksum, which :func:`read_json` compares; ``value`` must be a mapping.
    """
    if sealed:
        value = seal(value)
    with atomically(path) as draft:
        draft.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_new(path: Path, text: str) -> None:
    """Write ``text`` whole, unless the file is there: of several writers the first one wins."""
    draft = _new_draft(path)
    try:
        with open(draft, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(draft, path)  # unlike a renaming, this never replaces a file
    finally:
        os.unlink(draft)


def seal(value: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping with its own checksum, as :func:`read_json` compares it."""
    return {**value, CHECKSUM: checksum(_canonical(value))}


def unseal(value: Any) -> Any:
    """What :func:`seal` was given; a value without a checksum is returned as it is.

    Raises:
        ValueError: It is not as it was sealed.
    """
    if not isinstance(value, dict) or CHECKSUM not in value:
        return value
    plain = {key: one for key, one in value.items() if key != CHECKSUM}
    if value[CHECKSUM] != checksum(_canonical(plain)):
        raise ValueError("the checksum differs")
    return plain


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text that may be anything.

    Raises:
        ValueError: It is not JSON, is nested too deep, or has a number of more than 64 bits.
    """
    try:
        return json.loads(text, parse_int=_whole_number)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _whole_number(digits: str) -> int:
    """An integer that a float can hold as well: few libraries take a larger one."""
    number = int(digits) if len(digits) < 30 else 2**64
    if not -(2**64) < number < 2**64:
        raise ValueError(f"the number {digits[:20]}... has more than 64 bits")
    return number


def read_json(path: Path) -> Any:
    """The content of a JSON file, without its checksum.

    Raises:
        LookalikeError: It cannot be read, or it is not as it was written.
    """
    try:
        value = parse_json(read_text(path))
    except (OSError, ValueError) as error:
        raise LookalikeError(f"cannot read '{path}': {error}") from error
    try:
        return unseal(value)
    except ValueError as error:
        raise damaged(path) from error


def damaged(path: Path) -> LookalikeError:
    """The error for a file that is not as it was written."""
    return LookalikeError(
        f"'{path}' is damaged: it is not what was written; restore it, or remove it and run again "
        "what made it"
    )


def _canonical(value: Any) -> str:
    """One text for equal values, whatever the spaces and the order of keys in the file."""
    return json.dumps(json.loads(json.dumps(value)), sort_keys=True)


def write_texts(path: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write a text for each suffix of ``path``, each whole or not at all; the paths in order.

    What UTF-8 cannot encode becomes a question mark.
    """
    written = []
    for suffix, text in texts.items():
        written.append(path.with_suffix(suffix))
        with atomically(written[-1]) as draft:
            draft.write_text(text, encoding="utf-8", errors="replace")
    return written
