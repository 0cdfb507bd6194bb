"""Of many gateways each decides by the policy in force; a change is in force at all of them, or at none."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from gateway.domain.audit import AuditRecord, LogEntry
from gateway.domain.premises import NOTHING, Premise, Premises, Uses
from gateway.domain.roster import Roster, named
from gateway.errors import Changed, ConfigError, PolicyUnavailable
from gateway.policy import shared
from gateway.policy.agreement import CENTRAL, Holder, Origin
from gateway.policy.building import Built
from gateway.policy.refusing import RefusingEngine
from gateway.policy.reload import PolicyHolder, load
from gateway.policy.settings import PolicyEvent, PolicySettings
from gateway.policy.shared import Shared, _Ready
from gateway.policy.sources import Snapshot
from gateway.policy.texts import spelled
from gateway.storage.postgres.board import PostgresBoard
from gateway.storage.postgres.connection import Connection
from gateway.storage.postgres.policed import PolicedLedger
from tests.policy.policy_questions import ONE_RULE
from tests.storage.postgres.shared import in_tray, record, replica, resting_on, with_runs

GOOD = {"target": {"name": "good"}}
BETTER = {"target": {"name": "better"}}
PATIENCE_S = 60.0


def told(text: str, servers: str = "") -> bytes:
    return spelled(Snapshot(name=text, files={}), {}, servers)


class Engine(RefusingEngine):
    """A policy that is named by its text; what has a `!` in it cannot be used here."""

    closed = False

    async def close(self) -> None:
        assert not self.closed
        self.closed = True


class Gateway:
    """Whatever decides by a policy, as to the board."""

    def __init__(self, board: PostgresBoard, *, able: bool = True) -> None:
        self.board = board
        self.able = able
        self.built: list[Engine] = []
        self.history: list[str] = []
        self.may_build = asyncio.Event()
        self.may_build.set()
        self.agreement = Shared(
            board,
            Holder(
                decides=lambda: self.history[-1] if self.history else "",
                put=self._put,
                adopt=self._put,
                build=self._build,
                settings=PolicySettings(path="policy"),
            ),
        )

    @property
    def decides(self) -> str:
        return self.history[-1] if self.history else ""

    def make(self, text: str) -> Built:
        self.built.append(Engine(digest=text))
        return Built(engine=self.built[-1])

    async def _build(self, snapshot: Snapshot, _: Mapping[str, Any]) -> Built:
        await self.may_build.wait()
        if not self.able:
            raise ConfigError("it cannot be used", problems=["decision.rego:1: no"])
        return self.make(snapshot.name)

    def _put(self, built: Built) -> None:
        self.history.append(built.engine.digest)

    async def offers(self, text: str, *, first: bool = False) -> str:
        origin: Origin = Snapshot(name=text, files={}), {}
        built = await self.agreement.settle(self.make(text), origin, first=first)
        return built.engine.digest

    async def until(self, decides: str) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.decides != decides:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def gateways(
    address: str, count: int, *, first: str = "one", **more: Any
) -> AsyncIterator[list[Gateway]]:
    async with AsyncExitStack() as stack:
        made = []
        for n in range(count):
            board = PostgresBoard(address, replica=f"r{n}", key=b"k")
            stack.callback(board.close)
            gateway = Gateway(board, **more)
            stack.push_async_callback(gateway.agreement.close)
            await gateway.offers(first, first=True)
            made.append(gateway)
        yield made


def in_force(owner: Connection) -> tuple[str, int, str]:
    return owner.execute("SELECT policy, revision, proposed FROM in_force").fetchall()[0]


async def test_the_first_policy_of_all_comes_into_force_with_whoever_has_it(
    address: str, owner: Connection
) -> None:
    async with gateways(address, 2) as (one, other):
        assert (one.decides, other.decides) == ("one", "one")
        assert in_force(owner) == ("one", 1, "")
        assert (one.agreement.problem, other.agreement.problem) == ("", "")


async def test_a_change_at_one_is_in_force_at_all(address: str, owner: Connection) -> None:
    async with gateways(address, 3) as (one, *others):
        assert await one.offers("two") == "two"
        assert in_force(owner) == ("two", 2, "")
        for other in others:
            await other.until("two")
            assert other.history == ["one", "two"]
            assert other.agreement.problem == ""


async def test_nothing_comes_into_force_before_every_gateway_could_decide_by_it(
    address: str, owner: Connection
) -> None:
    async with gateways(address, 3) as (one, other, third):
        third.may_build.clear()
        change = asyncio.create_task(one.offers("two"))
        async with asyncio.timeout(PATIENCE_S):
            while len(other.built) < 2:
                await asyncio.sleep(0.01)
        for _ in range(3):
            await one.agreement.step()
            await other.agreement.step()
        assert in_force(owner) == ("one", 1, "two")
        assert not change.done()
        assert (one.decides, other.decides) == ("one", "one")
        third.may_build.set()
        assert await change == "two"
        await third.until("two")


async def test_what_one_cannot_use_comes_into_force_nowhere(
    address: str, owner: Connection
) -> None:
    async with gateways(address, 2) as (one, other):
        other.able = False
        with pytest.raises(ConfigError, match="at no gateway") as found:
            await one.offers("two")
        assert "decision.rego:1: no" in found.value.problems[0]
        assert "r1/" in found.value.problems[0]
        assert in_force(owner) == ("one", 1, "")
        assert (one.history, other.history) == (["one"], ["one"])
        assert [one.closed for one in one.built] == [False, True]


async def test_what_not_all_have_in_time_comes_into_force_nowhere(
    address: str, owner: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateways(address, 2) as (one, other):
        other.may_build.clear()
        monkeypatch.setattr(shared, "_PATIENCE_S", 0.2)
        with pytest.raises(ConfigError) as found:
            await one.offers("two")
        late = f"{other.agreement._seat} had not"
        assert found.value.problems == (f"not every gateway had it in time: {late}",)
        assert in_force(owner) == ("one", 1, "")


async def test_nobody_waits_for_a_gateway_that_was_not_heard_of(
    address: str, owner: Connection
) -> None:
    async with gateways(address, 1) as (one,):
        owner.execute(
            "INSERT INTO replicas (name, heard) VALUES ('dead', clock_timestamp() - interval '11 seconds')"
        )
        assert await one.offers("two") == "two"
        owner.execute("INSERT INTO replicas (name) VALUES ('alive')")
        change = asyncio.create_task(one.offers("three"))
        for _ in range(3):
            await one.agreement.step()
        assert in_force(owner)[0] == "two"
        owner.execute("DELETE FROM replicas WHERE name = 'alive'")
        assert await change == "three"


async def test_whoever_begins_decides_by_what_is_in_force_and_not_by_what_was_replaced(
    address: str, owner: Connection
) -> None:
    async with gateways(address, 1) as (one,):
        await one.offers("two")
        async with gateways(address, 1, first="one") as (late,):
            assert late.history == ["two"]
            assert [each.closed for each in late.built] == [True, False]
        assert in_force(owner) == ("two", 2, "")


async def test_whoever_begins_with_what_is_in_force_ends_no_proposal(
    address: str, owner: Connection
) -> None:
    async with gateways(address, 2) as (one, other):
        other.may_build.clear()
        change = asyncio.create_task(one.offers("two"))
        async with asyncio.timeout(PATIENCE_S):
            while in_force(owner)[2] != "two":
                await asyncio.sleep(0.01)
        async with gateways(address, 1) as (late,):
            assert late.decides == "one"
            assert in_force(owner) == ("one", 1, "two")
            other.may_build.set()
            assert await change == "two"
            await late.until("two")


async def test_what_was_replaced_comes_back_by_somebodys_word(
    address: str, owner: Connection
) -> None:
    async with gateways(address, 2) as (one, other):
        await one.offers("two")
        await other.until("two")
        assert await other.offers("one") == "one"
        await one.until("one")
        assert in_force(owner) == ("one", 3, "")


async def test_what_each_gateway_decides_by_is_told(address: str) -> None:
    async with gateways(address, 2) as (one, other):
        async with asyncio.timeout(PATIENCE_S):
            while one.agreement.facts["policy_by_gateway"].count(" one") < 2:
                await asyncio.sleep(0.01)
        seats = sorted((one.agreement._seat, other.agreement._seat))
        told = ", ".join(f"{seat} one" for seat in seats)
        assert one.agreement.facts == {"policy_revision": "1", "policy_by_gateway": told}
        assert one.agreement.revision == 1


async def test_whoever_cannot_have_what_is_in_force_is_not_ready(
    address: str, owner: Connection
) -> None:
    async with gateways(address, 1) as (one,):
        one.able = False
        owner.execute("INSERT INTO policies (digest, content) VALUES ('two', %s)", (told("two"),))
        owner.execute("UPDATE in_force SET policy = 'two', revision = 2")
        await one.agreement.step()
        assert one.agreement.problem == "two is in force, and not decided by here"
        one.able = True
        await one.until("two")
        assert one.agreement.problem == ""


async def test_a_text_that_is_another_policy_here_is_refused(
    address: str, owner: Connection
) -> None:
    async with gateways(address, 1) as (one,):
        owner.execute("INSERT INTO policies (digest, content) VALUES ('two', %s)", (told("three"),))
        owner.execute("UPDATE in_force SET proposed = 'two'")
        async with asyncio.timeout(PATIENCE_S):
            while in_force(owner)[2]:
                await asyncio.sleep(0.01)
        assert (one.history, in_force(owner)) == (["one"], ("one", 1, ""))
        assert "two is three here" in await one.board.problem("two")


async def test_without_the_board_nothing_comes_into_force_and_nobody_is_ready_for_long(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateways(address, 1) as (one,):
        one.board.close()
        with pytest.raises(ConfigError, match="cannot be told"):
            await one.offers("two")
        with pytest.raises(PolicyUnavailable):
            await one.board.look_again()
        monkeypatch.setattr(shared, "_STALE_S", -1.0)
        assert "was not heard" in one.agreement.problem


WEB = '{"servers": {"web": {"url": "https://web.example/mcp"}}}'
NEWS = '{"servers": {"news": {"url": "https://news.example/mcp"}}}'
NONE = '{"servers": {}}'


async def registers(gateway: Gateway, servers: str) -> None:
    await gateway.agreement.register(gateway.board.roster.text, servers)


async def knows(gateway: Gateway, servers: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while gateway.board.roster.text != servers:
            await asyncio.sleep(0.01)


async def test_a_server_that_is_registered_at_one_is_so_at_all_and_so_is_its_removal(
    address: str, owner: Connection
) -> None:
    async with gateways(address, 3) as (one, other, third):
        told: list[str] = []
        third.board.roster.changed = lambda: told.append(third.board.roster.text)
        await registers(one, WEB)
        assert in_force(owner) == (named("one", WEB), 2, "")
        for each in (one, other, third):
            await knows(each, WEB)
            assert (each.history, each.agreement.problem) == (["one"], "")
        assert list(third.board.roster.servers) == ["web"]
        await registers(other, NONE)
        for each in (one, third):
            await knows(each, NONE)
        assert (in_force(owner)[1], told) == (3, [WEB, NONE])


async def test_what_one_gateway_could_not_have_is_registered_nowhere(
    address: str, owner: Connection
) -> None:
    def admit(_: str) -> None:
        raise ConfigError("no", problems=["servers.yaml:1: `WEB` is not set"])

    async with gateways(address, 2) as (one, other):
        other.board.roster.admit = admit
        with pytest.raises(ConfigError, match="at no gateway") as found:
            await registers(one, WEB)
        assert "r1/" in found.value.problems[0]
        assert "`WEB` is not set" in found.value.problems[0]
        assert in_force(owner) == ("one", 1, "")
        assert [each.board.roster.text for each in (one, other)] == ["", ""]


def refuses(_: str) -> None:
    raise ConfigError("no", problems=["servers.yaml:1: `WEB` is not set"])


def waiting_for(event: Event) -> Callable[[str], None]:
    def admit(_: str) -> None:
        event.wait(PATIENCE_S)

    return admit


async def refused(gateway: Gateway, servers: str) -> tuple[str, str]:
    """Have what is to be registered refused by another one; return it, and the name of what had it."""
    text = gateway.board.roster.following(servers)
    with pytest.raises(ConfigError, match="at no gateway"):
        await gateway.agreement.register(gateway.board.roster.text, text)
    return text, named(gateway.decides, text)


async def in_force_at_last(each: Gateway, owner: Connection, name: str) -> None:
    """Have it be in force, as whoever owns the tables may say, and see that it is not so here."""
    owner.execute("UPDATE in_force SET policy = %s, proposed = ''", (name,))
    for _ in range(3):
        await each.agreement.step()
        if (preparing := each.agreement._preparing) is not None:
            preparing.cancel()
            await asyncio.wait([preparing])
    with pytest.raises(ConfigError, match="nowhere"):
        await each.agreement._made_ready(name)
    assert name in each.agreement.problem


async def test_what_was_refused_comes_into_force_by_nobodys_word_later(
    address: str, owner: Connection
) -> None:
    """The text is signed and in the database: who registered it was told that it is nowhere."""
    async with gateways(address, 3) as (one, other, third):
        third.agreement._following.cancel()
        owner.execute("DELETE FROM replicas WHERE name = %s", (third.agreement._seat,))
        other.board.roster.admit = refuses
        text, name = await refused(one, WEB)
        other.board.roster.admit = lambda _: None
        await other.agreement.step()
        await third.agreement._look_at_refused()  # it was proposed between two looks
        for each in (one, other, third):
            assert each.board.roster.is_given_up(text)
            await in_force_at_last(each, owner, name)
            assert each.board.roster.text == ""


async def test_whoever_begins_sees_what_was_refused_before(address: str) -> None:
    async with gateways(address, 2) as (one, other):
        other.board.roster.admit = refuses
        text, _ = await refused(one, WEB)
        async with gateways(address, 1) as (late,), asyncio.timeout(PATIENCE_S):
            while not late.board.roster.is_given_up(text):
                await asyncio.sleep(0.01)


async def test_what_is_waited_for_still_is_given_up_by_nobody(
    address: str, owner: Connection
) -> None:
    async with gateways(address, 2) as (one, other):
        slow = Event()
        other.board.roster.admit = waiting_for(slow)
        text = one.board.roster.following(WEB)
        change = asyncio.create_task(one.agreement.register("", text))
        async with asyncio.timeout(PATIENCE_S):
            while not in_force(owner)[2]:
                await asyncio.sleep(0.01)
        for each in (one, other):
            await each.agreement.step()
            await each.agreement._look_at_refused()
            assert not each.board.roster.is_given_up(text)
        slow.set()
        await change
        await knows(other, text)


async def test_what_not_all_had_in_time_is_no_more_proposed_by_whoever_has_it(
    address: str, owner: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any gateway's user of the database may propose; a gateway that had made it ready has it no more."""
    async with gateways(address, 3) as (one, other, third):
        monkeypatch.setattr(shared, "_PATIENCE_S", 1.0)
        slow = Event()
        other.board.roster.admit = waiting_for(slow)
        _, name = await refused(one, WEB)
        slow.set()
        for each in (other, third):
            await each.agreement.step()
        content = await one.board.text(name)
        assert await other.board.propose(name, content, over="", anew=True)
        async with asyncio.timeout(PATIENCE_S):
            while in_force(owner)[2]:
                await asyncio.sleep(0.01)
        assert in_force(owner)[0] == "one"
        assert "came into force nowhere" in await one.board.problem(name)
        assert [each.board.roster.text for each in (one, other, third)] == ["", "", ""]


