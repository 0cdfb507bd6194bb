"""Changing the policy of a running gateway: at once, as a whole, or not at all."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway.domain.decisions import Decision
from gateway.domain.epoch import Epoch
from gateway.errors import ConfigError, PolicyUnavailable
from gateway.policy.refusing import RefusingEngine
from gateway.policy.reload import PolicyHolder, _Look, load
from gateway.policy.settings import EngineKind, OpaServer, PolicyEvent, PolicySettings
from tests.policy.policy_questions import ONE_RULE

GOOD = {"target": {"name": "good"}}
BETTER = {"target": {"name": "better"}}


@pytest.fixture
def events() -> list[PolicyEvent]:
    return []


@pytest.fixture
async def holder(folder: Path, events: list[PolicyEvent]) -> AsyncIterator[PolicyHolder]:
    held = await load(PolicySettings(path=str(folder)), {}, on_change=events.append)
    yield held
    await held.close()


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the folder often: what is saved before it is watched is seen at the next look."""
    monkeypatch.setattr("gateway.policy.reload._LOOK_MS", 200)


def saved(folder: Path, text: str) -> None:
    """Put `text` in the place of the rules at once: who watches never sees an empty file."""
    beside = folder.parent / "decision.new"
    beside.write_text(text)
    beside.replace(folder / "decision.rego")


async def until(events: list[PolicyEvent], count: int) -> None:
    for _ in range(1200):
        if len(events) >= count:
            return
        await asyncio.sleep(0.05)
    pytest.fail(f"only {events}")


async def test_the_first_policy_is_told(holder: PolicyHolder, events: list[PolicyEvent]) -> None:
    assert events == [PolicyEvent(old="", new=holder.digest, ok=True)]
    assert (await holder.evaluate(GOOD)).verdict == "allow"
    assert await holder.judge_pin({}) == "hold"


async def test_a_first_policy_that_cannot_be_used_is_an_error(folder: Path) -> None:
    (folder / "decision.rego").write_text("package douane\n\nnonsense")
    with pytest.raises(ConfigError):
        await load(PolicySettings(path=str(folder)), {}, on_change=print)


async def test_a_saved_change_is_in_force_by_itself(
    holder: PolicyHolder, folder: Path, events: list[PolicyEvent]
) -> None:
    old = holder.digest
    saved(folder, ONE_RULE.replace("good", "better"))
    await until(events, 2)
    assert events[1:] == [PolicyEvent(old=old, new=holder.digest, ok=True)]
    assert holder.digest != old
    assert (await holder.evaluate(BETTER)).verdict == "allow"
    assert (await holder.evaluate(GOOD)).verdict == "deny"


async def test_a_bad_change_leaves_the_old_policy_in_force(
    holder: PolicyHolder, folder: Path, events: list[PolicyEvent]
) -> None:
    old = holder.digest
    saved(folder, ONE_RULE.replace("input.target.name", "input.targt"))
    await until(events, 2)
    problem = "decision.rego:5: undefined ref: input.targt; is target meant?"
    assert events[1] == PolicyEvent(old=old, new=old, ok=False, problems=(problem,))
    assert holder.digest == old
    assert (await holder.evaluate(GOOD)).verdict == "allow"


async def test_a_change_whose_tests_fail_leaves_the_old_policy_in_force(
    holder: PolicyHolder, folder: Path
) -> None:
    (folder / "a_test.rego").write_text("package a_test\n\ntest_no if false\n")
    event = await holder.reload_now()
    assert not event.ok
    assert (await holder.evaluate(GOOD)).verdict == "allow"


