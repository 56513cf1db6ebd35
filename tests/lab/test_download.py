"""`lab.download` against a server on this machine that cuts, lies and refuses on request."""

import errno
import hashlib
import http.server
import multiprocessing
import re
import socket
import sys
import threading
import time

import numpy as np
import pytest

from icml26.lab.download import (
    ChecksumError,
    OfflineError,
    cache_dir,
    download,
    locked,
    safe_relative,
    sha256_of,
)

DATA = np.random.default_rng(5).bytes(700_000)
SHA = hashlib.sha256(DATA).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    data = DATA
    ranges = True  # honours Range
    cuts = ()  # cut the i-th answer after so many bytes
    shift = 0  # answers a Range from a wrong place
    delay = 0.0
    status = None
    chunked = False

    def handle_error(self, request, client_address):
        pass  # the client hangs up on purpose


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        server = self.server
        number = len(server.seen)
        asked = self.headers.get("Range")
        server.seen.append(asked)
        time.sleep(server.delay)
        self.close_connection = True
        if server.status:
            self.send_error(server.status)
            return
        start = int(re.fullmatch(r"bytes=(\d+)-", asked)[1]) if asked and server.ranges else 0
        if asked and server.ranges and start >= len(server.data):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(server.data)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = server.data[start:]
        self.send_response(206 if asked and server.ranges else 200)
        if asked and server.ranges:
            first = start + server.shift
            self.send_header("Content-Range", f"bytes {first}-{len(server.data) - 1}/{len(server.data)}")
        if server.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        cut = server.cuts[number] if number < len(server.cuts) else None
        sent = body if cut is None else body[:cut]
        if server.chunked:
            sent = b"%x\r\n" % len(body) + sent + (b"\r\n0\r\n\r\n" if cut is None else b"")
        self.wfile.write(sent)


@pytest.fixture
def server():
    running = Server(("127.0.0.1", 0), Handler)
    running.seen = []
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    running.url = f"http://127.0.0.1:{running.server_address[1]}/file.bin"
    yield running
    running.shutdown()
    running.server_close()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ICML26_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ICML26_OFFLINE", raising=False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "cache"


def files(cache):
    """What a reader would find in the cache, besides the lock files."""
    return sorted(f.name for f in cache.rglob("*") if f.is_file() and ".locks" not in f.parts)


def test_fetched_once(server, cache):
    path = download(server.url, sha256=SHA, name="some/where/file.bin", size=len(DATA))
    assert path == cache / "some/where/file.bin"
    assert path.read_bytes() == DATA
    assert download(server.url, sha256=SHA.upper(), name="some/where/file.bin") == path
    assert server.seen == [None]
    assert files(cache) == ["file.bin"]


def test_the_licence_is_told_when_fetching_only(server, capsys):
    for _ in range(2):
        download(server.url, sha256=SHA, name="a", licence="CC BY 4.0")
    assert capsys.readouterr().out == "fetching a (CC BY 4.0)\n"


@pytest.mark.parametrize("size", [None, len(DATA)])
@pytest.mark.parametrize("chunked", [False, True])
def test_cut_connections_go_on_where_they_stopped(server, size, chunked):
    server.cuts, server.chunked = (300_000, 100_000), chunked
    assert download(server.url, sha256=SHA, name="a", size=size).read_bytes() == DATA
    assert server.seen[0] is None
    starts = [int(asked[6:-1]) for asked in server.seen[1:]]
    assert len(starts) == 2
    assert starts == sorted(starts)
    if not chunked:  # a cut chunk may lose its last bytes, which is why the start is asked for and checked
        assert starts == [300_000, 400_000]


def test_a_server_without_range_is_read_from_the_start(server):
    server.cuts, server.ranges = (300_000,), False
    assert download(server.url, sha256=SHA, name="a").read_bytes() == DATA
    assert server.seen == [None, "bytes=300000-"]