async def test_what_was_made_ready_and_refused_is_not_taken_up_later(
    address: str, owner: Connection
) -> None:
    async with gateways(address, 2) as (one, other):
        other.agreement._following.cancel()
        text = one.board.roster.following(WEB)
        name = named("one", text)
        change = asyncio.create_task(one.agreement.register("", text))
        async with asyncio.timeout(PATIENCE_S):
            while in_force(owner)[2] != name:
                await asyncio.sleep(0.01)
        ready = await other.agreement._made_ready(name)
        await one.board.refuse(name, "no")
        with pytest.raises(ConfigError, match="at no gateway"):
            await change
        await other.agreement.step()
        other.agreement._next = ready  # it took so long
        owner.execute("UPDATE in_force SET policy = %s", (name,))
        await other.agreement.step()
        assert other.board.roster.text == ""
        assert name in other.agreement.problem


async def test_after_what_was_refused_the_next_is_registered_as_ever(
    address: str, owner: Connection
) -> None:
    async with gateways(address, 2) as (one, other):
        other.board.roster.admit = refuses
        first, name = await refused(one, WEB)
        other.board.roster.admit = lambda _: None
        again = one.board.roster.following(WEB)
        await registers(one, again)
        await knows(other, again)
        assert first != again
        for each in (one, other):
            with pytest.raises(ConfigError, match="older"):
                await each.agreement._made_ready(name)
        await other.agreement._look_at_refused()
        await registers(other, other.board.roster.following(NONE))
        await one.agreement._look_at_refused()
        await knows(one, other.board.roster.text)
        assert (one.agreement.problem, in_force(owner)[1]) == ("", 3)


