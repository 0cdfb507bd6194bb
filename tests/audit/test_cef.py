"""A line of CEF cannot be broken by what a record says, and fits the fields."""

import re

import pytest

from gateway.audit.cef import cef_line
from tests.audit.some_records import every_record, stored

RECORDS = every_record()
_FIELD = re.compile(r"(?:^| )([A-Za-z0-9]+)=((?:\\.|[^=\\])*)(?=$| [A-Za-z0-9]+=)")


def read(line: str) -> tuple[list[str], dict[str, str]]:
    """Read a line as a collector does: pipes end header fields, equals signs begin values."""
    parts = re.split(r"(?<!\\)\|", line, maxsplit=7)
    found = {key: unescaped(text) for key, text in _FIELD.findall(parts[7])}
    return [part.replace("\\|", "|").replace("\\\\", "\\") for part in parts[:7]], found


def unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: {"n": "\n", "r": "\r"}.get(found[1], found[1]), text)


def line_of(name: str) -> str:
    return cef_line(RECORDS[name].members, version="1.2.3")


def test_a_call_stands_in_the_fields_of_the_dictionary() -> None:
    header, fields = read(line_of("refusal"))
    event = ["CEF:0", "Douane", "Douane", "1.2.3", "outcome.denied", "outcome tools/call", "7"]
    assert header == event
    assert fields == {
        "rt": "1795326559000",
        "cat": "outcome",
        "suser": "emma@example.com",
        "destinationServiceName": "mail",
        "act": "deny",
        "reason": "denied",
        "requestMethod": "tools/call",
        "requestClientApplication": "client-1",
        "request": "/mcp/mail",
        "externalId": RECORDS["refusal"].members["id"],
        "deviceExternalId": "douane/0123456789abcdef",
        "fileHash": RECORDS["refusal"].leaf_hash.hex(),
        "c6a2Label": "Source IPv6 Address",
        "c6a2": "2001:db8::1",
        "outcome": "failure",
        "cs1Label": "target",
        "cs1": "send_email",
        "cs2Label": "policyDigest",
        "cs2": "sha256:bb",
        "cs3Label": "decision",
        "cs3": "d2",
        "cs4Label": "run",
        "cs4": "r1",
        "cs5Label": "traceId",
        "cs5": "4bf92f3577b34da6a3ce929d0e0e4736",
        "cs6Label": "pinDigest",
        "cs6": "sha256:aa",
        "cn1Label": "leafIndex",
        "cn1": "2",
        "msg": "outcome tools/call mail/send_email by emma@example.com: deny, denied",
    }


@pytest.mark.parametrize("name", RECORDS)
def test_every_record_is_one_line_within_the_limits(name: str) -> None:
    line = line_of(name)
    assert len(line.splitlines()) == 1
    header, fields = read(line)
    assert (len(header), header[0]) == (7, "CEF:0")
    limits = {"act": 63, "externalId": 40, "deviceExternalId": 255, "msg": 1023, "cs1": 4000}
    assert all(len(fields[key]) <= limits.get(key, 1023) for key in fields)


def test_what_a_caller_writes_begins_no_field_and_no_line() -> None:
    hostile = "x|y=z\\ act=allow\nCEF:0|A|B|1|c|d|0|\rsuser=root\u2028\u0085\x1b[2J"
    members = {"kind": "outcome", "principal": hostile, "target": hostile, "method": hostile}
    line = cef_line(stored(members).members, version="1|2")
    assert len(line.splitlines()) == 1
    header, fields = read(line)
    assert header[3] == "1|2"
    assert "\x1b" not in line
    assert fields["suser"] == "x|y=z\\ act=allow\nCEF:0|A|B|1|c|d|0|\rsuser=root   [2J"
    assert "act" not in fields
    assert fields["outcome"] == "success"


def test_an_address_of_version_4_has_its_own_field() -> None:
    _, fields = read(line_of("outcome"))
    assert (fields["src"], "c6a2" in fields) == ("192.0.2.7", False)
    _, fields = read(line_of("odd"))
    assert not {"src", "c6a2"} & fields.keys()


def test_something_found_is_loud() -> None:
    assert read(line_of("unusual"))[0][6] == "8"
    assert read(line_of("drift"))[0][6] == "5"
    assert read(line_of("outcome"))[0][6] == "3"
