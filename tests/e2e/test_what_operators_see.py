"""Metrics, logs and the data directory: what they tell, and what they never hold."""

import json
import re
import urllib.request
from pathlib import Path

import pytest

from tests.backends import SHARED
from tests.e2e.posting import Poster, mirrored
from tests.e2e.scripted import TOOLS, Raw, instead
from tests.e2e.site import SERVERS, Corridor
from tests.running import ALL
from tests.servers.raw import answers, answers_result

CANARY = "canary-8d1f3c"
FAILS = {"content": [], "isError": True, "resultType": "complete"}


def series(gateway: Corridor) -> dict[str, float]:
    """Every sample of the metrics page, by its name and labels as they are written there."""
    with urllib.request.urlopen(f"{gateway.running.admin_url}/metrics", timeout=60) as answered:
        page = answered.read().decode()
    samples = (line.rpartition(" ") for line in page.splitlines() if not line.startswith("#"))
    return {name: float(number) for name, _, number in samples}


def test_the_metrics_tell_of_sessions_lists_and_refusals(
    gateway: Corridor, poster: Poster, raw: Raw
) -> None:
    before = series(gateway)
    poster.session()
    poster.modern("tools/list", {})
    poster.call("allowed")
    poster.call("denied")
    poster.call("hidden")
    poster.call("invented", {"text": CANARY})
    poster.post(b"{", *mirrored("tools/list", {}))
    poster.post(b"{}", ("Origin", "https://evil.example"))
    after = series(gateway)
    grown = {
        name: after[name] - before.get(name, 0)
        for name in after
        if after[name] != before.get(name, 0)
    }
    counted = {
        'douane_session_initializations_total{result="success",server="raw"}': 1,
        'douane_request_duration_seconds_count{method="tools/list",server="raw"}': 1,
        'douane_requests_total{method="tools/call",outcome="ok",server="raw"}': 1,
        'douane_requests_total{method="tools/call",outcome="denied",server="raw"}': 1,
        'douane_refusals_total{code="denied"}': 1,
        'douane_tool_calls_total{outcome="ok",server="raw",tool="allowed"}': 1,
        'douane_tool_calls_total{outcome="refused",server="raw",tool="denied"}': 1,
        'douane_tool_calls_total{outcome="refused",server="raw",tool="hidden"}': 1,
        'douane_tool_calls_total{outcome="refused",server="raw",tool=""}': 1,
        'douane_tool_call_duration_seconds_count{server="raw"}': 1,
        'douane_refusals_total{code="unknown_tool"}': 2,
        'douane_refusals_total{code="protocol_error"}': 1,
        'douane_refusals_total{code="origin"}': 1,
    }
    assert {name: grown.get(name, 0) for name in counted} == counted
    seconds = 'douane_request_duration_seconds_sum{method="tools/list",server="raw"}'
    assert grown[seconds] > 0
    # No name that a caller could invent is a label, and no argument.
    assert not any("invented" in name or CANARY in name for name in after)


def test_the_metrics_tell_what_the_approved_tools_would_cost_a_model(gateway: Corridor) -> None:
    told = series(gateway)
    sizes = {name: told[f'douane_registry_tools{{server="{name}"}}'] for name in SERVERS}
    assert sizes["raw"] == len(TOOLS)
    assert all(sizes.values())
    for name, tools in sizes.items():
        # Each has a name and a schema, and none is a page long.
        assert 5 * tools < told[f'douane_registry_tokens{{server="{name}"}}'] < 1000 * tools


def test_a_call_in_front_of_all_servers_counts_for_its_own(gateway: Corridor, raw: Raw) -> None:
    before = series(gateway)
    poster = Poster(gateway, ALL)
    raw.play(instead("tools/call", answers_result(FAILS)))
    poster.call("raw__allowed")
    poster.call("search_tools", {"query": "anything"})
    after = series(gateway)
    for name in (
        'douane_tool_calls_total{outcome="failed",server="raw",tool="allowed"}',
        'douane_tool_calls_total{outcome="ok",server="",tool="search_tools"}',
    ):
        assert after[name] == before.get(name, 0) + 1


def test_no_log_and_no_file_holds_a_secret_or_an_argument(
    gateway: Corridor, poster: Poster, raw: Raw
) -> None:
    secrets = [poster.token, gateway.running.client("raw")["client_secret"], CANARY]
    poster.call("allowed", {"text": CANARY})
    poster.call("denied", {"text": CANARY})
    poster.call("hidden", {"text": CANARY})
    poster.legacy("tools/call", {"name": "allowed", "arguments": {"text": CANARY}})
    poster.post(CANARY.encode(), *mirrored("tools/list", {}))
    poster.post(b"{}", ("Cookie", CANARY), ("X-Api-Key", CANARY), ("Mcp-Session-Id", CANARY))
    poster.modern("tools/call", {"name": "allowed", "_meta": {"douane/task": {"prompt": CANARY}}})
    raw.play(instead("tools/call", answers(CANARY, status=500, media="text/plain")))
    poster.call("allowed", {})
    raw.play(instead("tools/call", answers(f'{{"{CANARY}": 1}}')))
    poster.call("allowed", {})
    assert gateway.running.rows("audit", "query", "--limit", "5")
    data = gateway.folder / "data"
    files = [gateway.folder / "gateway.log", *(p for p in data.iterdir() if p.is_file())]
    kept = set() if SHARED else {"douane.db"}
    assert {*kept, "gateway.log"} <= {path.name for path in files}
    for path in files:
        octets = path.read_bytes()
        assert [one for one in secrets if one.encode() in octets] == [], path.name
    assert not re.search(r"eyJ[\w-]{10,}\.[\w-]{10,}\.", gateway.running.log)


def test_every_line_of_the_log_is_an_object_for_operators(gateway: Corridor) -> None:
    lines = [json.loads(line) for line in gateway.running.log.splitlines()]
    assert all({"event", "level", "logger", "timestamp"} <= line.keys() for line in lines)
    assert [line for line in lines if line["level"] == "critical" or "exception" in line] == []


@pytest.mark.parametrize("host", ["127.0.0.1:1", "evil.example"])
def test_the_admin_listener_answers_to_its_own_name_only(gateway: Corridor, host: str) -> None:
    for path in ("/metrics", "/readyz", "/healthz"):
        asked = urllib.request.Request(f"{gateway.running.admin_url}{path}", headers={"Host": host})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(asked, timeout=60)
        with refused.value:
            assert refused.value.code == 421


def test_the_files_are_for_their_owner_alone(gateway: Corridor) -> None:
    def mode(path: Path) -> int:
        return path.stat().st_mode & 0o777

    data = gateway.folder / "data"
    assert mode(data) == 0o700
    assert {path.name: mode(path) for path in data.glob("*.key") if mode(path) != 0o600} == {}
    assert mode(data / "douane.sock") == 0o600