async def test_of_two_who_register_at_once_the_second_is_not_given_up_with_the_first(
    address: str, owner: Connection
) -> None:
    """Both are counted alike: neither knows of the other's."""
    async with gateways(address, 2) as (one, other):
        texts = [each.board.roster.following(what) for each, what in ((one, WEB), (other, NEWS))]
        told = await asyncio.gather(
            *(
                each.agreement.register("", text)
                for each, text in zip((one, other), texts, strict=True)
            ),
            return_exceptions=True,
        )
        (kept,) = [text for text, error in zip(texts, told, strict=True) if error is None]
        for each in (one, other):
            await knows(each, kept)
            assert each.agreement.problem == ""


async def test_what_no_gateway_has_written_is_registered_nowhere(
    address: str, owner: Connection
) -> None:
    """Whoever keeps the database may write what is in force, and would have secrets of ours sent to a server."""
    async with gateways(address, 1) as (one,):
        name = named("one", WEB)
        for text in (told("one", WEB), told("one", Roster(b"other").vouched(WEB))):
            owner.execute("DELETE FROM policies WHERE digest = %s", (name,))
            owner.execute("INSERT INTO policies (digest, content) VALUES (%s, %s)", (name, text))
            owner.execute("UPDATE in_force SET policy = %s", (name,))
            await one.agreement.step()
            assert name in one.agreement.problem
            with pytest.raises(ConfigError, match="none of these gateways"):
                await one.agreement._made_ready(name)
        assert one.board.roster.text == ""