def test_resumed_by_the_next_call(server, cache, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    server.cuts = (200_000, 0, 0, 0, 0, 0)
    with pytest.raises(OfflineError, match="200000 bytes are kept"):
        download(server.url, sha256=SHA, name="a")
    assert not (cache / "a").exists()
    server.cuts, before = (), len(server.seen)
    assert download(server.url, sha256=SHA, name="a").read_bytes() == DATA
    assert server.seen[before:] == ["bytes=200000-"]


def test_a_whole_part_left_behind_is_not_fetched_again(server, cache):
    cache.mkdir()
    (cache / f"a.{SHA[:8]}.part").write_bytes(DATA)
    assert download(server.url, sha256=SHA, name="a").read_bytes() == DATA
    assert server.seen == [f"bytes={len(DATA)}-"]  # answered 416: nothing is left


def test_a_damaged_part_is_fetched_again(server, cache):
    cache.mkdir()
    (cache / f"a.{SHA[:8]}.part").write_bytes(b"x" * 1000)
    assert download(server.url, sha256=SHA, name="a").read_bytes() == DATA
    assert server.seen == ["bytes=1000-", None]


def test_a_too_long_part_is_fetched_again(server, cache):
    cache.mkdir()
    (cache / f"a.{SHA[:8]}.part").write_bytes(b"x" * (len(DATA) + 9))
    assert download(server.url, sha256=SHA, name="a").read_bytes() == DATA
    assert server.seen == [f"bytes={len(DATA) + 9}-", None]


def test_an_answer_from_the_wrong_place_is_not_glued_on(server, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    server.cuts, server.shift = (300_000,), 7
    with pytest.raises(OfflineError, match="asked for bytes from 300000"):
        download(server.url, sha256=SHA, name="a")


def test_wrong_checksum_leaves_nothing(server, cache):
    wrong = hashlib.sha256(b"another").hexdigest()
    with pytest.raises(ChecksumError, match=f"{SHA}, expected {wrong}"):
        download(server.url, sha256=wrong, name="a")
    assert files(cache) == []


@pytest.mark.parametrize("size", [len(DATA) - 1, len(DATA) + 1, 0])
@pytest.mark.parametrize("chunked", [False, True])
def test_wrong_size_leaves_nothing(server, cache, size, chunked, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    server.chunked = chunked
    with pytest.raises(ChecksumError, match=f"expected {size}"):
        download(server.url, sha256=SHA, name="a", size=size)
    assert files(cache) == []


def test_a_damaged_file_in_the_cache_is_fetched_again(server):
    path = download(server.url, sha256=SHA, name="a")
    path.write_bytes(DATA[:-1] + b"?")
    assert download(server.url, sha256=SHA, name="a").read_bytes() == DATA
    assert server.seen == [None, None]


def test_a_damaged_file_survives_as_long_as_nothing_better_came(server, cache):
    path = download(server.url, sha256=SHA, name="a")
    path.write_bytes(b"half of it")
    server.status = 404
    with pytest.raises(OfflineError, match="answered 404"):
        download(server.url, sha256=SHA, name="a")


def by_hand(message, url, path):
    return url in message and str(path) in message and SHA in message


def test_offline_says_what_to_do(server, cache, monkeypatch):
    monkeypatch.setenv("ICML26_OFFLINE", "1")
    with pytest.raises(OfflineError, match="ICML26_OFFLINE") as caught:
        download(server.url, sha256=SHA, name="sub/a")
    assert by_hand(str(caught.value), server.url, cache / "sub/a")
    assert server.seen == []
    (cache / "sub").mkdir()
    (cache / "sub/a").write_bytes(DATA)  # as told
    assert download(server.url, sha256=SHA, name="sub/a").read_bytes() == DATA
    monkeypatch.setenv("ICML26_OFFLINE", "0")
    assert download(server.url, sha256=SHA, name="b").read_bytes() == DATA


def test_no_connection_says_what_to_do(cache):
    with socket.socket() as taken:  # bound and not listening: a connection is refused
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/x"
        began = time.monotonic()
        with pytest.raises(OfflineError, match="no connection") as caught:
            download(url, sha256=SHA, name="a")
    assert by_hand(str(caught.value), url, cache / "a")
    assert time.monotonic() - began < 5
    assert files(cache) == []


def test_a_busy_server_is_asked_again(server, monkeypatch):
    waits = []

    def sleep(seconds):
        if seconds:
            waits.append(seconds)
            server.status = None if len(waits) == 2 else 503

    server.status = 503
    monkeypatch.setattr(time, "sleep", sleep)
    assert download(server.url, sha256=SHA, name="a").read_bytes() == DATA
    assert len(waits) == 2
    assert waits[1] > waits[0]


@pytest.mark.parametrize(
    "name",
    [
        "../a",
        "a/../../b",
        "/etc/passwd",
        "",
        ".",
        "..",
        "a//b",
        "a/./b",
        "C:/a",
        "c:a",
        r"a\b",
        r"\\host\a",
        "a\0b",
    ],
)
def test_path_traversal_is_refused(server, cache, name):
    with pytest.raises(ValueError, match="name: got"):
        download(server.url, sha256=SHA, name=name)
    assert server.seen == []
    assert files(cache) == []


def test_plain_names_are_accepted():
    assert str(safe_relative("uci/yacht..csv.gz")) == "uci/yacht..csv.gz"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sha256": "abc"}, "sha256: got 'abc'"),
        ({"sha256": "g" * 64}, "sha256"),
        ({"size": -1}, "size: got -1"),
        ({"size": True}, "size: got True"),
        ({"url": "file:///etc/passwd"}, "url: got 'file"),
        ({"url": "ftp://x/y"}, "url"),
    ],
)
def test_wrong_arguments_are_named(server, changes, message):
    arguments = {"url": server.url, "sha256": SHA, "name": "a"} | changes
    with pytest.raises(ValueError, match=message):
        download(arguments.pop("url"), **arguments)


def _work(url, barrier, queue):
    barrier.wait()
    path = download(url, sha256=SHA, name="both/a")
    queue.put(sha256_of(path))


def test_two_processes_at_once(server, cache):
    server.delay = 0.2
    context = multiprocessing.get_context("fork")
    barrier, queue = context.Barrier(2), context.Queue()
    workers = [context.Process(target=_work, args=(server.url, barrier, queue)) for _ in range(2)]
    for worker in workers:
        worker.start()
    assert [queue.get(timeout=30) for _ in workers] == [SHA, SHA]
    for worker in workers:
        worker.join(30)
        assert worker.exitcode == 0
    assert files(cache) == ["a"]
    assert len(server.seen) == 1  # the second waited for the first


def _hold(barrier):
    with locked("k"):
        barrier.wait()
        time.sleep(60)


def test_a_dead_process_leaves_no_lock():
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(2)
    holder = context.Process(target=_hold, args=(barrier,))
    holder.start()
    barrier.wait()
    holder.kill()
    holder.join()
    began = time.monotonic()
    with locked("k"):
        assert time.monotonic() - began < 5


def test_cache_dir(tmp_path, monkeypatch):
    monkeypatch.setenv("ICML26_CACHE", str(tmp_path / "new" / "one"))
    assert cache_dir() == tmp_path / "new" / "one"
    assert cache_dir().is_dir()
    monkeypatch.delenv("ICML26_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir() == tmp_path / ".cache" / "icml26"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES])
def test_a_full_or_locked_disk_is_not_called_a_connection(server, monkeypatch, code):
    def fails(*arguments):
        raise OSError(code, "of the disk")

    monkeypatch.setattr(sys.modules[download.__module__], "_copy", fails)
    with pytest.raises(OSError, match="of the disk") as caught:
        download(server.url, sha256=SHA, name="data.bin")
    assert caught.value.errno == code
