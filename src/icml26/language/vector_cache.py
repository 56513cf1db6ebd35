"""Vectors on disk by key, in one SQLite file: whole or not there, whoever writes and whenever the power goes."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from jaxtyping import Float

from icml26.lab.download import cache_dir, locked

__all__ = ["VectorCache"]

_SQL = """CREATE TABLE IF NOT EXISTS vectors
    (key BLOB PRIMARY KEY, vector BLOB NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID"""
_ASK = 500  # keys per question; SQLite allows 999 in old versions
_WAIT = 60.0


class VectorCache:
    """float32 vectors of one length in `<cache>/embeddings/<name>.sqlite`.

    `read` leaves out what is missing or damaged. A file that is no database is thrown away. Where SQLite cannot work
    (a read-only cache, a file system without locks), both methods warn and do nothing: the caller computes.
    """

    def __init__(self, name: str, dimension: int) -> None:
        """`name`: letters, digits, `-` and `_`; `dimension` >= 1. ValueError otherwise."""
        if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
            raise ValueError(f"name: got {name!r}, expected letters, digits, '-' and '_'")
        if dimension < 1:
            raise ValueError(f"dimension: got {dimension}, expected >= 1")
        self.path = cache_dir() / "embeddings" / f"{name}.sqlite"
        self.dimension = dimension

    def read(self, keys: Iterable[bytes]) -> dict[bytes, Float[np.ndarray, " d"]]:
        """The whole vectors among `keys`."""
        wanted = list(keys)
        found: dict[bytes, Float[np.ndarray, " d"]] = {}
        if not self.path.exists():
            return found
        with self._healing(), self._open() as database:
            for start in range(0, len(wanted), _ASK):
                part = wanted[start : start + _ASK]
                marks = ",".join("?" * len(part))
                for key, raw, crc in database.execute(
                    f"SELECT key, vector, crc FROM vectors WHERE key IN ({marks})", part
                ):
                    if isinstance(raw, bytes) and len(raw) == 4 * self.dimension and zlib.crc32(key + raw) == crc:
                        found[key] = np.frombuffer(raw, dtype="<f4").astype(np.float32)
        return found

    def write(self, vectors: Mapping[bytes, Float[np.ndarray, " d"]]) -> None:
        """Add or replace vectors, all of them or none. ValueError for another length than `dimension`."""
        rows = []
        for key, vector in vectors.items():
            if vector.shape != (self.dimension,):
                raise ValueError(f"vectors: got the shape {vector.shape}, expected ({self.dimension},)")
            raw = vector.astype("<f4").tobytes()
            rows.append((key, raw, zlib.crc32(key + raw)))
        with self._healing():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._open() as database, database:
                database.execute(_SQL)
                database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with contextlib.closing(sqlite3.connect(self.path, timeout=_WAIT)) as database:
            yield database

    @contextlib.contextmanager
    def _healing(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.OperationalError, OSError) as error:
            warnings.warn(f"{self.path} cannot be used ({error}): vectors are not kept", stacklevel=4)
        except sqlite3.DatabaseError as error:
            warnings.warn(f"{self.path} is damaged ({error}): thrown away", stacklevel=4)
            with locked(f"vectors {self.path.name}"):
                for end in ("", "-journal", "-wal", "-shm"):
                    self.path.with_name(self.path.name + end).unlink(missing_ok=True)