async def test_of_two_who_register_at_once_none_takes_back_what_the_other_has(
    address: str, owner: Connection
) -> None:
    """Each goes on from what is registered: also where memory is a moment behind."""
    async with gateways(address, 2) as (one, other):
        other.agreement._following.cancel()
        text = told("one", NEWS)
        await registers_alone(one, owner, WEB)
        late = await other.board.propose(named("one", NEWS), text, over="", anew=True)
        assert late is None
        assert in_force(owner)[0] == named("one", WEB)
        with pytest.raises(ConfigError, match="meanwhile"):
            await other.agreement.register("", NEWS)
        assert in_force(owner)[0] == named("one", WEB)


async def test_who_does_not_decide_by_what_is_in_force_registers_nothing(
    address: str, owner: Connection
) -> None:
    """Else an older policy would come back with it, or one under the name of another."""
    async with gateways(address, 1) as (one,):
        one.able = False
        owner.execute("INSERT INTO policies (digest, content) VALUES ('two', %s)", (told("two"),))
        owner.execute("UPDATE in_force SET policy = 'two'")
        with pytest.raises(ConfigError, match="meanwhile"):
            await registers(one, WEB)
        assert in_force(owner) == ("two", 1, "")
        assert one.board.roster.text == ""


async def registers_alone(gateway: Gateway, owner: Connection, servers: str) -> None:
    """Register while nobody else is heard of."""
    owner.execute("DELETE FROM replicas WHERE name <> %s", (gateway.agreement._seat,))
    await registers(gateway, servers)


