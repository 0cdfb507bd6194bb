"""The forms in which records go to other systems: lines, or one document for many records."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import orjson

from gateway.audit.cef import cef_line
from gateway.audit.ocsf import ocsf_event
from gateway.audit.otel import Logged, Tracer, logs_request
from gateway.audit.record import FIELDS
from gateway.domain._value import value

CSV_COLUMNS = (*FIELDS, "leaf_index", "leaf_hash")
_APART = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20", "'")
"""What a spreadsheet takes for the beginning of a formula, also in the width of East Asian text.

An apostrophe stands before it; and before one of the text's own, so that the first can be taken off.
"""


class Form(StrEnum):
    JSONL = "jsonl"
    CSV = "csv"
    OCSF = "ocsf"
    CEF = "cef"
    OTLP = "otlp"
    OTLP_TRACES = "otlp-traces"


@value
class Stored:
    """A record as it lies in the log."""

    leaf_index: int
    leaf_hash: bytes
    body: bytes

    @property
    def members(self) -> dict[str, Any]:
        """The record as the contract has it."""
        found: dict[str, Any] = orjson.loads(self.body)
        found["leaf_index"] = self.leaf_index
        found["leaf_hash"] = self.leaf_hash.hex()
        return found


@value
class Written:
    """How one form is written: what comes before all records, and what becomes of a batch."""

    media: str
    of: Callable[[Sequence[Stored]], bytes]
    """Empty where there is nothing to send."""
    head: bytes = b""
    """What a file begins with."""


def written_as(form: Form, *, version: str) -> Written:
    """Return how `form` is written; `version` is this program's, which some forms name."""
    match form:
        case Form.JSONL:
            return Written(media="application/x-ndjson", of=_lines(_json_line))
        case Form.CSV:
            head = csv_line(CSV_COLUMNS).encode()
            return Written(media="text/csv; charset=utf-8", of=_lines(_csv_row), head=head)
        case Form.OCSF:
            return Written(media="application/x-ndjson", of=_lines(_ocsf(version)))
        case Form.CEF:
            return Written(media="text/plain; charset=utf-8", of=_lines(_cef(version)))
        case Form.OTLP:
            return Written(media="application/json", of=_otlp(version))
        case Form.OTLP_TRACES:
            return Written(media="application/json", of=_traces(version))


def csv_row(record: Mapping[str, Any]) -> str:
    """Return a record as a line of CSV (RFC 4180) that no spreadsheet takes for a formula."""
    return csv_line([_csv_cell(record.get(column)) for column in CSV_COLUMNS])


def csv_line(cells: Iterable[str]) -> str:
    """Return cells as a line of CSV."""
    line = io.StringIO()
    # What the writer ends lines with it also quotes; a bare CR ends a row for many readers.
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue().removesuffix("\r\n") + "\n"


def _csv_cell(content: Any) -> str:
    if content is None:
        return ""
    if not isinstance(content, str):
        return json.dumps(content)
    return f"'{content}" if content.startswith(_APART) else content


def _lines(line: Callable[[Stored], bytes]) -> Callable[[Sequence[Stored]], bytes]:
    return lambda records: b"".join(map(line, records))


def _json_line(record: Stored) -> bytes:
    # The record's own bytes, so that without the two members the leaf can be computed again.
    leaf = f',"leaf_index":{record.leaf_index},"leaf_hash":"{record.leaf_hash.hex()}"}}\n'
    return record.body[:-1] + leaf.encode()


def _csv_row(record: Stored) -> bytes:
    return csv_row(record.members).encode()


def _ocsf(version: str) -> Callable[[Stored], bytes]:
    def line(record: Stored) -> bytes:
        return orjson.dumps(ocsf_event(record.body, record.members, version=version)) + b"\n"

    return line


def _cef(version: str) -> Callable[[Stored], bytes]:
    return lambda record: cef_line(record.members, version=version).encode() + b"\n"


def _otlp(version: str) -> Callable[[Sequence[Stored]], bytes]:
    def request(records: Sequence[Stored]) -> bytes:
        return orjson.dumps(logs_request(_logged(records), version=version)) + b"\n"

    return request


def _traces(version: str) -> Callable[[Sequence[Stored]], bytes]:
    tracer = Tracer(version=version)

    def request(records: Sequence[Stored]) -> bytes:
        found = tracer.request(record.members for record in records)
        return orjson.dumps(found) + b"\n" if found["resourceSpans"] else b""

    return request


def _logged(records: Iterable[Stored]) -> Iterator[Logged]:
    for record in records:
        yield record.body, record.members
