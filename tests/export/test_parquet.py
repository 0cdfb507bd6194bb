"""A Parquet file holds every record: typed columns, and the exact text that was hashed."""

import gc
import io
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gateway.audit.forms import CSV_COLUMNS, Stored
from gateway.audit.merkle import leaf_hash
from gateway.export import parquet
from gateway.export.parquet import COLUMNS, ParquetFile
from tests.audit.some_records import every_record, stored

RECORDS = list(every_record().values())
HEADER: dict[str, Any] = {
    "log_id": "douane/1",
    "key": "douane/1+00+AA",
    "size": 41,
    "selection": {"since": "7d"},
}


def written(*batches: Iterable[Stored], header: dict[str, Any] = HEADER) -> pq.ParquetFile:
    target = io.BytesIO()
    with ParquetFile(target, header) as file:
        for batch in batches:
            file.write(list(batch))
    return pq.ParquetFile(io.BytesIO(target.getvalue()))


def rows(file: pq.ParquetFile) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = file.read().to_pylist()
    return found


def test_every_record_comes_back_with_the_bytes_that_were_hashed() -> None:
    found = rows(written(RECORDS[:3], RECORDS[3:]))
    assert [row["body"].encode() for row in found] == [record.body for record in RECORDS]
    assert [row["leaf_index"] for row in found] == [record.leaf_index for record in RECORDS]
    for row in found:
        assert leaf_hash(row["body"].encode()) == row["leaf_hash"]


def test_every_field_has_a_column_of_its_type_and_the_text_is_the_last() -> None:
    schema = written(RECORDS).schema_arrow
    assert tuple(schema.names) == COLUMNS == (*CSV_COLUMNS, "body")
    kinds = {name: schema.field(name).type for name in COLUMNS}
    assert {name: kind for name, kind in kinds.items() if kind != pa.string()} == {
        "time": pa.timestamp("us", tz="UTC"),
        "roles": pa.list_(pa.string()),
        "seq": pa.int64(),
        "upstream_status": pa.int64(),
        "result_bytes": pa.int64(),
        "duration_us": pa.int64(),
        "truncated": pa.list_(pa.string()),
        "leaf_index": pa.int64(),
        "leaf_hash": pa.binary(32),
    }


def test_a_value_is_what_the_record_says() -> None:
    found = dict(zip(every_record(), rows(written(RECORDS)), strict=True))
    outcome = {name: content for name, content in found["outcome"].items() if content is not None}
    record = every_record()["outcome"]
    assert outcome == {
        **orjson.loads(record.body),
        "time": datetime(2026, 11, 22, 5, 49, 19, 123, UTC),
        "leaf_index": record.leaf_index,
        "leaf_hash": record.leaf_hash,
        "body": record.body.decode(),
    }
    reasons = orjson.loads(found["refusal"]["reasons"])
    assert reasons == orjson.loads(every_record()["refusal"].body)["reasons"]
    assert found["gap"]["truncated"] == ["reasons"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("time", "yesterday"),
        ("time", 5),
        ("seq", "1"),
        ("seq", True),
        ("seq", 1.5),
        ("result_bytes", 1 << 63),
        ("roles", "admin"),
        ("roles", ["admin", 1]),
    ],
)
def test_what_does_not_fit_its_column_is_in_the_text_alone(name: str, content: Any) -> None:
    (row,) = rows(written([stored({"kind": "admin", name: content})]))
    assert row[name] is None
    assert orjson.loads(row["body"])[name] == content


def test_the_file_says_of_what_it_is() -> None:
    metadata = written(RECORDS).schema_arrow.metadata
    assert metadata == {
        b"douane.format": b"douane-parquet/1",
        b"douane.log_id": b"douane/1",
        b"douane.key": b"douane/1+00+AA",
        b"douane.size": b"41",
        b"douane.selection": b'{"since":"7d"}',
    }


def test_a_file_without_records_can_be_read_as_well() -> None:
    file = written()
    assert (rows(file), file.metadata.num_row_groups) == ([], 0)
    assert tuple(file.schema_arrow.names) == COLUMNS
    assert file.schema_arrow.metadata[b"douane.size"] == b"41"


def test_words_that_repeat_are_written_once_and_long_texts_have_no_statistics() -> None:
    group = written(RECORDS).metadata.row_group(0)
    columns = {column.path_in_schema: column for column in map(group.column, range(len(COLUMNS)))}
    plain = {name for name, column in columns.items() if not column.has_dictionary_page}
    bare = {name for name, column in columns.items() if not column.is_stats_set}
    texts = {"arguments", "question", "evidence", "body"}
    assert plain == {"id", "time", "leaf_index", "leaf_hash"} | texts
    assert bare == texts
    assert {column.compression for column in columns.values()} == {"ZSTD"}


def groups(file: pq.ParquetFile) -> list[int]:
    found = range(file.metadata.num_row_groups)
    return [file.metadata.row_group(number).num_rows for number in found]


def test_a_row_group_has_so_many_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_GROUP_RECORDS", 4)
    assert groups(written(*([one] for one in RECORDS[:9]))) == [4, 4, 1]


def test_a_row_group_has_so_much_of_records_text(monkeypatch: pytest.MonkeyPatch) -> None:
    size = sum(len(record.body) for record in RECORDS[:3])
    monkeypatch.setattr(parquet, "_GROUP_BYTES", size)
    assert groups(written(*([one] for one in RECORDS[:3] * 2))) == [3, 3]


def test_however_long_the_log_one_row_group_is_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_GROUP_RECORDS", 1_000)
    batch = [stored({"kind": "admin", "target": "x" * 500}, index) for index in range(250)]
    before, held = pa.total_allocated_bytes(), []
    with ParquetFile(io.BytesIO(), HEADER) as file:
        for _ in range(40):
            file.write(batch)
            held.append(pa.total_allocated_bytes() - before)
    assert max(held[20:]) <= 1.1 * max(held[:20])


def test_a_file_that_breaks_off_cannot_be_read() -> None:
    target = io.BytesIO()

    def broken() -> None:
        with ParquetFile(target, HEADER) as file:
            file.write(RECORDS)
            file._write_group()
            raise KeyError

    with pytest.raises(KeyError):
        broken()
    gc.collect()
    assert len(target.getvalue()) > 1000
    with pytest.raises(pa.ArrowInvalid):
        pq.ParquetFile(io.BytesIO(target.getvalue()))
    assert not target.closed


def test_a_target_that_takes_no_more_says_why() -> None:
    class Full(io.BytesIO):
        def write(self, content: Any) -> int:
            raise OSError(28, "No space left on device")

    def fill() -> None:
        with ParquetFile(Full(), HEADER) as file:
            file.write(RECORDS)

    with pytest.raises(OSError, match="No space left on device"):
        fill()
