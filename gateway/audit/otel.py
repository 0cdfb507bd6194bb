"""Records as OpenTelemetry logs and spans, in the JSON form of OTLP.

Names are those of the semantic conventions for MCP and for generative AI, which are still in
development, and `douane.` for what they have no name for.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from gateway.domain.bounded import Bounded
from gateway.domain.tools import OWN
from gateway.domain.tracing import client_span, server_span, trace_of_its_own

Record = Mapping[str, Any]
Logged = tuple[bytes, Record]
"""A record's bytes, and what is parsed from them with `leaf_index` and `leaf_hash`."""

_SCOPE = "douane.audit"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SERVER, _CLIENT = 2, 3
_ERROR = 2
_INFO, _WARN, _FAULT = (9, "INFO"), (13, "WARN"), (17, "ERROR")
_SEVERITIES = {"deny": _WARN, "ask": _WARN, "hold": _WARN, "error": _FAULT}
_FAILED = frozenset({"deny", "ask", "hold", "error"})
_MOST_UNDER_WAY = 10_000
_OCTETS = 8 * 1024**2
_DECISION = "d_"
"""What a decision's id begins with; other calls that led to one are named by theirs."""
_OF_A_HOST = "host_sandbox"
"""A host's own program is run by no call of ours, and says itself in which span it calls."""

_ATTRIBUTES = (
    ("method", "mcp.method.name"),
    ("revision", "mcp.protocol.version"),
    ("source_ip", "client.address"),
    ("principal", "user.id"),
    ("roles", "user.roles"),
    ("upstream_status", "http.response.status_code"),
    ("server", "douane.server"),
    ("target", "douane.target"),
    ("effect", "douane.effect"),
    ("client", "douane.client"),
    ("verdict", "douane.verdict"),
    ("code", "douane.code"),
    ("policy_digest", "douane.policy.digest"),
    ("pin_digest", "douane.pin.digest"),
    ("decision_id", "douane.decision.id"),
    ("approval_id", "douane.approval.id"),
    ("run", "douane.run"),
    ("origin", "douane.origin"),
    ("parent", "douane.parent"),
    ("kind", "douane.record.kind"),
    ("id", "log.record.uid"),
    ("leaf_index", "douane.record.leaf_index"),
    ("leaf_hash", "douane.record.leaf_hash"),
)
_TARGETS = {
    "tools/call": "gen_ai.tool.name",
    "prompts/get": "gen_ai.prompt.name",
    "resources/read": "mcp.resource.uri",
}


def logs_request(records: Iterable[Logged], *, version: str) -> dict[str, Any]:
    """Return an `ExportLogsServiceRequest` of these records; `version` is this program's.

    The body of each is the record's exact text, so that its leaf can be computed from it.
    """
    by_log: dict[str, list[dict[str, Any]]] = {}
    for body, record in records:
        by_log.setdefault(record["log_id"], []).append(_log_record(body, record))
    return {
        "resourceLogs": [
            {
                "resource": _resource(log_id, version),
                "scopeLogs": [{"scope": {"name": _SCOPE}, "logRecords": found}],
            }
            for log_id, found in by_log.items()
        ]
    }


class Tracer:
    """Makes spans of calls: the gateway is a server to its client, and a client to the server.

    A span's id follows from its decision's, so one that is sent twice is the same span. It is what
    the server was told as its parent, too. When a call went out is on another record than its end;
    calls that began before this tracer, or before ten thousand others that are under way, have the
    span of the server only.
    """

    def __init__(self, *, version: str) -> None:
        """Make spans of this program's `version`."""
        self._version = version
        self._sent: Bounded[str, tuple[int, str]] = Bounded(most=_MOST_UNDER_WAY, octets=_OCTETS)
        """When a call went out, and in which trace, by its decision."""

    def request(self, records: Iterable[Record]) -> dict[str, Any]:
        """Return an `ExportTraceServiceRequest` of the calls that ended in these records.

        It has no spans, and need not be sent, where no call did.
        """
        by_log: dict[str, list[dict[str, Any]]] = {}
        for record in records:
            if found := list(self._spans(record)):
                by_log.setdefault(record["log_id"], []).extend(found)
        return {
            "resourceSpans": [
                {
                    "resource": _resource(log_id, self._version),
                    "scopeSpans": [{"scope": {"name": _SCOPE}, "spans": found}],
                }
                for log_id, found in by_log.items()
            ]
        }

    def _spans(self, record: Record) -> Iterator[dict[str, Any]]:
        decision = record.get("decision_id")
        if not isinstance(decision, str) or not decision:
            return
        if record["kind"] == "intent":
            trace = self._trace(record, decision)
            went_out = (_nanoseconds(record["time"]), trace)
            self._sent.put(decision, went_out, len(decision) + len(trace))
        if record["kind"] not in {"outcome", "list"}:
            return
        end = _nanoseconds(record["time"])
        duration_us = record.get("duration_us")
        began = end - (duration_us if type(duration_us) is int else 0) * 1000
        span = {**_span(record, decision, began, end), "traceId": self._trace(record, decision)}
        above = _parent(record)
        yield {**span, "kind": _SERVER, **({"parentSpanId": above} if above else {})}
        sent = self._sent.get(decision)
        if sent is not None and record.get("server") != OWN:
            client = {"kind": _CLIENT, "spanId": client_span(decision)}
            start = str(min(sent[0], end))
            yield {**span, **client, "startTimeUnixNano": start, "parentSpanId": span["spanId"]}

    def _trace(self, record: Record, decision: str) -> str:
        """Return the client's trace; without one, that of the first call that led to this one."""
        if trace := record.get("trace_id"):
            return str(trace)
        above = _led_by(record)
        if above is None:
            return trace_of_its_own(decision)
        sent = self._sent.get(above)
        return trace_of_its_own(above) if sent is None else sent[1]


