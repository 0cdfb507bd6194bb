"""A call is on record only while what it was decided on holds, with what it uses up, once: in SQLite."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.approvals import ApprovalState
from gateway.domain.audit import LogEntry
from gateway.domain.document import Digest
from gateway.domain.labels import Confidentiality
from gateway.domain.premises import NOTHING, Premise, Premises, Uses
from gateway.domain.scripts import Script
from gateway.domain.standing import StandingAnswer
from gateway.domain.tools import Pin, Profile, Sighting
from gateway.errors import AuditUnavailable, Changed
from gateway.pins.verify import verify
from gateway.storage.approvals import DurableApprovalStore
from gateway.storage.connection import open_reader
from gateway.storage.database import DATABASE
from gateway.storage.keeping import Keeping
from gateway.storage.ledger import Memory, SqliteLedger
from gateway.storage.scripts import DurableScriptStore
from gateway.storage.spooling import SpoolingLog, SpoolSettings
from gateway.storage.store import Store
from gateway.storage.writer import Writer
from tests.storage.ledger_suite import BEHIND, MAIL, YES, Desk, LedgerSuite
from tests.storage.memory_people import MemoryStandingAnswers
from tests.storage.suite import NOTHING as UNHINTED
from tests.storage.suite import NOW, pending, principal
from tests.storage.test_approval_stores import RULES, Envelope, answer, question

OTHER_DIGEST = Digest(algorithm="sha256", octets=b"other")


class Policy:
    digest = "sha256:now"

    def holds(self, digest: str) -> bool:
        return digest == self.digest


class SqliteDesk(Desk):
    def __init__(self, store: Store) -> None:
        self.store = store
        self.runs = store.runs
        self.policy, self.standing = Policy(), MemoryStandingAnswers()
        with closing(open_reader(store.data_dir / DATABASE)) as connection:
            self.approvals = DurableApprovalStore(
                store.writer, connection, Envelope(), lambda: RULES
            )
            self.scripts = DurableScriptStore(store.writer, connection, Envelope())
        memory = Memory(
            runs=store.runs,
            pins=store.pins,
            answers=self.approvals,
            standing=self.standing,
            policy=self.policy,
            people=lambda: store.identity.people,
            clock=lambda: NOW,
        )
        self.ledger = SqliteLedger(store.audit, memory, self.approvals)

    async def furnish(self) -> None:
        pin = await approved(self.store)
        await self.approvals.file(question(now=NOW))
        await answer(self.approvals, now=NOW)
        run = await self.store.runs.of(principal(), UNHINTED)
        self.premises = Premises(
            run=run.id,
            version=run.version,
            policy=self.policy.digest,
            people=self.store.identity.people,
            pinned=verify(MAIL, pin, identity=pin.observed.identity),
            profile=Profile.LEGACY,
            yes=YES,
        )

    async def ids(self) -> Sequence[str]:
        await self.store.caught_up()
        with closing(sqlite3.connect(self.store.data_dir / DATABASE)) as connection:
            return [i for (i,) in connection.execute("SELECT id FROM audit ORDER BY leaf_index")]

    async def behind(self, sql: str) -> None:
        await self.store.writer.run(lambda connection: connection.execute(sql).rowcount)

    async def revoke(self) -> None:
        await self.store.pins.revoke(MAIL, Profile.LEGACY, by="bob", note="")

    async def decide_by(self, policy: str) -> None:
        self.policy.digest = policy

    async def begin(self, script: Script) -> None:
        await self.scripts.begin(script)

    async def use_yes(self) -> None:
        await self.approvals.use(YES, now=NOW)

    async def state_of_yes(self) -> str:
        found = self.approvals.get(YES, now=NOW)
        assert found is not None
        return found.state


def standing() -> StandingAnswer:
    """Return an answer that stands for the tool as it is approved."""
    return StandingAnswer(
        id=YES,
        principal="p",
        subject="emma",
        user_id="u_emma",
        client_id="agent",
        client_name="Agent",
        target=MAIL,
        pin_digest=pending(MAIL).observed.digest,
        confidentiality=Confidentiality.PRIVATE,
        places=frozenset({("$.to", "eve@outside.example")}),
        by="user:ada",
        by_user_id="u_ada",
        note="",
        given_at=NOW,
        expires_at=NOW + 1000,
    )


async def approved(store: Store) -> Pin:
    seen = pending(MAIL).observed
    await store.pins.observe([Sighting(manifest=seen, seen_at=NOW)])
    expected = str(seen.digest)
    return await store.pins.approve(MAIL, Profile.LEGACY, expected=expected, by="bob", note="")


@asynccontextmanager
async def opened(data_dir: Path, *, journaled: bool, **more: Any) -> AsyncIterator[SqliteDesk]:
    store = await Store.open(data_dir, clock=lambda: NOW, **more)
    journal = store.writer._journal
    if not journaled:
        store.writer._journal = None
    desk = SqliteDesk(store)
    await desk.furnish()
    yield desk
    await store.close()
    if not journaled and journal is not None:
        journal.close()


@pytest.fixture(params=["journaled", "written"])
async def desk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SqliteDesk]:
    """Both roads of a record: the journal first, or the database at once."""
    async with opened(tmp_path / "var", journaled=request.param == "journaled") as found:
        yield found


@pytest.fixture
async def written(tmp_path: Path) -> AsyncIterator[SqliteDesk]:
    async with opened(tmp_path / "var", journaled=False) as found:
        yield found


class TestSqliteLedger(LedgerSuite):
    pass


@pytest.mark.parametrize("change", BEHIND)
async def test_the_tables_are_compared_and_not_memory_alone(
    written: SqliteDesk, change: str
) -> None:
    sql, premise = BEHIND[change]
    await written.behind(sql)
    assert await written.failed() == {premise}


async def test_rights_that_have_ended_are_a_premise(desk: SqliteDesk) -> None:
    identity = desk.store.identity
    await asyncio.to_thread(identity.grants.revoke_token, "j", until=NOW + 60)
    assert await desk.failed() == {Premise.PEOPLE}
    assert (await desk.put("one", people=identity.people)).id == "one"
    assert (await desk.put("two", people=None)).id == "two"


async def test_an_answer_that_stands_no_more_has_changed(desk: SqliteDesk) -> None:
    assert await desk.failed(standing=(YES,)) == {Premise.STANDING}
    await desk.standing.give(standing())
    assert (await desk.put("one", standing=(YES,))).id == "one"
    await desk.standing.end(YES, "a person ended it")
    assert await desk.failed(standing=(YES,)) == {Premise.STANDING}


@pytest.mark.parametrize(
    "changed", [{"expires_at": NOW}, {"given_at": NOW - 1}, {"pin_digest": OTHER_DIGEST}]
)
async def test_an_answer_stands_for_what_was_approved_when_it_was_given(
    desk: SqliteDesk, changed: dict[str, Any]
) -> None:
    await desk.standing.give(replace(standing(), **changed))
    assert await desk.failed(standing=(YES,)) == {Premise.STANDING}


async def test_records_that_are_not_written_leave_no_gap_in_the_log(desk: Desk) -> None:
    uses = Uses(yes=YES)
    told = await asyncio.gather(
        *(desk.put(f"c{n}", uses if n % 3 == 0 else NOTHING) for n in range(30)),
        return_exceptions=True,
    )
    entries = {one.id: one.leaf_index for one in told if isinstance(one, LogEntry)}
    assert sorted(entries, key=entries.__getitem__) == await desk.ids()
    assert sorted(entries.values()) == list(range(len(entries)))
    assert "c0" in entries
    assert entries.keys().isdisjoint({f"c{n}" for n in range(3, 30, 3)})


def soon(writer: Writer) -> None:
    """Have what is asked for from now on be told no almost at once."""
    writer._deadline_s = 0.05
    if writer._timer is not None:
        writer._timer.cancel()
        writer._timer = None  # which was for what is written by now


@asynccontextmanager
async def held_up(desk: SqliteDesk) -> AsyncIterator[threading.Event]:
    """The thread that writes is in the middle of a transaction until the event is set."""
    go_on, begun = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def job(_: object) -> None:
        loop.call_soon_threadsafe(begun.set)
        go_on.wait(60)

    other = asyncio.create_task(desk.store.writer.run(job))
    await begun.wait()
    desk.store.writer._waiting.clear()  # it may take as long as it likes
    try:
        yield go_on
    finally:
        go_on.set()
        await asyncio.wait([other])


async def test_what_stands_is_asked_for_in_the_transaction_too(written: SqliteDesk) -> None:
    await written.standing.give(standing())
    async with held_up(written):
        put = asyncio.create_task(written.put(uses=Uses(yes=YES), standing=(YES,)))
        await asyncio.sleep(0)  # it is handed over, and waits for the thread
        await asyncio.sleep(0)
        await written.standing.end(YES, "a person ended it")
    with pytest.raises(Changed) as found:
        await put
    assert found.value.what == {Premise.STANDING}
    assert await written.ids() == []


@pytest.mark.parametrize("why", ["its deadline is over", "its caller went away"])
async def test_what_nobody_waits_for_any_more_uses_nothing_up(
    written: SqliteDesk, why: str
) -> None:
    desk, writer = written, written.store.writer
    async with held_up(desk):
        if why == "its deadline is over":
            soon(writer)
        put = asyncio.create_task(desk.put("late", Uses(yes=YES)))
        plain = asyncio.create_task(desk.put("plain", yes=None))
        await asyncio.sleep(0)
        if why != "its deadline is over":
            put.cancel()
            plain.cancel()
        await asyncio.wait([put, plain])
        writer._deadline_s = 60.0
    assert all(one.cancelled() or one.exception() is not None for one in (put, plain))
    assert await desk.ids() == []
    found = desk.approvals.get(YES, now=NOW)
    assert found is not None
    assert found.state is ApprovalState.ALLOWED


async def test_of_what_is_being_written_whoever_waits_hears_what_came(written: SqliteDesk) -> None:
    desk, writer, go_on = written, written.store.writer, threading.Event()
    soon(writer)
    put = asyncio.create_task(desk.put("kept", Uses(yes=YES)))
    other = asyncio.create_task(writer.run(lambda _: go_on.wait(60)))
    await asyncio.wait([other])  # which is told that its deadline is over
    assert (isinstance(other.exception(), AuditUnavailable), put.done()) == (True, False)
    writer._deadline_s = 60.0
    go_on.set()
    assert (await put).id == "kept"
    assert await desk.ids() == ["kept"]
    assert await desk.failed() == {Premise.APPROVAL}


async def test_what_uses_something_up_is_in_no_spool(tmp_path: Path) -> None:
    keeping = Keeping(spool=SpoolSettings(path=tmp_path / "spool", capacity=1_000_000))
    data_dir = tmp_path / "var"
    async with opened(data_dir, journaled=False, keeping=keeping, deadline_s=0.2) as desk:
        with closing(sqlite3.connect(data_dir / DATABASE, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert (await desk.put("kept")).id == "kept"
            with pytest.raises(AuditUnavailable):
                await desk.put("used", Uses(yes=YES))
            with pytest.raises(AuditUnavailable):  # a start would have to find it there
                await desk.put("owed", fields={"owes": {}})
            desk.policy.digest = "sha256:next"
            with pytest.raises(Changed):
                await desk.put("refused")
    again = await Store.open(data_dir, clock=lambda: NOW, keeping=keeping)
    await again.close()
    with closing(sqlite3.connect(data_dir / DATABASE)) as connection:
        names = [i for (i,) in connection.execute("SELECT id FROM audit WHERE kind = 'intent'")]
    assert names == ["kept"]


async def test_what_waits_for_the_spool_is_looked_at_once_more(tmp_path: Path) -> None:
    keeping = Keeping(spool=SpoolSettings(path=tmp_path / "spool", capacity=1_000_000))
    async with opened(tmp_path / "var", journaled=False, keeping=keeping, deadline_s=60.0) as desk:
        log = desk.store.audit
        assert isinstance(log, SpoolingLog)
        log._divert("the database is away")
        log._admitted.clear()
        put = asyncio.create_task(desk.put("refused"))
        await asyncio.sleep(0)
        desk.policy.digest = "sha256:next"
        log._admitted.set()
        with pytest.raises(Changed):
            await put
        desk.policy.digest = "sha256:now"
        assert (await desk.put("kept")).id == "kept"
        assert [str(entry.columns[0]) for _, entry in log._spool.after(-1).entries] == ["kept"]


async def test_what_the_log_may_have_is_not_decided_anew_where_it_is_spooled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log was too slow to say so, and what the call was decided on changed in that time."""
    keeping = Keeping(spool=SpoolSettings(path=tmp_path / "spool", capacity=1_000_000))
    async with opened(tmp_path / "var", journaled=False, keeping=keeping, deadline_s=60.0) as desk:
        log = desk.store.audit
        assert isinstance(log, SpoolingLog)
        written = log._writer.append

        async def late(*args: Any, **options: Any) -> LogEntry:
            await written(*args, **options)
            desk.policy.digest = "sha256:next"
            raise AuditUnavailable("the audit log cannot record this now", detail="late")

        with monkeypatch.context() as patched:
            patched.setattr(log._writer, "append", late)
            with pytest.raises(AuditUnavailable, match="cannot record"):
                await desk.put("late")
        assert await desk.ids() == ["late"]
