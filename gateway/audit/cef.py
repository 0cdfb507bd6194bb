"""Records as lines of the Common Event Format (CEF), version 0 as ArcSight defines it."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from ipaddress import IPv6Address, ip_address
from typing import Any

from gateway.audit.ocsf import summary

_SEVERITIES = {"deny": 7, "error": 6, "ask": 5, "hold": 5}
_LOUD = ("unusual_", "lookalike_", "egress_refused", "witness_disagrees")
_FAILED = frozenset({"deny", "error", "ask", "hold"})

_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""What some reader takes for the end of a line, or a terminal for a command."""

_TEXTS = (
    ("principal", "suser", 1023),
    ("server", "destinationServiceName", 1023),
    ("verdict", "act", 63),
    ("code", "reason", 1023),
    ("method", "requestMethod", 1023),
    ("client", "requestClientApplication", 1023),
    ("endpoint", "request", 1023),
    ("id", "externalId", 40),
    ("log_id", "deviceExternalId", 255),
    ("leaf_hash", "fileHash", 255),
)  # fmt: skip
"""Members, the keys of CEF's dictionary that they go under, and the most characters there."""

_LABELLED = (
    ("cs1", "target", "target"),
    ("cs2", "policyDigest", "policy_digest"),
    ("cs3", "decision", "decision_id"),
    ("cs4", "run", "run"),
    ("cs5", "traceId", "trace_id"),
    ("cs6", "pinDigest", "pin_digest"),
)
_NUMBERS = (
    ("cn1", "leafIndex", "leaf_index"),
    ("cn2", "durationUs", "duration_us"),
    ("cn3", "upstreamStatus", "upstream_status"),
)
_LONGEST_LABELLED = 4000
_LONGEST_MESSAGE = 1023
_LONGEST_HEADER = 512


def cef_line(record: Mapping[str, Any], *, version: str) -> str:
    """Return a record as one line, without its line break; `version` is this program's."""
    kind, code = str(record["kind"]), record.get("code")
    event = f"{kind}.{code}" if isinstance(code, str) else kind
    name = f"{kind} {record.get('method') or ''}".strip()
    header = ("Douane", "Douane", version, event, name, str(_severity(record)))
    fields = " ".join(f"{key}={_escaped(text)}" for key, text in _fields(record))
    return "|".join(("CEF:0", *map(_in_header, header), fields))


def _fields(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "rt", str(round(datetime.fromisoformat(record["time"]).timestamp() * 1000))
    yield "cat", str(record["kind"])
    for member, key, longest in _TEXTS:
        if isinstance(text := record.get(member), str) and text:
            yield key, text[:longest]
    yield from _address(record)
    yield "outcome", "failure" if str(record.get("verdict")) in _FAILED else "success"
    for key, label, member in _LABELLED:
        if isinstance(text := record.get(member), str) and text:
            yield f"{key}Label", label
            yield key, text[:_LONGEST_LABELLED]
    for key, label, member in _NUMBERS:
        if type(number := record.get(member)) is int:
            yield f"{key}Label", label
            yield key, str(number)
    yield "msg", summary(record)[:_LONGEST_MESSAGE]


def _address(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    try:
        address = ip_address(record.get("source_ip") or "")
    except ValueError:
        return
    if isinstance(address, IPv6Address):  # `src` holds one of version 4 only
        yield "c6a2Label", "Source IPv6 Address"
        yield "c6a2", str(address)
    else:
        yield "src", str(address)


def _severity(record: Mapping[str, Any]) -> int:
    code = record.get("code")
    if isinstance(code, str) and code.startswith(_LOUD):
        return 8
    return _SEVERITIES.get(str(record.get("verdict")), 3)


def _in_header(text: str) -> str:
    # A header knows no escape for a line break; a pipe ends the field, an equals sign does not.
    plain = _BREAKS.sub(" ", text[:_LONGEST_HEADER])
    return plain.replace("\\", "\\\\").replace("|", "\\|")


def _escaped(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("=", "\\=")
    return _BREAKS.sub(" ", escaped.replace("\r", "\\r").replace("\n", "\\n"))
