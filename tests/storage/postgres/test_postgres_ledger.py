"""A call is on record only while what it was decided on holds, with what it uses up, once: in PostgreSQL."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

import pytest

from gateway.domain.approvals import ApprovalId
from gateway.domain.audit import UNPLACED, LogEntry
from gateway.domain.labels import BOTTOM, STRICTEST_DEFAULT
from gateway.domain.premises import NOTHING, Premise, Premises, Uses
from gateway.domain.scripts import Script
from gateway.domain.tools import Profile
from gateway.errors import Changed
from gateway.pins.verify import verify
from gateway.storage.committer import NotAccepted
from gateway.storage.postgres.connection import Connection
from tests.storage.ledger_suite import BEHIND, MAIL, SCRIPT, YES, Desk, LedgerSuite
from tests.storage.postgres.shared import (
    POLICY,
    Replica,
    in_tray,
    label_of,
    raising,
    record,
    replica,
    resting_on,
    with_runs,
)
from tests.storage.suite import NOTHING as UNHINTED
from tests.storage.suite import approved, principal, source


class PostgresDesk(Desk):
    def __init__(self, made: Replica, owner: Connection) -> None:
        self.replica = made
        self.runs = made.runs
        self.ledger = made.ledger
        self.owner = owner

    async def furnish(self) -> None:
        pin = approved(MAIL)
        assert pin.approved is not None
        with_runs(self.owner)
        self.owner.execute(
            "INSERT INTO pins (server, kind, name, profile, status, approved, approved_identity)"
            " VALUES (%s, %s, %s, %s, 'approved', %s, %s)",
            (
                *(MAIL.server, MAIL.kind.value, MAIL.name.encode(), Profile.LEGACY.value),
                *(str(pin.approved.digest), pin.approved.identity),
            ),
        )
        self.owner.execute(
            "INSERT INTO approvals VALUES (%s, 'allowed', 'once', %s)", (YES, time.time() + 3600)
        )
        run = await self.runs.of(principal(), UNHINTED)
        self.premises = Premises(
            run=run.id,
            version=run.version,
            policy=POLICY,
            pinned=verify(MAIL, pin, identity=pin.observed.identity),
            profile=Profile.LEGACY,
            yes=YES,
            people=0,
        )

    async def ids(self) -> Sequence[str]:
        return in_tray(self.owner)

    async def behind(self, sql: str) -> None:
        self.owner.execute(sql.encode())

    async def revoke(self) -> None:
        self.owner.execute("UPDATE pins SET status = 'revoked'")

    async def decide_by(self, policy: str) -> None:
        self.owner.execute("UPDATE in_force SET policy = %s", (policy,))

    async def begin(self, script: Script) -> None:
        self.owner.execute(
            "INSERT INTO scripts (id, most, expires_at) VALUES (%s, %s, %s)",
            (script.id, script.most, time.time() + 3600),
        )
        for place, one in enumerate(script.grants or ()):
            self.owner.execute(
                "INSERT INTO script_grants (script, place, most) VALUES (%s, %s, %s)",
                (script.id, place, one.most),
            )

    async def use_yes(self) -> None:
        self.owner.execute("UPDATE approvals SET state = 'used'")

    async def state_of_yes(self) -> str:
        ((state,),) = self.owner.execute("SELECT state FROM approvals").fetchall()
        return str(state)


@pytest.fixture
async def desk(address: str, owner: Connection) -> AsyncIterator[PostgresDesk]:
    async with replica(address) as made:
        found = PostgresDesk(made, owner)
        await found.furnish()
        yield found


class TestPostgresLedger(LedgerSuite):
    pass


@pytest.mark.parametrize("change", BEHIND)
async def test_what_another_replica_has_changed_counts(desk: PostgresDesk, change: str) -> None:
    sql, premise = BEHIND[change]
    await desk.behind(sql)
    assert await desk.failed() == {premise}


async def test_rights_that_have_ended_are_a_premise(desk: PostgresDesk) -> None:
    await desk.behind("UPDATE identity_version SET people = people + 1")
    assert await desk.failed() == {Premise.PEOPLE}
    assert (await desk.put(people=1)).id == "one"


STANDS = (
    "INSERT INTO standing_answers (id, user_id, client_id, given_at, expires_at, sealed)"
    f" VALUES ('{YES}', 'u', 'c', 100, 1e12, '')"
)
NO_MORE = {
    "it was ended": "UPDATE standing_answers SET ended = 'a person ended it'",
    "it ran out": "UPDATE standing_answers SET expires_at = 1.0",
    "it was forgotten": "DELETE FROM standing_answers",
    "its tool was approved anew": "UPDATE pins SET approved_at = 101",
}


async def test_what_rests_on_an_answer_that_never_stood_is_not_written(desk: PostgresDesk) -> None:
    assert await desk.failed(standing=(YES,)) == {Premise.STANDING}
    await desk.behind(STANDS)
    assert await desk.failed(standing=(YES, ApprovalId("other"))) == {Premise.STANDING}


@pytest.mark.parametrize("why", NO_MORE)
async def test_what_rests_on_an_answer_that_stands_no_more_is_not_written(
    desk: PostgresDesk, why: str
) -> None:
    await desk.behind(STANDS)
    await desk.behind("UPDATE pins SET approved_at = 100")
    assert (await desk.put("one", standing=(YES,))).id == "one"
    await desk.behind(NO_MORE[why])
    assert await desk.failed(standing=(YES,)) == {Premise.STANDING}


async def test_an_answer_that_stands_does_so_for_no_other_definition(desk: PostgresDesk) -> None:
    await desk.behind(STANDS)
    assert await desk.failed(standing=(YES,), pinned=None, profile=None) == {Premise.STANDING}


async def test_what_has_changed_is_read_anew_before_anybody_decides_again(
    desk: PostgresDesk,
) -> None:
    """Each memory once, and no other."""
    read: list[str] = []

    async def people() -> None:
        read.append("people")

    async def pins() -> None:
        read.append("pins")

    desk.replica.ledger._memories = {
        Premise.PEOPLE: people,
        Premise.STANDING: people,
        Premise.PIN: pins,
    }
    await desk.behind("UPDATE identity_version SET people = people + 1")
    assert await desk.failed(standing=(YES,)) == {Premise.PEOPLE, Premise.STANDING}
    assert read == ["people"]


async def test_without_what_is_in_force_nothing_holds(desk: PostgresDesk) -> None:
    await desk.behind("DELETE FROM in_force")
    await desk.behind("DELETE FROM identity_version")
    assert await desk.failed() == {Premise.POLICY, Premise.PEOPLE}


async def test_a_yes_for_the_run_stays_and_one_for_good_is_none(desk: PostgresDesk) -> None:
    await desk.behind("UPDATE approvals SET span = 'run'")
    await desk.put("one", Uses(yes=YES))
    await desk.put("two", Uses(yes=YES))
    assert await desk.state_of_yes() == "allowed"
    await desk.behind("UPDATE approvals SET span = 'standing'")
    assert await desk.failed(Uses(yes=YES)) == {Premise.APPROVAL}


async def test_a_program_that_has_ended_or_run_out_has_no_budget(desk: PostgresDesk) -> None:
    await desk.behind(f"INSERT INTO scripts VALUES ('{SCRIPT}', NULL, 0, 1.0)")
    uses = Uses(script=SCRIPT, grants=(None,))
    assert await desk.failed(uses) == {Premise.BUDGET}
    await desk.behind("UPDATE scripts SET expires_at = 1e12, ended = true")
    assert await desk.failed(uses) == {Premise.BUDGET}
    await desk.behind("UPDATE scripts SET ended = false")
    assert (await desk.put("one", uses)).id == "one"


async def test_a_call_that_was_decided_on_an_older_label_sees_the_newer_one(
    desk: PostgresDesk,
) -> None:
    await desk.behind("UPDATE runs SET version = version + 1, integrity = 0")
    assert await desk.failed() == {Premise.RUN}
    run = await desk.runs.of(principal(), UNHINTED)
    assert (run.version, int(run.label.integrity)) == (1, 0)
    assert (await desk.put(version=run.version)).id == "one"


async def test_a_record_is_told_of_its_place_later(desk: PostgresDesk) -> None:
    assert await desk.put() == LogEntry(id="one", leaf_index=UNPLACED)


async def test_odd_content_is_kept(desk: PostgresDesk) -> None:
    odd = record("e", target="\ud800\x00" + "x" * 10_000, principal="p" * 60_000)
    assert (await desk.replica.ledger.append(odd)).id == "e"


async def test_what_is_recorded_is_so_also_where_whoever_waits_goes(desk: PostgresDesk) -> None:
    task = asyncio.create_task(desk.replica.ledger.append(record("gone")))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(60):
        while in_tray(desk.owner) != ["gone"]:
            await asyncio.sleep(0.02)


async def test_what_cannot_be_kept_is_refused_alone(
    desk: PostgresDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = desk.replica.ledger._encoder.encode

    def spoiled(one):
        entry = encode(one)
        columns = (entry.columns[0], None, *entry.columns[2:])
        return (
            type(entry)(columns=columns, body=entry.body, leaf=entry.leaf)
            if one.id == "b"
            else entry
        )

    monkeypatch.setattr(desk.replica.ledger._encoder, "encode", spoiled)
    told = await asyncio.gather(
        *(desk.put(name, yes=None) for name in "abc"), return_exceptions=True
    )
    assert [type(one) for one in told] == [LogEntry, NotAccepted, LogEntry]
    assert await desk.ids() == ["a", "c"]


async def test_a_result_raises_its_run_with_its_record(desk: PostgresDesk) -> None:
    run = desk.premises.run
    await desk.replica.ledger.conclude(record("out"), raising(run))
    assert label_of(desk.owner, run) == (0, 3)
    found = desk.replica.runs.find(run)
    assert found is not None
    assert found.run.version == 1
    assert [one.tool for one in found.run.sources] == ["fetch"]
    assert await desk.failed() == {Premise.RUN}


async def test_what_raises_nothing_changes_nothing(desk: PostgresDesk) -> None:
    run = desk.premises.run
    await desk.replica.ledger.conclude(record("out"), raising(run))
    await desk.replica.ledger.conclude(record("again"), raising(run))
    assert (await desk.put(version=1)).id == "one"


async def test_a_result_after_its_run_has_ended_is_seen_by_whoever_calls_next(
    desk: PostgresDesk,
) -> None:
    run = desk.premises.run
    await desk.runs.end(run)
    await desk.replica.ledger.conclude(record("out"), raising(run))
    after = await desk.runs.of(principal(), UNHINTED)
    assert after.id != run
    assert (int(after.label.integrity), int(after.label.confidentiality)) == (0, 3)
    assert in_tray(desk.owner) == ["out"]


async def test_memory_that_shows_a_label_does_not_spare_the_raise(desk: PostgresDesk) -> None:
    run = await desk.runs.raise_label(desk.premises.run, STRICTEST_DEFAULT, source())
    await desk.behind("UPDATE runs SET integrity = 1, confidentiality = 0, version = version + 1")
    await desk.runs.raise_label(run.id, STRICTEST_DEFAULT, source())
    assert label_of(desk.owner, run.id) == (0, 2)
    assert BOTTOM != STRICTEST_DEFAULT


async def test_a_refusal_of_an_older_look_is_not_kept(desk: PostgresDesk) -> None:
    no = record("no", verdict="deny")
    premises = resting_on(desk.premises.run)
    await desk.behind("UPDATE runs SET version = version + 1")
    with pytest.raises(Changed):
        await desk.replica.ledger.put(no, premises, NOTHING)
    assert in_tray(desk.owner) == []
