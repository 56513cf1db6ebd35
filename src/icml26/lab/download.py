"""Fetch a pinned file once, and never half of it.

A file counts as fetched only under its final name, and it gets that name only after its SHA-256 was
compared with the one written in the code. Everything before lives in a `.part` file beside it, from
which a cut transfer goes on where it stopped.

Environment: `ICML26_CACHE` moves the cache, `ICML26_OFFLINE=1` forbids the network.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import http.client
import os
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import icml26
from icml26.lab.progress import bar as progress_bar

__all__ = ["ChecksumError", "OfflineError", "cache_dir", "download", "offline", "sha256_of"]

_CHUNK = 1 << 18
_ATTEMPTS = 4
# What is wrong with the disk here, which no other attempt heals; not every system knows quotas.
_LOCAL = {errno.ENOSPC, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EISDIR}
_LOCAL |= {getattr(errno, "EDQUOT", errno.ENOSPC)}
_SHA256 = re.compile(r"[0-9a-f]{64}")


class OfflineError(RuntimeError):
    """The file is not in the cache and cannot be fetched; the message says how to put it there by hand."""


class ChecksumError(RuntimeError):
    """What arrived is not the pinned file."""


def cache_dir() -> Path:
    """The folder for everything fetched: `$ICML26_CACHE`, or `~/.cache/icml26`. Created when missing."""
    chosen = os.environ.get("ICML26_CACHE")
    folder = Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "icml26"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def offline() -> bool:
    """True iff `ICML26_OFFLINE` forbids the network (anything but empty, `0`, `false` and `no` does)."""
    return os.environ.get("ICML26_OFFLINE", "").strip().lower() not in ("", "0", "false", "no")


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes, as 64 lower-case hex digits."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def checked_sha256(sha256: str) -> str:
    """`sha256` in lower case; ValueError unless it is 64 hex digits."""
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256.lower()):
        raise ValueError(f"sha256: got {sha256!r}, expected 64 hex digits")
    return sha256.lower()


def safe_relative(name: str, argument: str = "name") -> PurePosixPath:
    """`name` as a relative path that stays inside its folder on every operating system.

    ValueError for an absolute path, a drive, a backslash, a `..` or `.` part, a control character or
    an empty name.
    """
    path = PurePosixPath(name)
    parts = name.split("/")
    bad = (
        not name
        or "\\" in name
        or path.is_absolute()
        or bool(PureWindowsPath(name).drive)
        or any(part in ("", ".", "..") for part in parts)
        or any(ord(character) < 32 or character == "\x7f" for character in name)
    )
    if bad:
        raise ValueError(
            f"{argument}: got {name!r}, expected a relative path below the cache folder, "
            "parts joined by '/', without '..'"
        )
    return path


@contextlib.contextmanager
def locked(key: str) -> Iterator[None]:
    """Hold the cache's lock called `key`, so that of two processes one works and the other waits.

    The operating system lets go of it when its holder dies, so there are no stale locks. On a file
    system without locks this does nothing: the atomic renames still keep half a file from being seen.
    """
    folder = cache_dir() / ".locks"
    folder.mkdir(exist_ok=True)
    with (folder / hashlib.sha256(key.encode()).hexdigest()[:32]).open("a+b") as handle:
        with contextlib.suppress(OSError):
            _lock(handle.fileno())
        yield  # closing the handle unlocks


def _lock(descriptor: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        while True:
            try:
                return msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)  # waits ten seconds at most
            except OSError as error:
                if error.errno != errno.EDEADLOCK:
                    raise
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)


def download(
    url: str, *, sha256: str, name: str, size: int | None = None, licence: str | None = None
) -> Path:
    """The file behind `url` in the cache, fetched at most once.

    Parameters
    ----------
    url : an http or https address, pinned to one revision.
    sha256 : 64 hex digits of the whole file. A file that differs never gets its final name.
    name : where it goes below `cache_dir()`, for example `"uci/yacht.csv.gz"`.
    size : bytes, when known: a longer or shorter file is refused, and a much too long one early.
    licence : one line, printed when the file is fetched (not when it is found).

    Returns the path. A cached file is checked again on every call and refetched when it is damaged.
    A cut transfer is resumed with a Range request, here and in the next call; a server that ignores
    Range is read from the start.

    Raises ValueError (url, sha256, name, size), OfflineError (no network, or forbidden by
    `ICML26_OFFLINE=1`; says where to put the file by hand), ChecksumError (wrong bytes).
    """
    wanted = checked_sha256(sha256)
    scheme = urllib.parse.urlsplit(url).scheme
    if scheme not in ("http", "https"):
        raise ValueError(f"url: got {url!r}, expected an http or https address")
    if size is not None and (isinstance(size, bool) or size < 0):
        raise ValueError(f"size: got {size!r}, expected a number of bytes >= 0 or None")
    final = cache_dir() / safe_relative(name)
    if _good(final, wanted):
        return final
    by_hand = f"To do it by hand, save {url} as {final} (sha256 {wanted})."
    if offline():
        raise OfflineError(f"{name} is not in the cache and ICML26_OFFLINE forbids fetching it. {by_hand}")
    final.parent.mkdir(parents=True, exist_ok=True)
    with locked(f"download {name}"):
        if _good(final, wanted):  # the other process fetched it while we waited
            return final
        if licence:
            print(f"fetching {name} ({licence})")
        part = final.with_name(f"{final.name}.{wanted[:8]}.part")
        resumed = part.exists()
        got = _fetch(url, part, size, by_hand, name)
        if got != wanted and resumed:  # what an earlier run left was damaged: once more, from the start
            part.unlink()
            got = _fetch(url, part, size, by_hand, name)
        if got != wanted:
            part.unlink()
            raise ChecksumError(
                f"{name}: {url} gave a file with sha256 {got}, expected {wanted}. "
                "It was thrown away; the source has changed or the transfer was tampered with."
            )
        length = part.stat().st_size
        if size is not None and length != size:
            part.unlink()
            raise ChecksumError(
                f"{name}: the file has {length} bytes, expected {size}; its sha256 is right, so mend `size`"
            )
        os.replace(part, final)
    return final


def _good(path: Path, sha256: str) -> bool:
    return path.is_file() and sha256_of(path) == sha256


def _fetch(url: str, part: Path, size: int | None, by_hand: str, name: str) -> str:
    """Bring `part` to its full length, going on where it stops; returns its SHA-256.

    Gives up after a few attempts in a row that brought nothing.
    """
    failures = 0
    while True:
        before = part.stat().st_size if part.exists() else 0
        if size is not None and before > size:
            part.unlink()
            continue
        if size is not None and before == size and before > 0:
            return sha256_of(part)
        try:
            _transfer(url, part, before, size, name)
            return sha256_of(part)
        except urllib.error.HTTPError as error:
            if error.code == 416 and before:  # nothing is left after our offset: whole, or not ours
                _settle_416(part, error.headers.get("Content-Range"), before)
                if part.exists():
                    return sha256_of(part)
                continue
            if error.code < 500 and error.code not in (408, 429):
                raise OfflineError(
                    f"{name}: {url} answered {error.code} {error.reason}. {by_hand}"
                ) from error
            cause: Exception = error
        except (OSError, http.client.HTTPException) as error:
            if getattr(error, "errno", None) in _LOCAL and not isinstance(error, urllib.error.URLError):
                raise  # of the file here, not of the connection: urlopen wraps its own
            cause = error
        after = part.stat().st_size if part.exists() else 0
        failures = 0 if after > before else failures + 1
        if failures >= _ATTEMPTS or _hopeless(cause):
            raise OfflineError(
                f"{name}: no connection to {url} ({getattr(cause, 'reason', None) or cause}). {by_hand} "
                f"{after} bytes are kept, and the next call goes on from there."
            ) from cause
        time.sleep(min(0.1 * 2**failures, 5.0))


def _hopeless(cause: Exception) -> bool:
    """A refused connection or an unknown host will not heal in a second."""
    reason = getattr(cause, "reason", cause)
    return isinstance(reason, ConnectionRefusedError) or type(reason).__name__ == "gaierror"


def _settle_416(part: Path, content_range: str | None, length: int) -> None:
    """Keep `part` only if the server says that the file is exactly as long as what we have."""
    if content_range != f"bytes */{length}":
        part.unlink()


def _transfer(url: str, part: Path, offset: int, size: int | None, name: str) -> None:
    """One request: append to `part` from `offset`, or start again when the server ignores Range."""
    request = urllib.request.Request(url, headers={"User-Agent": f"icml26/{icml26.__version__}"})
    if offset:
        request.add_header("Range", f"bytes={offset}-")
    with urllib.request.urlopen(request, timeout=60) as answer:
        start = _start(answer, offset)
        with part.open("r+b" if start else "wb") as file:
            file.seek(start)
            file.truncate()
            _copy(answer, file, start, size, part, name)


def _start(answer: Any, offset: int) -> int:
    """Where the answer's first byte belongs: `offset` for a matching 206, else the beginning."""
    if answer.status != 206:
        return 0
    match = re.fullmatch(r"bytes (\d+)-\d+/(?:\d+|\*)", answer.headers.get("Content-Range", ""))
    if not match or int(match[1]) != offset:
        raise http.client.HTTPException(
            f"asked for bytes from {offset}, the server sent {answer.headers.get('Content-Range')!r}"
        )
    return offset


def _copy(answer: Any, file: Any, start: int, size: int | None, part: Path, name: str) -> None:
    declared = answer.headers.get("Content-Length")
    total = start + int(declared) if declared and declared.isdigit() else None
    if size is not None and total is not None and total != size:
        file.close()
        part.unlink()
        raise ChecksumError(f"{name}: the server declares {total} bytes, expected {size}. Nothing was kept.")
    have = start
    with progress_bar(name, total, start, "B") as bar:
        while chunk := answer.read(_CHUNK):
            have += len(chunk)
            if size is not None and have > size:
                file.close()
                part.unlink()
                raise ChecksumError(f"{name}: more than the expected {size} bytes came. Nothing was kept.")
            file.write(chunk)
            bar.update(len(chunk))
    expected = total if total is not None else size
    if expected is not None and have < expected:  # http.client says nothing when a read with a length is cut
        raise http.client.HTTPException(f"the connection was cut after {have} of {expected} bytes")
