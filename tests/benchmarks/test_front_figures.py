"""Figures of what hosts get at the one endpoint, measured small."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from benchmarks.discovery import report
from benchmarks.front import crowd, saving
from benchmarks.front.labelled import names_of, tools_of
from benchmarks.front.saving import Saved

ROWS: list[dict[str, Any]] = [
    {"id": "a/x", "server": "Asset_Price MCP", "name": "x", "description": "Says x."},
    {"id": "b/x", "server": "asset-price-mcp", "name": "x", "input_schema": {"type": "object"}},
    {"id": "c/y", "server": "12306-mcp", "name": "y"},
]


def test_servers_of_a_set_get_names_that_a_configuration_takes() -> None:
    tools = tools_of(ROWS)
    assert list(tools) == ["asset-price-mcp", "asset-price-mcp-1", "12306-mcp"]
    assert tools["12306-mcp"] == [
        {"name": "y", "description": "", "inputSchema": {"type": "object"}}
    ]
    assert names_of(ROWS) == {
        "a/x": "asset-price-mcp__x",
        "b/x": "asset-price-mcp-1__x",
        "c/y": "12306-mcp__y",
    }


def test_what_is_saved_counts_all_that_is_read_instead_and_is_rounded_down() -> None:
    saved = Saved(
        tools=1, list=1000, definitions=5, search=3.0, details=2.6, brief=240, described=9.1
    )
    assert saved.by_search_percent == 98.9
    assert saved.by_descriptions_percent == 75.0
    assert saved.figures("s")["tokens.s.saved_percent"] == 98.9


@pytest.mark.parametrize(
    ("name", "kept", "broken"),
    [
        ("tokens.livemcp.saved_percent", 99.0, 98.9),
        ("tokens.livemcp.brief_saved_percent", 75.0, 74.9),
        ("behind.hung.resources.of_others_percent", 100.0, 99.9),
        ("behind.hung.call.ratio", 1.5, 1.6),
        ("behind.hung.call.while_listing_ratio", 1.5, 1.6),
        ("scale.1000.keyword.p50_ms", 1.0, 1.1),
        ("scale.10000.keyword.p50_ms", 5.0, 5.1),
    ],
)
def test_a_promise_that_is_not_kept_is_a_failure(name: str, kept: float, broken: float) -> None:
    assert report.failures_of({name: kept}) == []
    (told,) = report.failures_of({name: broken})
    assert told.startswith(f"{name} is {broken}")


def test_the_plan_is_twenty_servers_with_a_thousand_tools() -> None:
    tools = crowd.tools_of(crowd.Plan())
    names = {(server, tool["name"]) for server, listed in tools.items() for tool in listed}
    assert (len(tools), len(names)) == (20, 1_000)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name: a socket's path has hundred bytes."""
    with TemporaryDirectory(prefix="front-") as made:
        yield Path(made)


@pytest.mark.full
def test_one_server_that_hangs_leaves_the_others_as_they_are(folder: Path) -> None:
    figures = crowd.measure(crowd.QUICK, folder)
    assert figures["hung.resources.of_others_percent"] == 100.0
    assert {name: figures[name] for name in ("servers", "tools")} == {"servers": 4, "tools": 40}
    assert [name for name, figure in figures.items() if not figure > 0 or math.isinf(figure)] == []
    # Whoever waits for the one that hangs waits for seconds, and these calls do not; nor does anybody
    # who has waited once.
    assert figures["hung.call.p95_ms"] < figures["hung.resources.first_ms"] / 2
    assert figures["hung.resources.last_ms"] < figures["hung.resources.first_ms"] / 2


def test_the_ratio_is_that_of_the_usual_round() -> None:
    """Whatever else the machine did in one of them, it did not do in most."""
    round_ = crowd.Round(
        plain=[1.0, 2.0, 9.0],
        listing=1.0,
        beside=[1.0, 3.0, 5.0],
        while_listing=[],
        there=1,
        waits=[1.0],
    )
    assert round_.ratio(round_.beside) == 1.5
    assert crowd.Plan().rounds % 2 == 1


def test_what_is_saved_is_counted_at_a_real_gateway(folder: Path) -> None:
    tools = crowd.tools_of(crowd.QUICK)
    saved = saving.measure(folder, tools, ["who owns the invoice"])
    sent = [tool for listed in tools.values() for tool in listed]
    octets = len(json.dumps(sent, separators=(",", ":")))
    assert saved.tools == len(sent)
    # Names have their server's before them.
    assert octets / 4 < saved.list < 1.1 * octets / 4
    assert 0 < saved.details < saved.list / 4
    assert 0 < saved.search < saved.list / 4
    assert 0 < saved.described < saved.brief < saved.list / 2
