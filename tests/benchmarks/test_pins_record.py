"""The recorder keeps what a server shows as it is, page by page."""

import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.client.stdio import StdioServerParameters

from benchmarks.pins.record import shown_by

SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    cursor = asked.get("params", {}).get("cursor")
    if "id" not in asked:
        continue
    if asked["method"] == "initialize":
        said = {"capabilities": {"tools": {}}, "serverInfo": {"name": "x", "new": [1]}}
    elif ENDLESS or cursor is None:
        said = {"tools": [{"name": "a", "unknown": {"x": None}}], "nextCursor": "2"}
    else:
        said = {"tools": [{"name": "b"}]}
    print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}))
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": said}), flush=True)
"""


async def shown(tmp_path: Path, script: str) -> dict[str, list[Any]]:
    (tmp_path / "server.py").write_text(script)
    parameters = StdioServerParameters(command=sys.executable, args=[str(tmp_path / "server.py")])
    with (tmp_path / "stderr").open("w") as errors:
        return await shown_by(parameters, errors)


async def test_every_page_of_every_declared_list_is_kept_as_it_was_sent(tmp_path: Path) -> None:
    assert await shown(tmp_path, SERVER.replace("ENDLESS", "False")) == {
        "server": [{"capabilities": {"tools": {}}, "serverInfo": {"name": "x", "new": [1]}}],
        "tool": [{"name": "a", "unknown": {"x": None}}, {"name": "b"}],
    }


async def test_a_list_without_end_is_not_recorded(tmp_path: Path) -> None:
    with pytest.raises(ExceptionGroup):
        await shown(tmp_path, SERVER.replace("ENDLESS", "True"))


async def test_a_server_that_ends_at_once_is_not_recorded(tmp_path: Path) -> None:
    with pytest.raises(ExceptionGroup):
        await shown(tmp_path, "raise SystemExit(1)")
