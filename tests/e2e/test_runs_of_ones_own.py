"""Whoever may end and relabel runs does neither with that of their own calls, by whichever door."""

import json
import os
import pwd
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.e2e.own import own_gateway
from tests.e2e.scripted import Raw
from tests.e2e.site import Corridor
from tests.e2e.test_grants_and_runs import LOOPBACK, READS, Signed, person
from tests.running import Running
from tests.servers.process import ROOT
from tests.signin.browser import Browser
from tests.signin_e2e.house import register

GROUPS = ("--group", "users", "--group", "security", "--group", "admins")
ME = pwd.getpwuid(os.getuid()).pw_name
WORDS = ("--integrity", "trusted", "--confidentiality", "public", "--note", "it is mine")
REFUSED = "this is a run of your own calls"


async def admin_token(at: Corridor, browser: Browser) -> str:
    """Return what `douane login` would get in that browser."""
    signed = Signed(at, browser, client={"client_id": "douane-cli"}, uri=LOOPBACK, server="raw")
    signed.poster.url = f"{at.url}/api/v1"
    signed.session = ("Mcp-Session-Id", "none")
    await signed.let_in("admin")
    return signed.poster.token


def over_http(at: Corridor, token: str, command: str, **arguments: Any) -> tuple[int, Any]:
    request = urllib.request.Request(
        f"{at.running.admin_url}/api/v1/{command.replace('.', '/')}", json.dumps(arguments).encode()
    )
    request.add_header("Content-Type", "application/json")
    request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def refused_at_the_command_line(running: Running, run: str) -> None:
    for command in (("end", run), ("relabel", run, *WORDS)):
        done = running.douane("runs", *command)
        assert (done.returncode, REFUSED in done.stderr) == (1, True), done.stderr


async def test_nobody_speaks_for_their_own_run_at_any_door(
    tmp_path: Path, session_raw: Raw
) -> None:
    with own_gateway(tmp_path, session_raw, ROOT / "policies") as at:
        browser = await person(at, *GROUPS, "--os-user", ME)
        client = {"client_id": register(at.url, LOOPBACK)}
        signed = Signed(at, browser, client=client, uri=LOOPBACK, server="raw")
        await signed.let_in(READS)
        assert signed.calls("page") is None
        (row,) = at.running.rows("runs", "list", "--live")
        run = row["run"]

        # The socket, where the operating system says who it is.
        refused_at_the_command_line(at.running, run)

        # The admin API, with a token of theirs.
        token = await admin_token(at, browser)
        label = {"integrity": "trusted", "confidentiality": "public"}
        label |= {"look": "0.mine", "note": "it is mine"}
        seen = {f"seen_{name}": row[name] for name in ("integrity", "confidentiality")}
        for command, arguments in (("runs.end", {}), ("runs.relabel", {**seen, **label})):
            status, told = over_http(at, token, command, run=run, **arguments)
            assert (status, told["code"]) == (403, "forbidden")
            assert REFUSED in told["message"]
        (after,) = at.running.rows("runs", "list", "--live")
        assert {**after, "idle_s": 0} == {**row, "idle_s": 0}
        running = at.running

    # The files, when no gateway runs.
    refused_at_the_command_line(running, run)
    (row,) = (one for one in running.rows("runs", "list") if one["run"] == run)
    assert (row["live"], row["confidentiality"]) == (True, seen["seen_confidentiality"])

    # Whose word counts is somebody else's: the operator's, for whom no person stands.
    (noah,) = (one for one in running.rows("users", "list") if one["os_user"] == ME)
    running.rows("users", "change", noah["user"], "--no-os-user")
    assert running.rows("runs", "end", run)[0]["ended"] is True
