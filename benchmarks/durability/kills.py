"""A gateway that is killed under load again and again, and clients that remember its answers."""

import asyncio
import os
import secrets
import signal
import sqlite3
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from gateway.storage.database import DATABASE
from tests.backends import log_in
from tests.e2e.posting import body_of, mirrored, modern_params
from tests.e2e.scripted import Raw, raw_in_a_thread
from tests.e2e.site import SERVERS
from tests.running import Running, running_gateway
from tests.servers.process import free_port

CLIENTS = 16
TOOL = "allowed"
UNRECORDED = "audit_unavailable"
_ASKED = 20
SPOOLING = {"deadline": "100ms", "on_failure": "spool", "spool": {"bytes": 16 << 20}}
LOCKED_S, FREE_S = (0.1, 0.5), (0.05, 0.3)
ANSWERS = (10, 200)
"""A life is ended when so many calls of it have been answered: a random number between these."""
SPOOLED = 10
"""With a spool, not before so many records were in it at one moment."""
PATIENCE_S = 120.0


@dataclass
class Survival:
    """What clients remember of all lives of a gateway, and what its log holds of it."""

    kills: int = 0
    began: set[str] = field(default_factory=set)
    """Calls, by their trace ids (W3C Trace Context), which the log repeats."""
    answered: set[str] = field(default_factory=set)
    """Those whose result arrived."""
    odd: list[str] = field(default_factory=list)
    """Answers that are neither a result nor the end of the connection."""
    refused: int = 0
    """Calls that could be recorded nowhere, of those made while the log failed."""
    spooled: int = 0
    """Records that were acknowledged from the spool, as the log says."""
    records: defaultdict[str, list[tuple[str, str]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """Kind and decision of every record of a call; `refused` is an outcome that says that the one
    before was not known to be durable in time, in the spool neither, as on a busy machine."""
    met: asyncio.Event = field(default_factory=asyncio.Event)
    """Set whenever an answer is counted."""
    last: int = -1
    """Leaf index of the newest record that was read."""
    verify_failures: list[str] = field(default_factory=list)
    miscounted: list[str] = field(default_factory=list)
    """Where `audit stats` counts other intents without an outcome than we do."""
    forwarded: Counter[str] = field(default_factory=Counter)
    """How often the upstream saw each call."""

    @property
    def lost(self) -> list[str]:
        """Answered calls whose intent or outcome is not in the log."""
        return sorted(call for call in self.answered if {"intent", "outcome"} - self._kinds(call))

    @property
    def doubled(self) -> list[str]:
        """Calls with two intents, outcomes or decisions, or that the upstream saw twice."""
        doubled = {call for call, times in self.forwarded.items() if times > 1}
        for call, found in self.records.items():
            kinds = Counter(kind for kind, _ in found)
            if max(kinds.values()) > 1 or len({decision for _, decision in found}) > 1:
                doubled.add(call)
        return sorted(doubled)

    @property
    def unrecorded(self) -> list[str]:
        """Calls that the upstream saw and whose intent is not in the log."""
        return sorted(call for call in self.forwarded if "intent" not in self._kinds(call))

    @property
    def open_intents(self) -> int:
        """Intents without an outcome: nobody knows what became of these calls."""
        return sum({"intent"} == self._kinds(call) for call in self.records)

    @property
    def problems(self) -> list[str]:
        """Say what must not be."""
        found: dict[str, Iterable[str]] = {
            "answered, but not in the log": self.lost,
            "there twice": [f"{call}, {self.records.get(call, ())}" for call in self.doubled],
            "sent, but not recorded": self.unrecorded,
            "the log does not verify": self.verify_failures,
            "unknown outcomes are not counted": self.miscounted,
            "an answer that says nothing": self.odd,
        }
        return [f"{what}: {one}" for what, ones in found.items() for one in ones]

    def _kinds(self, call: str) -> set[str]:
        return {kind for kind, _ in self.records.get(call, ())}


def kill_under_load(folder: Path, kills: int, *, spool: bool = False) -> Survival:
    """Serve, load and kill, `kills` times over on one data directory; judge after each restart.

    With `spool`, another connection has the database's lock most of the time, so that most records
    are acknowledged from the spool.
    """
    survival = Survival()
    with ExitStack() as stack:
        raw = stack.enter_context(raw_in_a_thread())
        life = {
            "servers": {"raw": {"url": raw.url, **SERVERS["raw"]}},
            "ports": (free_port(), free_port()),
            "limits": {"calls_per_minute": 10_000_000},
            **({"audit": SPOOLING} if spool else {}),
        }
        for number in range(kills + 1):
            with running_gateway(folder, **life) as running:  # type: ignore[arg-type]
                if number == 0:
                    _approve(running)
                else:
                    _read_log(running, survival)
                if number < kills:
                    asyncio.run(_until_killed(running, survival, failing=spool))
        survival.forwarded.update(_forwarded(raw))
    return survival


def _approve(running: Running) -> None:
    """Approve all; on a busy machine the log may miss its deadline, and a person asks again."""
    for _ in range(_ASKED):
        with suppress(RuntimeError):
            return running.approve_all("raw")
    return running.approve_all("raw")


async def _until_killed(running: Running, survival: Survival, *, failing: bool) -> None:
    token = running.token("raw")
    database = running.folder / "data" / DATABASE
    with ExitStack() as stack:
        if failing:
            stack.enter_context(_failing_at_random(database))
        await _loaded(running, survival, token, spool=failing)
    running.process.wait()
    survival.kills += 1


async def _loaded(running: Running, survival: Survival, token: str, *, spool: bool) -> None:
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as http:
        url = f"{running.url}/mcp/raw"
        survival.met = asyncio.Event()  # each life is served in an event loop of its own
        clients = [asyncio.create_task(_client(url, http, survival)) for _ in range(CLIENTS)]
        async with asyncio.timeout(PATIENCE_S):
            if spool:
                await _until_it_spools(running)
            await _until_answered(survival, secrets.SystemRandom().randint(*ANSWERS))
        os.kill(running.process.pid, signal.SIGKILL)
        await asyncio.gather(*clients)


async def _until_answered(survival: Survival, calls: int) -> None:
    wanted = len(survival.answered) + calls
    while len(survival.answered) < wanted:
        survival.met.clear()
        await survival.met.wait()


async def _until_it_spools(running: Running) -> None:
    """Return once enough records wait in the spool; asking is what the time goes by with."""
    async with aiohttp.ClientSession() as http:
        found = 0.0
        while found < SPOOLED:
            async with http.get(f"{running.admin_url}/metrics") as answer:
                found = _spooled(await answer.text())


def _spooled(metrics: str) -> float:
    name = "douane_audit_spooled_records "
    values = [line.removeprefix(name) for line in metrics.splitlines() if line.startswith(name)]
    return float(values[0]) if values else 0.0


@contextmanager
def _failing_at_random(database: Path) -> Iterator[None]:
    """Have another connection hold the write lock, again and again."""
    ended, dice = threading.Event(), secrets.SystemRandom()

    def hold() -> None:
        with closing(sqlite3.connect(database, isolation_level=None, timeout=1)) as connection:
            while not ended.wait(dice.uniform(*FREE_S)):
                with suppress(sqlite3.OperationalError):
                    connection.execute("BEGIN IMMEDIATE")
                    ended.wait(dice.uniform(*LOCKED_S))
                    connection.execute("ROLLBACK")

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


async def _client(url: str, http: aiohttp.ClientSession, survival: Survival) -> None:
    """Call one tool after the other, until the connection ends."""
    while True:
        call = secrets.token_hex(16)
        params = {"name": TOOL, "arguments": {"text": call}}
        headers = {"Content-Type": "application/json", "traceparent": f"00-{call}-{'1' * 16}-01"}
        headers["Accept"] = "application/json, text/event-stream"
        headers.update(mirrored("tools/call", params))
        body = body_of("tools/call", modern_params(params))
        survival.began.add(call)
        try:
            async with http.post(url, data=body, headers=headers) as response:
                answer = await response.json()
        except aiohttp.ClientError:
            return
        if _is_result(answer, call):
            survival.answered.add(call)
            survival.met.set()
        elif UNRECORDED in str(answer):
            survival.refused += 1
        else:
            survival.odd.append(str(answer)[:200])


def _is_result(answer: Any, call: str) -> bool:
    content = answer.get("result", {}).get("content", [])
    return len(content) == 1 and call in content[0].get("text", "")


def _read_log(running: Running, survival: Survival) -> None:
    """Read what the last life left, and let the command line say whether it is whole."""
    done = running.douane("audit", "verify")
    if done.returncode != 0:
        survival.verify_failures.append(f"after kill {survival.kills}: {done.stdout}{done.stderr}")
    with log_in(running.folder) as reader:
        while page := reader.after(survival.last):
            for record in page:
                if record["kind"] == "gap":
                    survival.spooled += record["evidence"]["records"]
                if "trace_id" in record:
                    found = (_kind(record), record["decision_id"])
                    survival.records[record["trace_id"]].append(found)
            survival.last = page[-1]["leaf_index"]
    (stats,) = running.rows("audit", "stats")
    if stats["outcome_unknown"] != survival.open_intents:
        survival.miscounted.append(
            f"{stats['outcome_unknown']} after kill {survival.kills}, not {survival.open_intents}"
        )


def _kind(record: Mapping[str, Any]) -> str:
    """Tell an outcome from the one that says of it that it may have come too late."""
    late = record["kind"] == "outcome" and record.get("code") == UNRECORDED
    return "refused" if late else str(record["kind"])


def _forwarded(raw: Raw) -> Iterable[str]:
    messages = (one.json for one in raw.seen if one.body)
    return [
        message["params"]["arguments"]["text"]
        for message in messages
        if message.get("method") == "tools/call"
    ]
