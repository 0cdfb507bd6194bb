"""The durable stores keep to the suite, and remember."""

import asyncio
import threading
from dataclasses import replace
from functools import partial

import pytest

from gateway.domain.flow import RunHandle
from gateway.domain.labels import BOTTOM, STRICTEST_DEFAULT
from gateway.domain.scripts import ScriptId
from gateway.domain.tools import Disposition, PinStatus, Profile
from gateway.errors import AuditUnavailable, Fault, PinMismatch
from gateway.pins import observe
from gateway.pins.diff import classify
from gateway.storage import pins, run_changes, run_tables, runs
from gateway.storage.store import Store
from tests.storage.suite import (
    NOTHING,
    NOW,
    PRIVATE,
    RUN_LIMITS,
    TASK,
    AuditLogSuite,
    Elapsed,
    PinStoreSuite,
    RunStoreSuite,
    event,
    host,
    manifest,
    named,
    sighting,
    source,
    target,
)


@pytest.fixture
async def stores(tmp_path):
    elapsed = Elapsed()
    store = await Store.open(tmp_path / "var", clock=lambda: NOW, runs=RUN_LIMITS, elapsed=elapsed)
    store.elapsed = elapsed  # type: ignore[attr-defined]
    yield store
    await store.close()


@pytest.fixture
def reopened(tmp_path, stores):
    async def reopen():
        await stores.close()
        return await Store.open(
            tmp_path / "var", clock=lambda: NOW, runs=RUN_LIMITS, elapsed=stores.elapsed
        )

    return reopen


async def batches(stores):
    """How many transactions were ever committed."""
    return await stores.writer.run(
        lambda connection: int(
            connection.execute("SELECT value FROM meta WHERE key = 'batch'").fetchone()[0]
        )
    )


async def label_on_disk(stores, run):
    found = await stores.writer.run(
        lambda connection: run_tables.SqliteRunTable(connection).find(run)
    )
    return found.run.label


class TestSqliteAuditLog(AuditLogSuite):
    async def test_a_restart_goes_on_where_it_ended(self, stores, reopened):
        for n in range(300):
            await stores.audit.append(event(f"e{n}"))
        again = await reopened()
        entry = await again.audit.append(event("after"))
        await again.close()
        assert entry.leaf_index == 300
        assert again.log_id == stores.log_id

    async def test_neither_arguments_nor_results_reach_the_disk(self, stores):
        await stores.audit.append(
            event("e", arguments={"text": "canary-in-arguments"}, result=b"canary-in-result")
        )
        written = b"".join(path.read_bytes() for path in stores.data_dir.iterdir())
        assert b"arguments_hmac" in written
        assert b"canary" not in written


class TestSqlitePinStore(PinStoreSuite):
    async def test_a_restart_remembers_pins(self, stores, reopened):
        await stores.pins.observe([sighting(target()), sighting(target("other"))])
        digest = str(manifest(target()).digest)
        given = {"expected": digest, "by": "emma", "note": "n", "user_id": "u_emma"}
        await stores.pins.approve(target(), Profile.LEGACY, **given, expires_at=NOW + 1)
        await stores.pins.keep_body(target(), Profile.LEGACY, "sha256:1")
        other = {**given, "expected": str(manifest(target("other")).digest)}
        await stores.pins.approve(target("other"), Profile.LEGACY, **other, people=2)
        before = stores.pins.all()
        assert [(len(pin.approvals), len(pin.filed)) for pin in before] == [(0, 1), (1, 0)]
        again = await reopened()
        assert again.pins.all() == before
        await again.close()

    async def test_nothing_is_compared_on_the_loop_or_while_others_wait_to_write(
        self, stores, monkeypatch
    ):
        """How long that takes is for the server to say."""
        threads = []

        def noted(before, after, **around):
            threads.append(threading.get_ident())
            return classify(before, after, **around)

        monkeypatch.setattr(pins, "classify", noted)
        monkeypatch.setattr(observe, "classify", None)
        by_policy = replace(
            sighting(target("other"), disposition=Disposition.APPROVE),
            told=classify(None, manifest(target("other"))).words,
        )
        await stores.pins.observe([sighting(target()), by_policy])
        digest = str(manifest(target()).digest)
        given = {"expected": digest, "by": "emma", "note": ""}
        await stores.pins.approve(target(), Profile.LEGACY, **given)
        assert len(threads) == 1
        assert threading.get_ident() not in threads
        found = stores.pins.find(target("other"), Profile.LEGACY)
        assert [(one.by, one.tier) for one in found.approvals] == [("policy", "new")]

    async def test_what_was_compared_is_what_is_approved(self, stores, monkeypatch):
        await stores.pins.observe([sighting(target())])
        compared = threading.Event()
        goes_on = threading.Event()

        def waits(before, after, **around):
            compared.set()
            goes_on.wait()
            return classify(before, after, **around)

        monkeypatch.setattr(pins, "classify", waits)
        digest = str(manifest(target()).digest)
        given = {"expected": digest, "by": "emma", "note": ""}
        approving = asyncio.create_task(stores.pins.approve(target(), Profile.LEGACY, **given))
        await asyncio.to_thread(compared.wait)
        elsewhere = replace(manifest(target()), identity="https://elsewhere.example:443/mcp")
        await stores.pins.observe([replace(sighting(target()), manifest=elsewhere)])
        goes_on.set()
        with pytest.raises(PinMismatch):
            await approving
        assert stores.pins.find(target(), Profile.LEGACY).status is PinStatus.PENDING

    async def test_looking_again_writes_nothing(self, stores):
        await stores.pins.observe([sighting(target())])
        before = await batches(stores)
        await stores.pins.observe([sighting(target())])
        assert await batches(stores) == before + 1