async def test_a_policy_that_changes_leaves_what_is_registered(
    address: str, owner: Connection
) -> None:
    async with gateways(address, 2) as (one, other):
        await registers(one, WEB)
        assert await one.offers("two") == "two"
        await other.until("two")
        assert in_force(owner) == (named("two", WEB), 3, "")
        assert other.board.roster.text == WEB


async def test_whoever_begins_has_what_is_registered_and_no_policy_of_before(
    address: str, owner: Connection
) -> None:
    async with gateways(address, 1) as (one,):
        await one.offers("two")
        await registers(one, WEB)
        async with gateways(address, 1, first="one") as (late,):
            assert (late.history, late.board.roster.text) == (["two"], WEB)
        async with gateways(address, 1, first="three") as (late,):
            assert (late.history, late.board.roster.text) == (["three"], WEB)
        await one.until("three")
        assert in_force(owner) == (named("three", WEB), 4, "")


async def test_no_call_of_a_server_that_was_removed_elsewhere_is_kept(
    address: str, owner: Connection
) -> None:
    """The other gateway has not looked since: its call makes it look, and is of no server any more."""
    with_runs(owner, "r")
    async with gateways(address, 2) as (one, other), replica(address, "r1") as end:
        await registers(one, WEB)
        await knows(other, WEB)
        other.agreement._following.cancel()
        end.ledger._memories = {Premise.POLICY: other.board.look_again}
        roster = other.board.roster

        def known(policy: str, server: str) -> str:
            return "" if server == "web" and "web" not in roster.servers else roster.beside(policy)

        ledger = PolicedLedger(end.ledger, Names("one"), named=known)
        rests = replace(resting_on("r"), policy="one")
        assert (await ledger.put(record("a", server="web"), rests, NOTHING)).id == "a"
        await registers_alone(one, owner, NONE)
        assert roster.text == WEB
        for name in ("b", "c"):
            with pytest.raises(Changed) as found:
                await ledger.put(record(name, server="web"), rests, NOTHING)
            assert found.value.what == {Premise.POLICY}
            await other.agreement.step()
            await knows(other, NONE)
        assert (await ledger.put(record("d", server="mail"), rests, NOTHING)).id == "d"
    assert in_tray(owner) == ["a", "d"]