def _log_record(body: bytes, record: Record) -> dict[str, Any]:
    number, text = _SEVERITIES.get(str(record.get("verdict")), _INFO)
    moment = str(_nanoseconds(record["time"]))
    found: dict[str, Any] = {
        "timeUnixNano": moment,
        "observedTimeUnixNano": moment,
        "severityNumber": number,
        "severityText": text,
        "eventName": f"{_SCOPE}.{record['kind']}",
        "body": {"stringValue": body.decode()},
        "attributes": _attributes(record),
    }
    if trace := record.get("trace_id"):
        found["traceId"] = trace
        decision = record.get("decision_id")
        if isinstance(decision, str) and record["kind"] in {"intent", "outcome", "list"}:
            found["spanId"] = server_span(decision)
    return found


def _parent(record: Record) -> str | None:
    """Return the span above a call's: one of ours, where that led to it, or its caller's."""
    above = _led_by(record)
    if above is None:
        caller = record.get("parent_span")
        return caller if isinstance(caller, str) else None
    # A program calls tools while we serve who runs it; a server asks while we wait for its answer.
    return server_span(above) if record.get("method") == "tools/call" else client_span(above)


def _led_by(record: Record) -> str | None:
    """Return the decision that led to a call, where it is on record and has a span of ours."""
    parent = record.get("parent")
    ours = isinstance(parent, str) and parent.startswith(_DECISION)
    return parent if ours and record.get("origin") != _OF_A_HOST else None


def _span(record: Record, decision: str, began: int, end: int) -> dict[str, Any]:
    method, target = str(record.get("method") or record["kind"]), record.get("target")
    named = method in _TARGETS and method != "resources/read" and isinstance(target, str)
    found: dict[str, Any] = {
        "spanId": server_span(decision),
        "name": f"{method} {target}" if named else method,
        "startTimeUnixNano": str(began),
        "endTimeUnixNano": str(end),
        "attributes": _attributes(record),
    }
    if str(record.get("verdict")) in _FAILED:
        found["status"] = {"code": _ERROR, "message": str(record.get("code") or "")}
    return found


def _attributes(record: Record) -> list[dict[str, Any]]:
    found = [
        {"key": key, "value": told}
        for member, key in _ATTRIBUTES
        if (told := _value(record.get(member))) is not None
    ]
    method, target = record.get("method"), record.get("target")
    if method in _TARGETS and isinstance(target, str):
        found.append(_named(_TARGETS[method], target))
    if method == "tools/call":
        found.append(_named("gen_ai.operation.name", "execute_tool"))
    if str(record.get("verdict")) in _FAILED:
        found.append(_named("error.type", str(record.get("code") or "_OTHER")))
    return found


def _resource(log_id: str, version: str) -> dict[str, Any]:
    return {
        "attributes": [
            _named("service.name", "douane"),
            _named("service.version", version),
            _named("service.instance.id", log_id),
        ]
    }


def _named(key: str, text: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": text}}


def _value(content: Any) -> dict[str, Any] | None:
    if isinstance(content, str):
        return {"stringValue": content}
    if type(content) is int:
        return {"intValue": str(content)}  # a 64-bit number is a string in protobuf's JSON
    if isinstance(content, list):
        return {"arrayValue": {"values": [{"stringValue": str(one)} for one in content]}}
    return None


def _nanoseconds(time: str) -> int:
    return (datetime.fromisoformat(time) - _EPOCH) // _MICROSECOND * 1000
