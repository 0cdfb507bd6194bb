"""docs/operations.md tells the listeners, the series and the limits that there are."""

import re
from inspect import signature

from gateway.cli import connection
from gateway.flow.provenance import Provenance
from gateway.oauth.limits import FailedSignIns
from gateway.oauth.metadata import (
    AUTHORIZATION_SERVER_PATH,
    JWKS_PATH,
    PROTECTED_RESOURCE_PATH,
    TOKEN_PATH,
)
from gateway.pipeline.memory import _MOST_RUNS
from gateway.storage import keys
from gateway.upstream.settings import MEBIBYTE, Limits
from gateway.web.connections import Bounds
from gateway.web.door import SOCKET_NAME
from gateway.web.mcp import _BODY_S, McpEndpoint
from gateway.web.metrics import Metrics
from gateway.wiring import gateway, serving
from tests.docs.pages import ROOT, prose, rows, spans

PAGE = ROOT / "docs" / "operations.md"
TEXT = prose(PAGE)


def test_every_series_is_told_with_its_labels() -> None:
    told = {row["series"].strip("`"): tuple(spans(row["labels"])) for row in rows(PAGE, "series")}
    metrics = Metrics()
    series = [value for value in vars(metrics).values() if hasattr(value, "_labelnames")]
    there = {
        kind._name + ("_total" if kind._type == "counter" else ""): tuple(kind._labelnames)
        for kind in series
    }
    assert told == there
    made = set(re.findall(r"(?m)^# HELP (\w+)", metrics.page().decode()))
    assert made == set(told)


def test_every_path_is_told() -> None:
    for path in (AUTHORIZATION_SERVER_PATH, PROTECTED_RESOURCE_PATH, TOKEN_PATH, JWKS_PATH):
        assert f"`{path}`" in TEXT
    admin = (ROOT / "gateway" / "web" / "admin.py").read_text()
    told = next(row for row in rows(PAGE, "listener") if row["listener"] == "`admin_listen`")
    assert sorted(spans(told["paths"])) == sorted(set(re.findall(r'"(/\w+)"', admin)))


def test_every_file_of_the_data_directory_is_told() -> None:
    told = {
        name for row in rows(PAGE, "file") if "if it is lost" in row for name in spans(row["file"])
    }
    named = set(re.findall(r'"(\w+\.key)"', (ROOT / "gateway/storage/keys.py").read_text()))
    assert named == {name for name in told if name.endswith(".key")}
    assert {SOCKET_NAME, "douane.db", "checkpoint"} <= told
    assert keys.Keys.__doc__


def test_the_fixed_limits_are_the_codes() -> None:
    told = {row["what"]: row["limit"] for row in rows(PAGE, "what")}
    limits = Limits()
    assert told["one request, one answer, one event"] == f"{limits.result_bytes // MEBIBYTE} MiB"
    assert told["all events of one stream"] == f"{limits.stream_bytes // MEBIBYTE} MiB"
    assert told["connections to one server, for calls"] == str(limits.connections)
    waiting = told["streams that wait for what a server says by itself"]
    assert waiting == f"{limits.listeners:,} a server"
    results, octets = (
        signature(Provenance).parameters[name].default for name in ("results", "octets")
    )
    remembered = told["runs whose results are remembered for proofs"]
    assert remembered == (
        f"{_MOST_RUNS:,}, the latest {results} results and {octets // 1024} KiB of each"
    )


def test_the_bounds_by_address_are_the_codes() -> None:
    told = {row["what"]: row["limit"] for row in rows(PAGE, "what")}
    refused = signature(McpEndpoint).parameters["most_failures"].default
    failed = signature(FailedSignIns).parameters["allowed"].default
    unread = told["unreadable or unauthenticated requests of one address to MCP endpoints"]
    assert unread.startswith(f"{refused} a minute,")
    signing_in = told["failed sign-ins of one address at the token endpoint"]
    assert signing_in.startswith(f"{failed} a minute,")


def test_the_bounds_of_a_connection_are_the_codes() -> None:
    told = {row["what"]: row["limit"] for row in rows(PAGE, "what")}
    bounds = Bounds(connections=1)
    times = told["a request's head; its body; an answer that is not read"]
    assert times == f"{bounds.head_s:g} s; {_BODY_S:g} s; {bounds.stall_s:g} s"
    assert told["connections of callers"].startswith(f"{gateway._MOST_CONNECTIONS:,},")
    admin = told["connections to the admin listener"]
    assert admin == str(serving._MOST_ADMIN_CONNECTIONS)


def test_the_times_that_people_wait_are_the_codes() -> None:
    words = " ".join(TEXT.split())
    assert f"for up to {connection._PATIENCE_S:g} seconds" in words
    assert words.count(f"{gateway.DRAIN_S} seconds") == 2