async def test_how_each_gateway_that_lives_is_configured_is_told_the_oldest_first(
    address: str, owner: Connection
) -> None:
    async with gateways(address, 3) as (one, other, third):
        assert await third.board.configured("x") == [("r2", "x")]
        assert await one.board.configured("y") == [("r2", "x"), ("r0", "y")]
        assert await other.board.configured("x") == [("r2", "x"), ("r0", "y"), ("r1", "x")]
        assert await third.board.configured("z") == [("r0", "y"), ("r1", "x"), ("r2", "z")]
        assert (await one.board.configured("y"))[0] == ("r0", "y")
        await one.offers("two")  # a gateway may decide at several places: it is one all the same
        seat = one.board.seat()
        await one.board.hear(seat, decides="two", prepared="two")
        assert await one.board.configured("y") == [("r0", "y"), ("r1", "x"), ("r2", "z")]
        other.agreement._following.cancel()
        await asyncio.wait([other.agreement._following])
        owner.execute(
            "UPDATE replicas SET heard = clock_timestamp() - interval '11 seconds'"
            " WHERE starts_with(name, 'r1/')"
        )
        assert ("r1", "x") not in await one.board.configured("y")


class Names:
    """A policy that holds by its name."""

    def __init__(self, *held: str) -> None:
        self.held = held

    def holds(self, digest: str) -> bool:
        return digest in self.held


async def test_a_call_that_an_older_policy_decided_is_decided_again_by_the_newer_one(
    address: str, owner: Connection
) -> None:
    """The other gateway has not looked since; its call makes it look."""
    with_runs(owner, "r")
    async with gateways(address, 1) as (one,), replica(address, "r1") as end:
        end.ledger._memories = {Premise.POLICY: one.board.look_again}
        one.agreement._following.cancel()
        one.agreement._next = _Ready(name="two", servers="", built=one.make("two"), put=one._put)
        owner.execute("UPDATE in_force SET policy = 'two'")
        ledger = PolicedLedger(end.ledger, Names("one", "two"), named=lambda name, _: name)
        with pytest.raises(Changed) as found:
            await ledger.put(record("a"), replace(resting_on("r"), policy="one"), NOTHING)
        assert found.value.what == {Premise.POLICY}
        assert one.decides == "two"
        assert (
            await ledger.put(record("b"), replace(resting_on("r"), policy="two"), NOTHING)
        ).id == "b"
    assert in_tray(owner) == ["b"]


