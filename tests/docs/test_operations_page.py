"""docs/operations.md tells the listeners, the series and the limits that there are."""

import re

from gateway.oauth.metadata import (
    AUTHORIZATION_SERVER_PATH,
    JWKS_PATH,
    PROTECTED_RESOURCE_PATH,
    TOKEN_PATH,
)
from gateway.pipeline.memory import _MOST_RUNS
from gateway.storage import keys
from gateway.upstream.settings import MEBIBYTE, Limits
from gateway.web.door import SOCKET_NAME
from gateway.web.metrics import Metrics
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
    assert f"{_MOST_RUNS:,}" in told["runs whose results are remembered for proofs"]
