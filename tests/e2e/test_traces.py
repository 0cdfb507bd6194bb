"""One trace through client, gateway and server: each is told the span above it, and so is a collector."""

import json
from pathlib import Path
from typing import Any

from tests.e2e.posting import Poster, body_of, mirrored, modern_params
from tests.e2e.scripted import Raw, raw_in_a_thread
from tests.e2e.site import OURS, SERVERS, Corridor
from tests.running import ALL, Running, running_gateway

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{CALLER}-01"
TOOL = {"name": "allowed", "arguments": {"text": "x"}}


def spans(running: Running) -> list[dict[str, Any]]:
    told = running.douane("audit", "export", "--format", "otlp-traces", "--where", TRACED).stdout
    return [
        span
        for line in told.splitlines()
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


TRACED = f"trace_id = {TRACE}"


def headers(raw: Raw) -> dict[str, str]:
    (seen,) = [one for one in raw.seen if one.json.get("method") == "tools/call"]
    return dict(seen.headers)


def meta(raw: Raw) -> dict[str, Any]:
    (seen,) = [one for one in raw.seen if one.json.get("method") == "tools/call"]
    found: dict[str, Any] = seen.json["params"].get("_meta", {})
    return found


def test_client_gateway_and_server_are_one_trace(tmp_path: Path) -> None:
    with raw_in_a_thread() as raw:
        servers = {"raw": {"url": raw.url, "defaults": OURS, "tools": SERVERS["raw"]["tools"]}}
        with running_gateway(tmp_path, servers) as running:
            running.approve_all("raw")
            direct, front = (Poster(Corridor(running), name) for name in ("raw", ALL))
            named = {**TOOL, "name": "raw__allowed"}
            told: list[str] = []
            for poster, call in ((direct, TOOL), (front, named)):
                raw.forget()
                poster.modern(
                    "tools/call", call, ("traceparent", PARENT), ("tracestate", "vendor=1")
                )
                assert headers(raw)["tracestate"] == "vendor=1"
                assert "traceparent" not in meta(raw)
                told.append(headers(raw)["traceparent"])
                raw.forget()
                params = modern_params({**call, "_meta": {"traceparent": PARENT}})
                poster.post(body_of("tools/call", params), *mirrored("tools/call", call))
                assert meta(raw)["traceparent"] == headers(raw)["traceparent"]
                told.append(headers(raw)["traceparent"])
            found = spans(running)
    served, sent = found[::2], found[1::2]
    assert [one["kind"] for one in served] == [2] * 4
    assert [one["kind"] for one in sent] == [3] * 4
    assert {(one["traceId"], one["parentSpanId"]) for one in served} == {(TRACE, CALLER)}
    assert [one["parentSpanId"] for one in sent] == [one["spanId"] for one in served]
    assert told == [f"00-{TRACE}-{one['spanId']}-01" for one in sent]
