"""Each form holds every record, in a shape that its readers take."""

import csv
import io
import json

import pytest

from gateway.audit.forms import CSV_COLUMNS, Form, csv_row, written_as
from gateway.audit.merkle import leaf_hash
from tests.audit.some_records import every_record

RECORDS = list(every_record().values())


@pytest.mark.parametrize("form", [Form.JSONL, Form.OCSF, Form.CEF])
def test_a_record_is_a_line(form: Form) -> None:
    content = written_as(form, version="1").of(RECORDS)
    assert content.endswith(b"\n")
    assert content.count(b"\n") == len(RECORDS)


def test_the_native_form_keeps_the_bytes_that_were_hashed() -> None:
    content = written_as(Form.JSONL, version="1").of(RECORDS)
    for line, record in zip(content.splitlines(), RECORDS, strict=True):
        assert json.loads(line) == record.members
        body = line[: line.rindex(b',"leaf_index":')] + b"}"
        assert leaf_hash(body) == record.leaf_hash


def test_a_table_has_a_head_and_no_formulas() -> None:
    written = written_as(Form.CSV, version="1")
    text = (written.head + written.of(RECORDS)).decode()
    rows = list(csv.reader(io.StringIO(text)))
    assert tuple(rows[0]) == CSV_COLUMNS
    assert len(rows) == len(RECORDS) + 1
    cells = [cell for row in rows[1:] for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]
    assert "'=cmd()" in cells
    assert csv_row({"roles": ["a"], "kind": None}).count(",") >= len(CSV_COLUMNS) - 1


@pytest.mark.parametrize(
    "text",
    ["=a", "+a", "-a", "@a", "\ta", "\ra", "\na", "\uff1da", "\uff0ba", "\uff0da", "\uff20a"],
)
def test_what_may_be_a_formula_begins_with_an_apostrophe_and_can_be_told(text: str) -> None:
    """Without the first apostrophe every text is the record's, whatever it began with."""
    for told, cell in ((text, f"'{text}"), (f"'{text}", f"''{text}"), ("a'=", "a'="), ("", "")):
        (cells,) = csv.reader(io.StringIO(csv_row({"target": told}), newline=""))
        assert cells[CSV_COLUMNS.index("target")] == cell
        assert cell.removeprefix("'") == told


def test_a_bare_carriage_return_begins_no_row_of_a_table() -> None:
    row = csv_row({"kind": "outcome", "target": "note\r=cmd()", "code": "denied"})
    (cells,) = csv.reader(io.StringIO(row, newline=""))
    assert cells[CSV_COLUMNS.index("target")] == "note\r=cmd()"
    assert '"note\r=cmd()"' in row
    assert row.endswith("\n")
    assert not row.endswith("\r\n")


def test_a_batch_is_one_request() -> None:
    content = written_as(Form.OTLP, version="1").of(RECORDS)
    assert len(json.loads(content)["resourceLogs"][0]["scopeLogs"][0]["logRecords"]) == len(RECORDS)
    assert written_as(Form.OTLP_TRACES, version="1").of(RECORDS[:1]) == b""
    assert b'"resourceSpans"' in written_as(Form.OTLP_TRACES, version="1").of(RECORDS)


def test_every_form_says_what_it_is() -> None:
    assert {form.value: written_as(form, version="1").media for form in Form} == {
        "jsonl": "application/x-ndjson",
        "csv": "text/csv; charset=utf-8",
        "ocsf": "application/x-ndjson",
        "cef": "text/plain; charset=utf-8",
        "otlp": "application/json",
        "otlp-traces": "application/json",
    }
