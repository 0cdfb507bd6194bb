"""Every table of the command line fits 80 columns, however long what it shows is, and names people."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import pytest

from gateway.cli import main
from gateway.cli.output import screen_columns
from tests.cli.world import Site

LONG = "a-name-that-somebody-chose-and-that-goes-on-and-on-for-more-than-sixty-characters"
ID = "01a205aa9320083762eb118c0000005d"
TIME = "2026-11-22T23:49:54.592Z"
CLIENT = "9650d30c39bce429f6aff027f53a03ab"
DIGEST = "sha256:" + "0123456789abcdef" * 4
LABEL = {"integrity": "untrusted", "confidentiality": "internal"}
ROLES: dict[str, Any] = {"name": "os:root", "roles": ["admin"], "user_id": None, "how": "socket"}
CLIENTS: list[dict[str, Any]] = [
    {
        "client_id": CLIENT,
        "name": "robot",
        "kind": "registered",
        "grants": ["client_credentials"],
        "resources": ["/mcp", f"/mcp/{LONG}"],
        "scopes": ["prompts", "resources", "tools:call", "tools:list", "tools:write"],
        "groups": ["users", LONG],
        "created_by": f"user:{LONG}",
    }
]
RECORD: dict[str, Any] = {
    "id": ID,
    "leaf_index": 1234567,
    "leaf_hash": "ab" * 32,
    "time": TIME,
    "kind": "approval",
    "principal": CLIENT,
    "client": CLIENT,
    "server": LONG,
    "target": LONG,
    "verdict": "allow",
    "code": "approval_required",
    "run": f"r_{CLIENT}",
    "decision_id": f"d_{CLIENT}",
}
APPROVAL: dict[str, Any] = {
    "id": ID,
    "state": "waiting",
    "server": LONG,
    "kind": "tool",
    "name": LONG,
    "effect": "destroy",
    "subject": LONG,
    "client_id": CLIENT,
    "client": LONG,
    "run": f"r_{CLIENT}",
    "codes": ["no_destination", "private_to_outside"],
    "asked": 12,
    "asked_at": TIME,
    "expires_at": TIME,
    "self_approval": False,
    "by": f"user:{LONG}",
    "answered_at": None,
    "span": "run",
    "note": LONG,
    "url": f"https://gateway.example/approve/{ID}",
    "void": "its run has ended",
    "stands_until": TIME,
}
STANDING: dict[str, Any] = {
    **APPROVAL,
    "times": 3,
    "destinations": [{"path": "$.to", "value": LONG}, {"path": "$.cc", "value": LONG}],
    "confidentiality": "private",
    "given_at": TIME,
}
PIN: dict[str, Any] = {
    "server": LONG,
    "kind": "template",
    "name": LONG,
    "profile": "legacy",
    "status": "approved",
    "observed_digest": DIGEST,
    "approved_by": f"user:{LONG}",
    "approved_at": TIME,
    "note": LONG,
    "problem": "changed since",
    "digest": DIGEST,
    "result": "approved",
    "filed": [],
}
PERSON = {"user": LONG, "name": LONG, "client": LONG, "client_id": CLIENT}
SPAN = {"created_at": TIME, "expires_at": TIME, "given_at": TIME}
OPEN: dict[str, Any] = {
    **PERSON,
    **SPAN,
    "session": CLIENT * 2,
    "grant": CLIENT,
    "server": LONG,
    "issuer": f"https://{LONG}.example",
    "resource": f"/mcp/{LONG}",
    "scopes": CLIENTS[0]["scopes"],
    "redirect_uri": f"http://127.0.0.1/{LONG}",
    "connected_at": TIME,
    "refreshed_at": TIME,
    "source_ip": "2001:db8:1234:5678:9abc:def0:1234:5678",
    "user_agent": LONG * 2,
}
COUNTED: dict[str, Any] = {
    **RECORD,
    "name": CLIENT,
    "tool": LONG,
    "effect": "destroy",
    "rule": LONG,
    "calls": 123456,
    "refused": 12345,
    "outside": 1234,
    "records": 123456,
    "last": TIME,
    "where": "$.arguments.to[0]",
    "record": ID,
}
SENT: dict[str, Any] = {
    **COUNTED,
    "source_ip": "127.0.0.1",
    "went_out": True,
    "seen": [{"server": LONG, "tool": LONG, "record": "r7"}],
    "label": LABEL,
    "destinations": [{"path": "$.to[0]", "value": LONG, "proof": "none"}],
    "policy_digest": DIGEST,
    "policy_since": TIME,
    "rules": ["unproven_destination"],
    "approval": None,
    "signed": True,
}
STEP: dict[str, Any] = {
    **RECORD,
    "seq": 1,
    "depth": 0,
    "method": "tools/call",
    "effect": "destroy",
    "verdict": "ask",
    "reasons": ["no_destination_of_any_kind_at_all"],
    "label_before": LABEL,
    "label_after": LABEL,
    "destinations": [{"path": "$.to[0]", "proof": "typed", "integrity": "untrusted"}],
    "label_because": "unknown_run",
}
RUN: dict[str, Any] = {
    "run": f"r_{CLIENT}",
    "live": True,
    **LABEL,
    "sources": 3,
    "part_of": f"r_{CLIENT}",
    "task": False,
    "idle_s": 4000,
}
ASKED: dict[str, Any] = {"since": TIME, "through": 1234567, "complete": True, "next": None}

TABLES: dict[str, tuple[str, Any]] = {
    "approvals list": ("approvals.list", [APPROVAL]),
    "approvals list --all": ("approvals.list", [{**APPROVAL, "state": "expired"}]),
    f"approvals allow {ID}": ("approvals.allow", APPROVAL),
    "approvals standing list": ("approvals.standing", [STANDING]),
    "usage": (
        "usage.list",
        [
            {
                "quota": "team-mails",
                "of": {"person": LONG, "tool": LONG},
                "count": "calls",
                "used": 199,
                "most": 200,
                "until": "2026-11-28T00:00:00.000Z",
            }
        ],
    ),
    "alerts list": (
        "alerts.list",
        [{"webhook": LONG, "host": LONG, "events": ["approval"], "waiting": 1, "failing": LONG}],
    ),
    "alerts state": ("alerts.state", [{"view": "principal", "known": 1, "learned": 0}]),
    "audit query": ("audit.query", [RECORD]),
    "audit tail": ("audit.tail", [RECORD]),
    "audit exports": (
        "audit.exports",
        [{"name": LONG, "state": "ok", "done": 1, "behind": 0, "error": LONG, "answer": LONG}],
    ),
    "audit hold": ("audit.holds", [{"name": LONG, "held_from": TIME}]),
    "audit archive --before 1d": (
        "audit.archive",
        [{"first": 1, "last": 99, "file": f"/var/lib/{LONG}", "sha256": "ab" * 32}],
    ),
    "audit ask denied": ("audit.ask", {**ASKED, "rows": [RECORD]}),
    "audit ask denied --by-rule": ("audit.ask", {**ASKED, "rows": [COUNTED]}),
    "audit ask top": ("audit.ask", {**ASKED, "rows": [COUNTED]}),
    "audit ask top --by client": ("audit.ask", {**ASKED, "rows": [COUNTED]}),
    "audit ask top --by tool": ("audit.ask", {**ASKED, "rows": [COUNTED]}),
    "audit ask timeline robot": ("audit.ask", {**ASKED, "rows": [RECORD]}),
    "audit ask who-called s t": ("audit.ask", {**ASKED, "rows": [COUNTED]}),
    "audit ask flows --from s": ("audit.ask", {**ASKED, "rows": [COUNTED]}),
    "audit ask undeclared": ("audit.ask", {**ASKED, "rows": [COUNTED]}),
    "audit ask where-went x": ("audit.ask", {**ASKED, "rows": [COUNTED]}),
    "audit ask sent-outside --from s": ("audit.ask", {**ASKED, "rows": [SENT]}),
    "clients list": ("clients.list", CLIENTS),
    "discovery core": ("discovery.core", [{"name": LONG * 2, "status": "ok", "tokens": 1}]),
    "discovery tokens": ("discovery.tokens", [{"server": LONG, "tools": 1, "tokens": 784}]),
    "keys list": (
        "keys.list",
        [{"use": "access tokens", "id": CLIENT + "x" * 11, "state": "active", "public": DIGEST}],
    ),
    "pins list": ("pins.list", [PIN]),
    "pins check": ("pins.check", {"ok": True, "drift": [PIN]}),
    "runs list": ("runs.list", [RUN]),
    f"runs show r_{CLIENT}": (
        "runs.show",
        {
            **RUN,
            "because": [],
            "sources": [],
            "principals": [CLIENT],
            "left_out": False,
            "steps": [STEP],
        },
    ),
    "runs programs": (
        "runs.programs",
        [
            {
                "script": CLIENT,
                "principal": f"http://127.0.0.1:8080|{LONG}|{CLIENT}",
                "run": CLIENT,
                "waits": True,
                "grants": None,
                "age_s": 61,
                "ends_in_s": 3600,
            }
        ],
    ),
    "servers list": (
        "servers.list",
        [
            {
                "server": LONG,
                "url": f"https://{LONG}.example/mcp",
                "status": "unreachable",
                "pins": {"pending": 24, "approved": 3, "drifted": 1, "revoked": 0},
                "error": LONG,
            }
        ],
    ),
    "users list": (
        "users.list",
        [
            {
                **PERSON,
                "groups": [LONG],
                "roles": ["admin", "approver", "auditor", "user"],
                "os_user": "root",
                "disabled": False,
                "created_by": LONG,
            }
        ],
    ),
    "users sessions list": ("sessions.list", [OPEN]),
    "users consents list": ("consents.list", [OPEN]),
    "users grants list": ("grants.list", [OPEN]),
    "users connections list": ("connections.list", [OPEN]),
}
"""What prints a table, by the command that does: the use case it calls, and what that returns."""

ELSEWHERE = {
    "pins approve",
    "pins revoke",
    "pins import",
    "approvals deny",
    "approvals standing end",
    "audit ask run",
    "check",
}
"""What prints the same tables with the same columns; `check` is held to it in `test_portability_command`."""


_ROOMS = (
    *("access", "alerts", "approvals", "ask", "audit", "audit_export", "audit_keeping"),
    *("clients", "discovery", "operations", "pins", "runs", "usage", "users"),
)


class Answering:
    """A gateway that answers one command with what it is given."""

    def __init__(self, command: str, result: Any) -> None:
        lag = {"lag_s": 0.0, "late": False}
        self.answers = {"whoami": ROLES, "clients.list": CLIENTS, "audit.lag": lag, command: result}
        self.asked: dict[str, Any] = {}

    def call(self, command: str, **arguments: Any) -> Any:
        self.asked[command] = arguments
        return self.answers[command]

    def stream(self, command: str, **arguments: Any) -> Iterator[Any]:
        yield from self.call(command, **arguments)


def printed(
    site: Site, monkeypatch: pytest.MonkeyPatch, line: str, *options: str
) -> tuple[str, Answering]:
    command, result = TABLES[line]
    gateway = Answering(command, deepcopy(result))

    @contextmanager
    def connect(_: Any) -> Iterator[Answering]:
        yield gateway

    for name in _ROOMS:
        monkeypatch.setattr(sys.modules[f"gateway.cli.{name}"], "connect", connect)
    ran = site.run(*line.split(), *options)
    assert ran.exit_code == 0, ran.output
    return ran.stdout, gateway


@pytest.mark.parametrize("line", TABLES)
def test_every_table_fits_eighty_columns(
    site: Site, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    said, _ = printed(site, monkeypatch, line)
    assert max(map(screen_columns, said.splitlines())) <= 80, said


@pytest.mark.parametrize("line", [line for line in TABLES if line.split()[-1] in {"list", "query"}])
def test_wide_it_shows_everything_whole(
    site: Site, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    said, _ = printed(site, monkeypatch, line, "--wide")
    assert "\u2026" not in said


NAMED = {"audit query", "audit tail", "clients list"} | {
    line for line in TABLES if line.startswith("audit ask") and "--by-rule" not in line
}  # fmt: skip


@pytest.mark.parametrize("line", sorted(NAMED))
def test_a_client_is_shown_and_asked_for_by_its_name(
    site: Site, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    said, gateway = printed(site, monkeypatch, line)
    assert CLIENT not in said
    if line.split()[2:3] != ["flows"] and "--by tool" not in line:
        assert "robot" in said
    if "robot" in line:
        assert gateway.asked["audit.ask"]["principal"] == CLIENT


def test_a_call_that_named_an_unknown_run_says_so(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, _ = printed(site, monkeypatch, f"runs show r_{CLIENT}")
    assert "for              robot" in said
    *_, step, _, _, told = said.splitlines()
    assert step.startswith("x 1    23:49:54")
    assert step.endswith("untrusted internal*")
    assert told == "* it named a run that was not known, so it counted as untrusted"


def test_a_client_that_people_use_takes_nobodys_name(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CLIENTS[0], "kind", "dynamic")
    said, gateway = printed(site, monkeypatch, "audit ask timeline robot")
    assert gateway.asked["audit.ask"]["principal"] == "robot"
    assert "robot" not in said


def test_every_command_that_lists_is_held_to_that() -> None:
    told = {" ".join(line.split()[:3]) for line in TABLES} | ELSEWHERE

    def lists(group: Any, path: tuple[str, ...]) -> Iterator[str]:
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from lists(command, (*path, name))
            elif any(option.name == "wide" for option in command.params):
                yield " ".join((*path, name))

    held = {line for line in lists(main, ()) if not any(t.startswith(line) for t in told)}
    assert held == set()
