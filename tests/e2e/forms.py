"""What of a record arrives elsewhere, in every form in which it goes there."""

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow.parquet as pq

from gateway.audit.forms import Form, Stored, written_as
from gateway.audit.merkle import leaf_hash
from gateway.audit.record import FIELDS
from gateway.export.parquet import ParquetFile
from tests.audit.ocsf_events import event_of, problems


def must_arrive(records: Sequence[dict[str, Any]]) -> None:
    """Return if each is one event, line, row or log record, with all that it says."""
    found = [_stored(index, one) for index, one in enumerate(records)]
    for record in found:
        event = event_of(record)
        assert problems(event) == [], event
    of = {form: written_as(form, version="1") for form in Form}
    for form in (Form.JSONL, Form.CEF):
        assert of[form].of(found).count(b"\n") == len(found), form
    head, *rows = csv.reader(io.StringIO((of[Form.CSV].head + of[Form.CSV].of(found)).decode()))
    assert [len(row) for row in rows] == [len(head)] * len(found)
    logs = json.loads(of[Form.OTLP].of(found))["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    assert [one["body"]["stringValue"].encode() for one in logs] == [one.body for one in found]
    table = io.BytesIO()
    with ParquetFile(table, {}) as file:
        file.write(found)
    columns = pq.read_table(table).to_pydict()
    assert [one.encode() for one in columns["body"]] == [one.body for one in found]
    for name in FIELDS:  # whatever a record says is in its own column as well
        assert [one is not None for one in columns[name]] == [name in one for one in records], name


def _stored(index: int, record: dict[str, Any]) -> Stored:
    body = orjson.dumps(record)
    return Stored(leaf_index=index, leaf_hash=leaf_hash(body), body=body)
