"""The commands of a first hour, against a gateway that runs."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import forks
from tests.demo.client import connected
from tests.e2e.posting import Poster
from tests.e2e.scripted import Raw
from tests.e2e.site import Corridor
from tests.running import DOUANE


def command(*arguments: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return forks.run("gateway.cli", arguments, timeout=60, cwd=folder) or installed(
        *arguments, folder=folder
    )


def installed(*arguments: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run the program as it is installed."""
    return subprocess.run(
        [DOUANE, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )


def test_a_folder_is_set_up_checked_and_its_policy_tested(tmp_path: Path) -> None:
    made = installed("init", folder=tmp_path)
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "douane.yaml").exists()
    assert command("check", folder=tmp_path).returncode == 0
    assert command("policy", "check", folder=tmp_path).returncode == 0
    assert command("policy", "test", folder=tmp_path).returncode == 0
    schema = json.loads(command("config", "schema", folder=tmp_path).stdout)
    assert "servers" in schema["properties"]
    (tmp_path / "douane.yaml").write_text(
        "version: 1\npublic_url: http://127.0.0.1:1\nserver: {}\n"
    )
    wrong = command("check", folder=tmp_path)
    assert wrong.returncode == 1
    assert "server" in wrong.stdout + wrong.stderr
    assert "3" in wrong.stdout + wrong.stderr  # the line
    assert command("no-such-command", folder=tmp_path).returncode == 2


async def test_from_a_pending_tool_to_an_answer_that_the_log_can_prove(
    gateway: Corridor, raw: Raw
) -> None:
    running = gateway.running
    (server,) = [row for row in running.rows("servers", "list") if row["server"] == "raw"]
    assert server["status"] == "ok"
    shown = running.rows("pins", "show", "raw", "allowed")
    assert {row["profile"] for row in shown} == {"legacy", "modern"}
    running.rows("pins", "revoke", "raw", "amounts", "--note", "not today")
    poster = Poster(gateway, "raw")
    assert poster.call("amounts", {"amount": 1}).refusal == "pin_revoked"
    assert raw.seen == []
    running.rows("pins", "approve", "raw", "amounts", "--note", "today")
    assert running.douane("pins", "check").returncode == 0

    async with connected(gateway.endpoint("raw"), gateway.token("raw")) as client:
        result: Any = await client.call_tool("allowed", {"text": "hello"})
        assert json.loads(result.content[0].text) == {"text": "hello"}
        refused: Any = await client.call_tool("denied", {})
    refusal = refused.meta["douane/refusal"]

    *explained, again = running.rows("policy", "explain", refusal["decision_id"])
    assert [one["code"] for one in explained] == ["denied"]
    assert again["reevaluation"]["finding"] == "same"
    assert explained[0]["client"] == running.client("raw")["client_id"]
    found = running.rows("audit", "query", "--code", "denied", "--limit", "1")
    assert found[0]["decision_id"] == refusal["decision_id"]
    (one,) = running.rows("audit", "show", found[0]["id"])
    assert one["leaf_hash"] == found[0]["leaf_hash"]
    run = found[0]["run"]
    assert run in {row["run"] for row in running.rows("runs", "list")}
    assert running.rows("runs", "show", run)
    assert running.rows("audit", "stats")
    exported = running.douane("audit", "export", "--format", "jsonl")
    assert refusal["decision_id"] in exported.stdout
    assert running.douane("audit", "verify").returncode == 0


def test_a_list_of_approvals_is_signed(gateway: Corridor, tmp_path: Path) -> None:
    lock = tmp_path / "pins.lock"
    done = gateway.running.douane("pins", "export", str(lock))
    assert done.returncode == 0, done.stderr
    assert gateway.running.douane("pins", "check", "--lock", str(lock)).returncode == 0
    lock.write_text(lock.read_text().replace("sha256:", "sha256:0", 1))
    assert gateway.running.douane("pins", "check", "--lock", str(lock)).returncode != 0


def test_a_secret_is_shown_once_and_kept_nowhere(gateway: Corridor) -> None:
    secret = gateway.running.client("raw", name="keeper")["client_secret"]
    listed = gateway.running.douane("clients", "list", "--json")
    assert "keeper-raw" in listed.stdout
    assert secret not in listed.stdout
    again = gateway.running.douane(
        *("clients", "add", "keeper-raw", "--resource", "/mcp/raw", "--scope", "tools:call")
    )
    assert again.returncode != 0
    assert "exists" in again.stderr


@pytest.mark.parametrize(
    "wrong", [("pins", "approve", "raw", "nothing-of-this-name"), ("audit", "show", "nothing")]
)
def test_what_does_not_exist_is_said_and_exits_1(gateway: Corridor, wrong: tuple[str, ...]) -> None:
    done = gateway.running.douane(*wrong)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
