"""Vectors of tools and texts in a file of their own, which may be deleted at any time."""

import hashlib
import sqlite3
import threading
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from gateway.storage.connection import Durability, open_writer
from gateway.storage.files import create_private

FILE = "vectors.db"
MOST_TOOLS = 100_000
MOST_TEXTS = 4_096
"""Vectors of 384 numbers are 1.5 KiB each."""
_WAIT_S = 1.0
_TOOL, _TEXT = "tool", "text"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS vectors (
  layer TEXT NOT NULL,
  model TEXT NOT NULL,
  key TEXT NOT NULL,
  vector BLOB NOT NULL,
  used INTEGER NOT NULL,
  PRIMARY KEY (layer, model, key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS vectors_by_use ON vectors (layer, used);
"""


class SqliteVectors:
    """A `VectorStore` in `vectors.db`; least recently used vectors make room for new ones."""

    def __init__(
        self, data_dir: Path, *, most_tools: int = MOST_TOOLS, most_texts: int = MOST_TEXTS
    ) -> None:
        """Open the file, or create it.

        Raises:
            ConfigError: The file cannot be used.

        """
        path = data_dir / FILE
        create_private(path)
        # No more than a process's end has to be survived: everything can be computed again.
        self._database = open_writer(path, durability=Durability.PROCESS, wait_s=_WAIT_S)
        self._database.executescript(_SCHEMA)
        self._bounds = {_TOOL: most_tools, _TEXT: most_texts}
        self._lock = threading.Lock()

    def tools(self, model: str, digests: Collection[str]) -> Mapping[str, bytes]:
        """Return what is kept for these digests of definitions."""
        return self._read(_TOOL, model, {digest: digest for digest in digests})

    def keep_tools(self, model: str, vectors: Mapping[str, bytes]) -> None:
        """Keep vectors by digest of definition."""
        self._write(_TOOL, model, vectors.items())

    def texts(self, model: str, texts: Collection[str]) -> Mapping[str, bytes]:
        """Return what is kept for these texts."""
        return self._read(_TEXT, model, {_hashed(text): text for text in texts})

    def keep_texts(self, model: str, vectors: Mapping[str, bytes]) -> None:
        """Keep vectors by text; the text itself is not kept. The least recently used ones go."""
        hashed = [(_hashed(text), vector) for text, vector in vectors.items()]
        self._write(_TEXT, model, hashed)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    def _read(self, layer: str, model: str, names: Mapping[str, str]) -> Mapping[str, bytes]:
        found: dict[str, bytes] = {}
        with self._lock, suppress(sqlite3.Error), self._transaction():
            used = self._next_use(layer)
            for key, name in names.items():
                # Reading is using, in the same statement.
                row = self._database.execute(
                    "UPDATE vectors SET used = ? WHERE layer = ? AND model = ? AND key = ?"
                    " RETURNING vector",
                    (used, layer, model, key),
                ).fetchone()
                if row is not None:
                    found[name] = row[0]
        return found

    def _write(self, layer: str, model: str, vectors: Iterable[tuple[str, bytes]]) -> None:
        with self._lock, suppress(sqlite3.Error), self._transaction():
            used = self._next_use(layer)
            self._database.executemany(
                "INSERT OR REPLACE INTO vectors (layer, model, key, vector, used)"
                " VALUES (?, ?, ?, ?, ?)",
                [(layer, model, key, vector, used) for key, vector in vectors],
            )
            self._database.execute(
                "DELETE FROM vectors WHERE (layer, model, key) IN (SELECT layer, model, key"
                " FROM vectors WHERE layer = ? ORDER BY used DESC LIMIT -1 OFFSET ?)",
                (layer, self._bounds[layer]),
            )

    def _next_use(self, layer: str) -> int:
        (last,) = self._database.execute(
            "SELECT max(used) FROM vectors WHERE layer = ?", (layer,)
        ).fetchone()
        return int(last or 0) + 1

    def _transaction(self) -> "_Transaction":
        return _Transaction(self._database)


class _Transaction:
    """All or nothing; a lock that another process holds is waited for at the beginning."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def __enter__(self) -> None:
        self._database.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._database.execute("COMMIT" if kind is None else "ROLLBACK")


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
