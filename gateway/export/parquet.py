"""Records as one Parquet file: a table to ask, and the exact text of each. Needs pyarrow."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import IO, Any, Self

import orjson
import pyarrow as pa
from pyarrow.parquet import ParquetWriter

from gateway.audit.forms import CSV_COLUMNS, Stored
from gateway.audit.record import FIELDS

FORMAT = "douane-parquet/1"
COLUMNS = (*CSV_COLUMNS, "body")
"""As in a table of CSV, and last the record's exact text, of which its leaf is the hash."""

_GROUP_RECORDS = 50_000
_GROUP_BYTES = 64 << 20
"""What of records' text is in memory at most, before a row group is written."""

_INTEGERS = frozenset({"leaf_index", "seq", "upstream_status", "result_bytes", "duration_us"})
_LISTS = frozenset({"roles", "truncated"})
_LONG = frozenset({"arguments", "question", "evidence", "body"})
"""Columns whose values hardly repeat: a dictionary and a least and greatest value only cost."""
_UNLIKE = frozenset({"id", "time", "leaf_index", "leaf_hash"}) | _LONG

_LARGEST_INTEGER = (1 << 63) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class ParquetFile:
    """Writes records as a table. Only at the end of the `with` block is it one that can be read.

    Its memory is that of one row group: 50,000 records, or 64 MiB of their text.
    """

    def __init__(self, target: IO[bytes], header: Mapping[str, Any]) -> None:
        """Write to `target`, which stays open.

        The file's metadata say what `header` does of the whole, each under `douane.` and its name.
        """
        told = {f"douane.{name}": _text(content) for name, content in header.items()}
        self._schema = pa.schema(
            [(name, _type(name)) for name in COLUMNS],
            metadata={"douane.format": FORMAT, **told},
        )
        self._target = _Target(target)
        self._writer = ParquetWriter(
            self._target,
            self._schema,
            compression="zstd",
            use_dictionary=[_leaf(name) for name in COLUMNS if name not in _UNLIKE],
            write_statistics=[_leaf(name) for name in COLUMNS if name not in _LONG],
        )
        self._batches: list[Any] = []
        self._records = 0
        self._bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the file; one that breaks off stays one that nobody can read."""
        if kind is None:
            self._write_group()
        else:
            # The library ends a file also when it lets go of it, and half of one would look whole.
            self._target.given_up = True
        self._writer.close()

    def write(self, records: Sequence[Stored]) -> None:
        """Add `records`; they come after those that are there."""
        self._batches.append(_batch(records, self._schema))
        self._records += len(records)
        self._bytes += sum(len(record.body) for record in records)
        if self._records >= _GROUP_RECORDS or self._bytes >= _GROUP_BYTES:
            self._write_group()

    def _write_group(self) -> None:
        table = pa.Table.from_batches(self._batches, self._schema)
        if table.num_rows:
            self._writer.write_table(table, row_group_size=table.num_rows)
        self._batches, self._records, self._bytes = [], 0, 0


class _Target:
    """Passes on what is written, until it is given up."""

    def __init__(self, target: IO[bytes]) -> None:
        self._target = target
        self.given_up = False
        self.closed = False

    def write(self, content: Any) -> int:
        size = memoryview(content).nbytes
        if not self.given_up:
            self._target.write(content)
        return size

    def flush(self) -> None:
        """Leave it to whoever owns the file."""


def _type(name: str) -> Any:
    if name == "time":
        return pa.timestamp("us", tz="UTC")
    if name == "leaf_hash":
        return pa.binary(32)
    if name in _INTEGERS:
        return pa.int64()
    return pa.list_(pa.string()) if name in _LISTS else pa.string()


def _leaf(name: str) -> str:
    """Return the path of the column that holds the values of `name`."""
    return f"{name}.list.element" if name in _LISTS else name


def _batch(records: Sequence[Stored], schema: Any) -> Any:
    parsed = [orjson.loads(record.body) for record in records]
    told = {name: [_read(name, one.get(name)) for one in parsed] for name in FIELDS}
    told["leaf_index"] = [record.leaf_index for record in records]
    told["leaf_hash"] = [record.leaf_hash for record in records]
    told["body"] = [record.body.decode() for record in records]
    arrays = [pa.array(told[column.name], column.type) for column in schema]
    return pa.record_batch(arrays, schema=schema)


def _read(name: str, content: Any) -> Any:
    """Return a value of this column's type; of what is none only the body tells."""
    if name == "time":
        return _microseconds(content)
    if name in _INTEGERS:
        return content if type(content) is int and abs(content) <= _LARGEST_INTEGER else None
    if name in _LISTS:
        texts = isinstance(content, list) and all(isinstance(one, str) for one in content)
        return content if texts else None
    return _text(content)


def _microseconds(content: Any) -> int | None:
    try:
        return (datetime.fromisoformat(content) - _EPOCH) // _MICROSECOND
    except (TypeError, ValueError):
        return None


def _text(content: Any) -> str | None:
    if content is None or isinstance(content, str):
        return content
    return orjson.dumps(content).decode()