class TestSqliteRunStore(RunStoreSuite):
    async def test_a_restart_remembers_labels(self, stores, reopened):
        run = await stores.runs.of(host(), NOTHING)
        raised = await stores.runs.raise_label(run.id, STRICTEST_DEFAULT, source())
        again = await reopened()
        assert await again.runs.of(host(), NOTHING) == raised
        assert again.runs.whole(host().actor) == raised
        assert not again.runs.acts_for(run.id, ["https://gate|noah"])
        await again.close()

    async def test_a_restart_remembers_begun_runs_without_their_tasks(self, stores, reopened):
        handle, run = await stores.runs.begin(host(), TASK)
        raised = await stores.runs.raise_label(run.id, STRICTEST_DEFAULT, source())
        assert raised.task == TASK
        again = await reopened()
        assert await again.runs.of(host(), named(handle)) == replace(raised, task=None)
        await again.close()

    async def test_a_restart_remembers_what_has_ended(self, stores, reopened):
        handle, run = await stores.runs.begin(host(), None)
        await stores.runs.raise_label(run.id, STRICTEST_DEFAULT, None)
        await stores.runs.end(run.part_of)
        after = await stores.runs.of(host(), NOTHING)
        again = await reopened()
        assert await again.runs.of(host(), NOTHING) == after
        assert (await again.runs.of(host(), named(handle))).id == after.id
        assert (await again.runs.end(after.id)).id == after.id
        newest = await again.runs.of(host(), NOTHING)
        assert newest.id not in {run.id, run.part_of, after.id}
        await again.close()

    async def test_what_a_program_has_read_is_written_into_its_run_at_once(self, stores):
        program = replace(host(trusted=False), script=ScriptId("s_1"))
        whole = await stores.runs.of(program, NOTHING)
        for tool in "abc":
            await stores.runs.raise_label(whole.id, STRICTEST_DEFAULT, source(tool), program.script)
        handle, _ = await stores.runs.begin(host(), None)
        before = await batches(stores)
        found = await stores.runs.of(program, named(handle))
        assert [one.tool for one in found.sources] == ["a", "b", "c"]
        assert await batches(stores) == before + 2

    async def test_after_a_restart_idle_time_counts_anew(self, stores, reopened):
        run = await stores.runs.of(host(), NOTHING)
        stores.elapsed.now += RUN_LIMITS.idle_s - 1
        again = await reopened()
        stores.elapsed.now += RUN_LIMITS.idle_s - 1
        assert (await again.runs.of(host(), NOTHING)).id == run.id
        stores.elapsed.now += RUN_LIMITS.idle_s
        assert (await again.runs.of(host(), NOTHING)).id != run.id
        await again.close()

    async def test_a_lowered_label_is_remembered(self, stores, reopened):
        run = await stores.runs.of(host(), NOTHING)
        await stores.runs.raise_label(run.id, STRICTEST_DEFAULT, None)
        look = await stores.runs.look_at(run.id)
        await stores.runs.lower_label(run.id, STRICTEST_DEFAULT, PRIVATE, look=look)
        again = await reopened()
        assert (await again.runs.of(host(), NOTHING)).label == PRIVATE
        await again.close()

    async def test_a_look_from_before_a_restart_counts_no_more(self, stores, reopened):
        run = await stores.runs.of(host(), NOTHING)
        await stores.runs.raise_label(run.id, STRICTEST_DEFAULT, source())
        look = await stores.runs.look_at(run.id)
        await stores.runs.raise_label(run.id, STRICTEST_DEFAULT, source())
        again = await reopened()
        for _ in range(2):
            lowered = await again.runs.lower_label(run.id, STRICTEST_DEFAULT, PRIVATE, look=look)
            assert lowered is None
            await again.runs.look_at(run.id)
        await again.close()

    @pytest.mark.parametrize("waits", [True, False], ids=["waits", "goes away"])
    async def test_what_is_read_while_a_label_is_lowered_raises_it_again(self, stores, *, waits):
        """Memory shows the old label then, to which the result has nothing to add."""
        run = await stores.runs.of(host(), NOTHING)
        await stores.runs.raise_label(run.id, STRICTEST_DEFAULT, source())
        look = await stores.runs.look_at(run.id)
        lowers = asyncio.create_task(
            stores.runs.lower_label(run.id, STRICTEST_DEFAULT, PRIVATE, look=look)
        )
        while not stores.writer.depth:
            await asyncio.sleep(0)
        if not waits:
            lowers.cancel()
        await stores.runs.raise_label(run.id, STRICTEST_DEFAULT, source())
        await asyncio.wait([lowers])
        assert lowers.cancelled() is not waits
        assert (await stores.runs.of(host(), NOTHING)).label == STRICTEST_DEFAULT

    async def test_what_is_being_written_down_when_a_label_is_lowered_was_not_seen(self, stores):
        """Whatever writes it: memory does not show it yet."""
        run = await stores.runs.of(host(), NOTHING)
        await stores.runs.raise_label(run.id, STRICTEST_DEFAULT, source())
        look = await stores.runs.look_at(run.id)
        job = partial(
            run_changes.join,
            name_of=stores.runs._names.of_whole,
            run=run.id,
            label=STRICTEST_DEFAULT,
            sources=[source("search")],
        )
        joins = asyncio.create_task(stores.runs._make(job))
        while not stores.writer.depth:
            await asyncio.sleep(0)
        assert await stores.runs.lower_label(run.id, STRICTEST_DEFAULT, PRIVATE, look=look) is None
        await joins

    async def test_nothing_is_taken_for_read_once_nobody_can_say_whether_a_label_is_lowered(
        self, stores, monkeypatch
    ):
        run = await stores.runs.of(host(), NOTHING)
        await stores.runs.raise_label(run.id, STRICTEST_DEFAULT, source())
        look = await stores.runs.look_at(run.id)
        make = stores.runs._ledger.make

        async def late(job, committed):
            del committed  # memory has not heard of it
            await make(job, lambda change: None)
            raise AuditUnavailable("the audit log cannot record this now")

        with monkeypatch.context() as patched:
            patched.setattr(stores.runs._ledger, "make", late)
            with pytest.raises(AuditUnavailable):
                await stores.runs.lower_label(run.id, STRICTEST_DEFAULT, PRIVATE, look=look)
        await stores.runs.raise_label(run.id, STRICTEST_DEFAULT, source())
        assert await label_on_disk(stores, run.id) == STRICTEST_DEFAULT

    async def test_a_label_that_is_high_enough_writes_nothing(self, stores):
        _, run = await stores.runs.begin(host(), None)
        await stores.runs.raise_label(run.id, STRICTEST_DEFAULT, source(record="r1"))
        before = await batches(stores)
        await stores.runs.raise_label(run.id, STRICTEST_DEFAULT, source(record="r2"))
        await stores.runs.of(host(), NOTHING)
        assert await batches(stores) == before + 1

    async def test_a_run_that_cannot_be_ended_goes_on(self, stores):
        run = await stores.runs.of(host(), NOTHING)
        await stores.runs.raise_label(run.id, STRICTEST_DEFAULT, None)
        stores.elapsed.now += RUN_LIMITS.idle_s
        make, stores.runs._ledger.make = stores.runs._ledger.make, _failing
        with pytest.raises(AuditUnavailable):
            await stores.runs.of(host(), NOTHING)
        stores.runs._ledger.make = make
        assert (await stores.runs.of(host(), NOTHING)).id != run.id

    async def test_a_run_that_cannot_be_begun_leaves_no_task(self, stores):
        await stores.runs.of(host(), NOTHING)
        stores.runs._ledger.make = _failing
        with pytest.raises(AuditUnavailable):
            await stores.runs.begin(host(), TASK)
        assert stores.runs._tasks == {}

    async def test_of_very_many_runs_that_ended_the_oldest_are_forgotten(self, stores, monkeypatch):
        for module in (run_tables, runs):
            monkeypatch.setattr(module, "MOST_ENDED", 2)
        for _ in range(4):
            run = await stores.runs.of(host(), NOTHING)
            await stores.runs.raise_label(run.id, STRICTEST_DEFAULT, source())
            await stores.runs.end(run.id)
        live = await stores.runs.of(host(), NOTHING)
        kept = await stores.writer.run(lambda c: list(run_tables.SqliteRunTable(c).all()))
        assert [(each.run.id == live.id, each.ended) for each in kept] == [
            (False, True),
            (False, True),
            (True, False),
        ]
        assert [each.run for each in kept] == [state.run for state in stores.runs.all()]
        left = await stores.writer.run(
            lambda c: c.execute("SELECT count(DISTINCT run) FROM run_sources").fetchone()
        )
        assert left == (2,)

    async def test_of_an_owner_without_a_run_no_row_is_kept_and_no_run_has_the_name_of_another(
        self, stores, monkeypatch
    ):
        monkeypatch.setattr(run_tables, "SWEPT_EACH", 1)
        for module in (run_tables, runs):
            monkeypatch.setattr(module, "MOST_ENDED", 2)
        seen = []
        for subject in ("emma", "emma", "noah", "ines", "emma", "emma", "lea", "emma"):
            run = await stores.runs.of(host(subject), NOTHING)
            assert run.label == BOTTOM
            seen.append(run.id)
            await stores.runs.raise_label(run.id, STRICTEST_DEFAULT, source())
            await stores.runs.end(run.id)
        assert len({*seen}) == len(seen)
        rows = await stores.writer.run(
            lambda c: c.execute("SELECT owner, person FROM run_owners").fetchall()
        )
        assert sorted(person == "" for _, person in rows) == [False, False, True]

    async def test_a_run_of_a_name_that_was_given_before_never_begins_again(
        self, stores, monkeypatch
    ):
        for module in (run_tables, runs):
            monkeypatch.setattr(module, "MOST_ENDED", 1)
        monkeypatch.setattr(run_tables, "MOST_PARTS_ENDED", 4)
        session, other, last = map(RunHandle, ("session", "other", "last"))

        async def over(handle: RunHandle | None) -> None:
            _, run = await stores.runs.begin(host(), None, handle)
            await stores.runs.raise_label(run.id, PRIVATE, source())
            await stores.runs.end(run.id)

        for handle in (session, None, other):
            await over(handle)
        # Three that have ended, and one is all whose story is kept.
        with pytest.raises(Fault, match="before"):
            await stores.runs.begin(host(), None, session)
        for _ in range(4):
            await over(None)
        # By now it is forgotten, and nobody knows which names were given.
        for handle in (session, other, last):
            with pytest.raises(Fault, match="before"):
                await stores.runs.begin(host(), None, handle)
            found = await stores.runs.of(host(), named(handle))
            assert (found.unnamed, found.label) == (True, STRICTEST_DEFAULT.join(PRIVATE))
        await over(None)

    async def test_what_ended_runs_have_read_takes_so_much_memory_and_no_more(
        self, stores, reopened, monkeypatch
    ):
        monkeypatch.setattr(runs, "ENDED_OCTETS", 6000)
        begun = []
        for _ in range(4):
            run = await stores.runs.of(host(), NOTHING)
            begun.append(run.id)
            await stores.runs.raise_label(run.id, STRICTEST_DEFAULT, source(tool="t" * 256))
            await stores.runs.raise_label(run.id, STRICTEST_DEFAULT, source(tool="late"))
            await stores.runs.end(run.id)
            await stores.runs.raise_label(run.id, STRICTEST_DEFAULT, source(tool="later"))
        ended = [each.run.id for each in stores.runs.all() if not each.live]
        assert ended == begun[2:]
        again = await reopened()
        assert [each.run.id for each in again.runs.all() if not each.live] == ended
        await again.close()


async def _failing(*_):
    raise AuditUnavailable("the log cannot record this now")