async def test_what_does_not_hold_here_is_written_nowhere(address: str, owner: Connection) -> None:
    with_runs(owner, "r")
    owner.execute("UPDATE in_force SET policy = %s", (CENTRAL,))
    async with replica(address) as end:
        policy = Names("sha256:theirs")
        ledger = PolicedLedger(end.ledger, policy, named=lambda *_: CENTRAL)
        kept = replace(resting_on("r"), policy="sha256:theirs")
        assert (await ledger.put(record("a"), kept, NOTHING)).id == "a"
        policy.held = ()
        with pytest.raises(Changed):
            await ledger.put(record("b"), kept, NOTHING)
    assert in_tray(owner) == ["a"]


class KeepsAll:
    """A ledger that compares nothing."""

    def __init__(self) -> None:
        self.kept: list[str] = []

    async def put(self, record: AuditRecord, premises: Premises, uses: Uses) -> LogEntry:
        self.kept.append(record.id)
        return LogEntry(id=record.id)

    async def caught_up(self) -> bool:
        return False


async def test_what_has_no_name_any_more_is_not_even_asked_about() -> None:
    ledger = KeepsAll()
    policed = PolicedLedger(ledger, Names("one"), named=lambda _, server: server and "one")
    rests = replace(resting_on("r"), policy="one")
    await policed.put(record("a", server="mail"), rests, NOTHING)
    with pytest.raises(Changed):
        await policed.put(record("b"), rests, NOTHING)
    assert ledger.kept == ["a"]


@asynccontextmanager
async def holding(
    address: str, folder: Path, name: str
) -> AsyncIterator[tuple[PolicyHolder, list[PolicyEvent]]]:
    """Decide by a folder, as one of the gateways over a database."""
    events: list[PolicyEvent] = []
    with closing(PostgresBoard(address, replica=name, key=b"k")) as board:
        settings = PolicySettings(path=str(folder))
        agree = partial(Shared, board)
        holder = await load(settings, {"of": name}, on_change=events.append, agree=agree)
        try:
            yield holder, events
        finally:
            await holder.close()


async def allows(holder: PolicyHolder) -> list[bool]:
    asked = [await holder.evaluate(question) for question in (GOOD, BETTER)]
    return [decision.verdict == "allow" for decision in asked]


async def test_folders_that_differ_decide_alike(address: str, tmp_path: Path) -> None:
    """Real policies: the one that is saved last decides everywhere, with the data it came with."""
    folders = [tmp_path / name for name in ("one", "other")]
    for folder in folders:
        folder.mkdir()
        (folder / "decision.rego").write_text(ONE_RULE)
    async with AsyncExitStack() as stack:
        (one, _), (other, told) = [
            await stack.enter_async_context(holding(address, folder, folder.name))
            for folder in folders
        ]
        async with asyncio.timeout(PATIENCE_S):
            while one.digest != other.digest:  # which brought other data with it
                await asyncio.sleep(0.02)
        assert other.agreement.problem == ""
        (folders[0] / "decision.rego").write_text(ONE_RULE.replace('"good"', '"better"'))
        assert (await one.reload_now()).ok
        async with asyncio.timeout(PATIENCE_S):
            while other.digest != one.digest:
                await asyncio.sleep(0.02)
        assert await allows(one) == await allows(other) == [False, True]
        await other.agree()  # what lies there was replaced, and is no change
        assert await allows(other) == [False, True]
        assert (told[-1].new, told[-1].revision) == (one.digest, 3)
        (folders[1] / "decision.rego").write_text("package douane\n\nthis is no rule")
        assert not (await other.reload_now()).ok
        assert await allows(one) == await allows(other) == [False, True]
