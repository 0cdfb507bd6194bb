"""A log of any size that looks like a month of a company's: a valid tree, one signed checkpoint.

python -m benchmarks.audit.corpus DIRECTORY 1000000
"""

import hashlib
import random
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import orjson

from gateway.audit.merkle import leaf_hash
from gateway.audit.record import FIELDS, Entry, columns_of
from gateway.storage.connection import Durability, open_writer
from gateway.storage.database import DATABASE, Database, JobOutcome
from gateway.storage.files import create_private, private_directory
from gateway.storage.keys import Keys

DAYS = 30
PRINCIPALS = 500
SERVERS = 40
TOOLS = 300
REFUSED = 0.03
ASKED = 0.002
OTHER = 0.02
"""Of the records: sign-ins, tokens, changes."""
MOST_SOURCES = 12
END = 1_790_000_000.0
"""When the last record was written, in seconds since the epoch."""

_BATCH = 8192
_EFFECTS = ("read", "read", "read", "read", "write", "egress", "destroy")
_RULES = ("private_data_leaves", "untrusted_destination", "not_in_task", "outside_hours")
_POLICY = "sha256:" + "5a" * 32


class _World:
    """Who and what there is, drawn as unevenly as people work."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.principals = [f"person{number:03d}" for number in range(PRINCIPALS)]
        self.servers = ["crm", "mail", *(f"server{number:02d}" for number in range(2, SERVERS))]
        self.tools = [
            (self.servers[number % SERVERS], f"tool_{number:03d}", _EFFECTS[number % len(_EFFECTS)])
            for number in range(TOOLS)
        ]
        self.of_tools = list(accumulate(1 / (rank + 3) for rank in range(TOOLS)))
        self.of_principals = list(accumulate(1 / (rank + 10) for rank in range(PRINCIPALS)))
        self.runs: dict[str, tuple[str, list[dict[str, Any]], int]] = {}
        self.number = 0

    def hashed(self, what: object) -> str:
        return "h1:" + hashlib.sha256(repr(what).encode()).hexdigest()


def records(rows: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    """Yield `rows` records, oldest first, as the stored objects but for `log_id`."""
    world, begin = _World(seed), END - DAYS * 86400
    made = 0
    while made < rows:
        for record in _some(world, made):
            if made == rows:
                return
            at = begin + DAYS * 86400 * (made + 1) / rows
            record["id"] = f"{int(at * 1000):012x}{'c0ffee' * 2}{made & 0xFFFFFFFF:08x}"
            record["time"] = _text(at)
            yield record
            made += 1


def _text(at: float) -> str:
    whole, part = divmod(round(at * 1e6), 1_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{part:06d}Z"


def _some(world: _World, leaf_index: int) -> list[dict[str, Any]]:
    """Return what one event writes: two records of a call, one of a refusal or a sign-in."""
    dice = world.dice
    principal = dice.choices(world.principals, cum_weights=world.of_principals)[0]
    if dice.random() < OTHER:
        return [{"kind": "auth", "principal": principal, "method": "sign-in", "verdict": "allow",
                 "reasons": [{"code": "signed_in", "message": "by password"}]}]  # fmt: skip
    server, tool, effect = dice.choices(world.tools, cum_weights=world.of_tools)[0]
    run, sources, left = world.runs.get(principal, ("", [], 0))
    if left == 0:
        world.number += 1
        run, sources, left = f"r_{world.number:020x}", [], dice.randint(5, 60)
    world.number += 1
    call = _call(world, principal, (server, tool, effect), run, sources)
    seen = any(source["server"] == server for source in sources)
    if effect == "read" and not seen and len(sources) < MOST_SOURCES:
        sources = [*sources, {"server": server, "tool": tool, "record": f"{leaf_index:032x}"}]
    world.runs[principal] = (run, sources, left - 1)
    return _told(world, call)


def _call(
    world: _World,
    principal: str,
    tool: tuple[str, str, str],
    run: str,
    sources: list[dict[str, Any]],
) -> dict[str, Any]:
    dice, number = world.dice, world.number
    server, target, effect = tool
    value = dice.randint(1, 200_000)
    call: dict[str, Any] = {
        "kind": "intent",
        "principal": principal,
        "client": f"c_{hash_of(principal)}",
        "endpoint": f"/mcp/{server}",
        "revision": "2026-03-26",
        "method": "tools/call",
        "server": server,
        "target": target,
        "effect": effect,
        "pin_digest": "sha256:" + hashlib.sha256(target.encode()).hexdigest(),
        "arguments_hmac": world.hashed((target, value)),
        "arguments": {"to": world.hashed(value), "body": world.hashed(("body", value))},
        "roles": ["user"],
        "source_ip": f"10.0.{number % 250}.{number % 199}",
        "token_id": f"{number // 40:032x}",
        "label_before": {"integrity": "untrusted", "confidentiality": "private"},
        "verdict": "allow",
        "reasons": [{"code": "allowed", "message": "its labels allow what the tool does"}],
        "policy_digest": _POLICY,
        "decision_id": f"d_{number:032x}",
        "run": run,
        "origin": "direct",
        "trace_id": f"{number:032x}",
    }
    if sources:
        call["sources"] = sources
    if effect not in {"read", "write"}:
        call["destinations"] = [
            {"path": "$.to", "value": world.hashed(value), "integrity": "untrusted",
             "proof": dice.choice(("tenant", "typed", "none"))}
        ]  # fmt: skip
    return call


def hash_of(principal: str) -> str:
    return hashlib.sha256(principal.encode()).hexdigest()[:16]


def _told(world: _World, call: dict[str, Any]) -> list[dict[str, Any]]:
    dice = world.dice
    answered = {**call, "kind": "outcome", "label_after": call["label_before"],
                "upstream_status": 200, "result_hmac": world.hashed(world.number),
                "result_bytes": dice.randint(100, 9000), "duration_us": dice.randint(900, 90_000)}  # fmt: skip
    drawn = dice.random()
    if drawn < REFUSED:
        rule = dice.choice(_RULES)
        reasons = [{"code": rule, "message": f"policy says no: {rule.replace('_', ' ')}"}]
        return [{**call, "kind": "outcome", "verdict": "deny", "code": "denied",
                 "reasons": reasons, "duration_us": 900}]  # fmt: skip
    if drawn > 1 - ASKED:
        id_ = f"a_{world.number:032x}"
        about = {name: call[name] for name in ("server", "target", "run", "decision_id")}
        asked = {**about, "kind": "approval", "principal": call["principal"], "verdict": "ask",
                 "code": "asked", "approval_id": id_}  # fmt: skip
        answer = {**about, "kind": "approval", "principal": "user:noah", "verdict": "allow",
                  "code": "allowed", "approval_id": id_}  # fmt: skip
        refusal = {**call, "kind": "outcome", "verdict": "ask", "code": "approval_required",
                   "approval_id": id_}  # fmt: skip
        again = {"approval_id": id_, "decision_id": f"d_{world.number:031x}b"}
        return [asked, refusal, answer, {**call, **again}, {**answered, **again}]
    return [call, answered]


def write(data_dir: Path, rows: int, told: Callable[[int], None] = lambda _: None) -> None:
    """Write a log of `rows` records into `data_dir`, which has none yet, and sign it.

    `told` is called now and then with how many there are.
    """
    data_dir = private_directory(data_dir)
    keys = Keys.open(data_dir)
    database = Database.open(
        data_dir,
        durability=Durability.PROCESS,
        wait_s=5.0,
        key=keys.audit,
        connect=lambda: _connected(data_dir / DATABASE),
    )
    try:
        batch: list[Entry] = []
        for number, record in enumerate(records(rows), 1):
            record["log_id"] = database.log_id
            batch.append(_entry(record))
            if len(batch) == _BATCH:
                database.commit([(entry, JobOutcome()) for entry in batch], [])
                batch = []
                told(number)
        database.commit([(entry, JobOutcome()) for entry in batch], [])
        database.sign()
        told(rows)
    finally:
        database.close()


def _connected(path: Path) -> sqlite3.Connection:
    """Open the database as the gateway does, but to be filled rather than to last."""
    create_private(path)
    connection = open_writer(path, durability=Durability.PROCESS, wait_s=5.0)
    connection.execute(f"PRAGMA cache_size = -{512 << 10}")
    connection.execute(f"PRAGMA wal_autocheckpoint = {64 << 10}")  # pages: 256 MiB
    connection.execute("PRAGMA synchronous = OFF")
    return connection


def _entry(record: dict[str, Any]) -> Entry:
    body = orjson.dumps({name: record[name] for name in FIELDS if name in record})
    return Entry(columns=columns_of(body), body=body, leaf=leaf_hash(body))


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]))