def latin_name(folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/f\xfcr.rego")).write_text("package x\n")


def nested(folder: Path) -> None:
    (folder / "data.yaml").write_text("a: " + "[" * 1500 + "]" * 1500 + "\n")


def enormous(folder: Path) -> None:
    (folder / "data.json").write_text('{"a": 1e999}')


@pytest.mark.parametrize(
    ("save", "told"),
    [
        (latin_name, "f\\udcfcr.rego:1: the file's name is not UTF-8"),
        (nested, "data.json:1: a number is too large, or something is nested too deep"),
        (enormous, "data.json:1: a number is too large, or something is nested too deep"),
    ],
)
async def test_what_cannot_be_read_is_refused_in_words_and_the_next_change_is_in_force(
    holder: PolicyHolder,
    folder: Path,
    events: list[PolicyEvent],
    save: Callable[[Path], None],
    told: str,
) -> None:
    save(folder)
    await until(events, 2)
    assert (events[1].ok, events[1].new) == (False, holder.digest)
    assert told in events[1].problems[0]
    for path in folder.iterdir():
        path.unlink()
    saved(folder, ONE_RULE.replace("good", "better"))
    async with asyncio.timeout(60):
        # What stood there in between, an empty folder or file, may have been seen and told as well.
        while (await holder.evaluate(BETTER)).verdict != "allow":
            await asyncio.sleep(0.05)


async def test_what_nobody_foresaw_is_a_refusal_and_is_told(
    holder: PolicyHolder, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RecursionError("too deep")

    saved(folder, ONE_RULE.replace("good", "better"))
    monkeypatch.setattr("gateway.policy.building.prepare", broken)
    event = await holder.reload_now()
    assert (event.ok, event.problems) == (False, ("RecursionError: too deep",))
    monkeypatch.setattr("gateway.policy.sources._taken", broken)
    event = await holder.reload_now()
    assert (event.ok, event.problems) == (False, ("RecursionError: too deep",))
    assert (await holder.evaluate(GOOD)).verdict == "allow"


async def test_a_bug_does_not_end_the_watching(
    folder: Path, events: list[PolicyEvent], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def broken(*_: object, **__: object) -> None:
        nonlocal calls
        calls += 1
        raise RuntimeError("no such thing")

    monkeypatch.setattr("gateway.policy.reload._LOOK_MS", 10)
    monkeypatch.setattr("gateway.policy.reload.awatch", broken)
    held = await load(PolicySettings(path=str(folder)), {}, on_change=events.append)
    try:
        async with asyncio.timeout(60):
            while calls < 3:
                await asyncio.sleep(0.01)
        assert held._watcher is not None
        assert not held._watcher.done()
    finally:
        await held.close()


async def test_a_folder_that_is_gone_leaves_the_old_policy_in_force(
    holder: PolicyHolder, folder: Path
) -> None:
    folder.rename(folder.parent / "moved")
    assert not (await holder.reload_now()).ok
    assert (await holder.evaluate(GOOD)).verdict == "allow"


async def test_nothing_is_told_where_nothing_changed(
    holder: PolicyHolder, events: list[PolicyEvent]
) -> None:
    event = await holder.reload_now()
    assert event == PolicyEvent(old=holder.digest, new=holder.digest, ok=True)
    assert len(events) == 1


async def test_new_data_of_the_gateways_own_is_another_policy(
    holder: PolicyHolder, events: list[PolicyEvent]
) -> None:
    event = await holder.reload_now({"roles": {"user": {"groups": ["users"]}}})
    assert event.ok
    assert event.new != event.old
    assert events[1:] == [event]
    assert (await holder.reload_now()).new == event.new


async def test_data_that_came_with_a_bad_policy_is_not_kept(
    holder: PolicyHolder, folder: Path
) -> None:
    old, text = holder.digest, (folder / "decision.rego").read_text()
    (folder / "decision.rego").write_text("nonsense")
    assert not (await holder.reload_now({"roles": {"x": {}}})).ok
    (folder / "decision.rego").write_text(text)
    assert (await holder.reload_now()).new == old


async def test_the_epoch_turns_when_another_policy_answers(folder: Path) -> None:
    epoch = Epoch()
    held = await load(PolicySettings(path=str(folder)), {}, on_change=print, epoch=epoch)
    before = epoch.now
    (folder / "more_test.rego").write_text("package douane_test\n")
    await held.reload_now()
    assert epoch.now == before, "it is the same policy with other tests"
    saved(folder, ONE_RULE.replace("good", "better"))
    await held.reload_now()
    assert epoch.now != before
    await held.close()


async def test_a_central_server_is_looked_at_again(events: list[PolicyEvent]) -> None:
    revision = ["r1"]

    async def handler(_: web.Request) -> web.Response:
        if not revision:
            return web.Response(status=503)
        bundles = {"douane": {"revision": revision[0]}}
        answer = {"verdict": "allow", "reasons": []}
        return web.json_response({"result": answer, "provenance": {"bundles": bundles}})

    app = web.Application()
    app.router.add_post("/{path:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server = OpaServer(url=f"http://127.0.0.1:{runner.addresses[0][1]}")
    settings = PolicySettings(
        path="unused", engine=EngineKind.OPA, server=server, deadline=5.0, poll=0.05
    )
    held = await load(settings, {}, on_change=events.append)
    try:
        revision[0] = "r2"
        await until(events, 2)
        assert events == [
            PolicyEvent(old="", new="revision:douane=r1", ok=True),
            PolicyEvent(old="revision:douane=r1", new="revision:douane=r2", ok=True),
        ]
        assert (await held.evaluate(GOOD)).policy_digest == "revision:douane=r2"
        revision.clear()
        await until(events, 3)
        assert not events[2].ok
        assert held.digest == "revision:douane=r2"
    finally:
        await held.close()
        await runner.cleanup()


def looked(number: int) -> _Look:
    return _Look(number=number, snapshot=None, print=f"look {number}")


class Slow(RefusingEngine):
    """Answers a list only when told to, and notes whether it was closed meanwhile."""

    def __init__(self, digest: str) -> None:
        super().__init__(digest=digest)
        self.go = asyncio.Event()
        self.closed = False

    async def evaluate_many(self, questions: Sequence[Mapping[str, Any]]) -> Sequence[Decision]:
        await self.go.wait()
        assert not self.closed
        return await super().evaluate_many(questions)

    async def close(self) -> None:
        self.closed = True


async def test_a_list_is_answered_by_the_policy_it_was_asked_of(holder: PolicyHolder) -> None:
    slow, next_one = Slow("old"), RefusingEngine(digest="new")
    holder._put(slow, looked(1001))
    asked = asyncio.create_task(holder.evaluate_many([GOOD] * 3))
    await asyncio.sleep(0)
    holder._put(next_one, looked(1002))
    assert (await holder.evaluate(GOOD)).policy_digest == "new"
    assert not slow.closed
    slow.go.set()
    assert {decision.policy_digest for decision in await asked} == {"old"}
    await asyncio.gather(*holder._retiring)
    assert slow.closed


async def test_what_was_read_earlier_never_takes_the_place_of_what_was_read_later(
    holder: PolicyHolder,
) -> None:
    late, early = Slow("late"), Slow("early")
    holder._put(late, looked(1002))
    holder._put(early, looked(1001))
    assert holder.digest == "late"
    await asyncio.gather(*holder._retiring)
    assert (early.closed, late.closed) == (True, False)


async def test_a_policy_that_was_put_out_of_force_answers_nothing_any_more(folder: Path) -> None:
    """Nobody follows it: what still comes to it would be judged by what was saved long ago."""
    held = await load(PolicySettings(path=str(folder)), {}, on_change=print)
    decided = held.digest
    assert (await held.evaluate(GOOD)).verdict == "allow"
    await held.close()
    for asked in (
        held.evaluate(GOOD),
        held.evaluate_many([GOOD]),
        held.judge_pin({}),
        held.pin_approvals({}),
        held.self_approval({}),
    ):
        with pytest.raises(PolicyUnavailable):
            await asked
    assert not held.holds(decided)


async def test_nothing_comes_into_force_where_nothing_is_to_be_any_more(folder: Path) -> None:
    held = await load(PolicySettings(path=str(folder)), {}, on_change=print)
    await held.close()
    late = Slow("late")
    held._put(late, looked(1001))
    saved(folder, ONE_RULE.replace("good", "better"))
    async with asyncio.timeout(60):
        await held.agree()
    await asyncio.gather(*held._retiring)
    assert (held.digest, late.closed) == ("", True)


async def test_the_managed_server_is_replaced_as_a_whole(
    folder: Path, events: list[PolicyEvent]
) -> None:
    settings = PolicySettings(path=str(folder), engine=EngineKind.OPA, deadline=5.0)
    held = await load(settings, {}, on_change=events.append)
    try:
        assert (await held.evaluate(GOOD)).verdict == "allow"
        saved(folder, ONE_RULE.replace("good", "better"))
        await until(events, 2)
        assert (await held.evaluate(BETTER)).verdict == "allow"
        assert (await held.evaluate(GOOD)).verdict == "deny"
    finally:
        await held.close()
