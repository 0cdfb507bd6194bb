"""What is saved while a policy is built comes into force all the same, at whatever moment that is."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.errors import ConfigError
from gateway.policy import building, bundle, refused, reload
from gateway.policy.opa import Opa
from gateway.policy.reload import PolicyHolder, load
from gateway.policy.settings import PolicyEvent, PolicySettings
from tests.policy.policy_questions import ONE_RULE

GOOD: Final = {"target": {"name": "good"}}
BETTER: Final = {"target": {"name": "better"}}
TEST: Final = "package a_test\n\ntest_yes if true\n"

Save = Callable[[], object]
Moment = Callable[[pytest.MonkeyPatch, Save], None]


def once(save: Save) -> Callable[[], None]:
    waiting = [save]

    def saved() -> None:
        if waiting:
            waiting.pop()()

    return saved


def around(place: Any, name: str, *, after: bool = False) -> Moment:
    """Save just before, or just after, one step of a build."""

    def arrange(monkeypatch: pytest.MonkeyPatch, save: Save) -> None:
        step, saved = getattr(place, name), once(save)

        def stepped(*given: Any, **named: Any) -> Any:
            if not after:
                saved()
            done = step(*given, **named)
            if after:
                saved()
            return done

        monkeypatch.setattr(place, name, stepped)

    return arrange


def while_opa_does(what: str) -> Moment:
    def arrange(monkeypatch: pytest.MonkeyPatch, save: Save) -> None:
        run, saved = Opa.run, once(save)

        def ran(self: Opa, *given: str, **named: Any) -> Any:
            if given[0] == what:
                saved()
            return run(self, *given, **named)

        monkeypatch.setattr(Opa, "run", ran)

    return arrange


MOMENTS: Final[dict[str, Moment]] = {
    "before it is read": around(reload, "take"),
    "once it is read": around(reload, "take", after=True),
    "while it is checked": while_opa_does("check"),
    "while its tests run": while_opa_does("test"),
    "while it is compiled": while_opa_does("build"),
    "once it is compiled": around(building, "wasm_engine", after=True),
    "before the switch": around(PolicyHolder, "_put"),
    "after the switch": around(PolicyHolder, "_put", after=True),
}


async def nothing_is_told(*_: Any, **__: Any) -> AsyncIterator[None]:
    """Stand in for a file system that tells nothing of changes."""
    await asyncio.Event().wait()
    yield


@pytest.fixture(autouse=True)
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reload, "awatch", nothing_is_told)


@pytest.fixture
def events() -> list[PolicyEvent]:
    return []


@asynccontextmanager
async def holding(folder: Path, events: list[PolicyEvent]) -> AsyncIterator[PolicyHolder]:
    held = await load(PolicySettings(path=str(folder)), {}, on_change=events.append)
    try:
        yield held
    finally:
        await held.close()


async def allows(holder: PolicyHolder) -> list[bool]:
    asked = [await holder.evaluate(question) for question in (GOOD, BETTER)]
    return [decision.verdict == "allow" for decision in asked]


@pytest.mark.parametrize(
    "moment", ["before it is read", "once it is read", "while its tests run", "after the switch"]
)
async def test_what_is_saved_while_the_first_policy_is_built_is_in_force_at_once(
    folder: Path, events: list[PolicyEvent], monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    (folder / "a_test.rego").write_text(TEST)
    rule = folder / "decision.rego"
    MOMENTS[moment](
        monkeypatch, lambda: rule.write_text(ONE_RULE.replace("good", "better")) and None
    )
    async with holding(folder, events) as holder:
        assert await allows(holder) == [False, True]
        assert events[-1] == PolicyEvent(
            old=events[-2].new if events[1:] else "", new=holder.digest, ok=True
        )


@pytest.mark.parametrize("moment", MOMENTS)
async def test_what_is_saved_while_a_policy_is_built_is_in_force_once_it_is(
    folder: Path, events: list[PolicyEvent], monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    (folder / "a_test.rego").write_text(TEST)
    rule = folder / "decision.rego"
    async with holding(folder, events) as holder:
        first = holder.digest
        rule.write_text(ONE_RULE.replace("good", "neither"))
        better = ONE_RULE.replace("good", "better")
        MOMENTS[moment](monkeypatch, lambda: rule.write_text(better))
        await holder.agree()
        assert await allows(holder) == [False, True]
        told = [(event.old, event.new) for event in events]
        assert told[0] == ("", first)
        assert [new for _, new in told[:-1]] == [old for old, _ in told[1:]]
        assert told[-1][1] == holder.digest


async def test_what_is_saved_while_a_broken_first_policy_is_built_counts(
    folder: Path, events: list[PolicyEvent], monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = folder / "decision.rego"
    rule.write_text("nonsense")
    mended = once(lambda: rule.write_text(ONE_RULE))
    around(reload, "take", after=True)(monkeypatch, mended)
    async with holding(folder, events) as holder:
        assert await allows(holder) == [True, False]
        assert [event.ok for event in events] == [False, True]


async def test_of_many_who_ask_at_once_one_builds(
    folder: Path, events: list[PolicyEvent], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with holding(folder, events) as holder:
        built = []
        around(building, "prepare")(monkeypatch, lambda: built.append("first"))
        (folder / "decision.rego").write_text(ONE_RULE.replace("good", "better"))
        await asyncio.gather(*(holder.agree() for _ in range(20)))
        assert built == ["first"]
        assert len(events) == 2


async def test_a_holder_that_is_behind_catches_up_before_it_takes_over(
    folder: Path, events: list[PolicyEvent]
) -> None:
    rule = folder / "decision.rego"
    async with holding(folder, events) as next_one, holding(folder, events) as before:
        rule.write_text(ONE_RULE.replace("good", "better"))
        await before.agree()
        assert next_one.number < before.number
        await next_one.catch_up(before)
        assert next_one.digest == before.digest


async def test_a_switch_elsewhere_while_a_holder_catches_up_is_seen(
    folder: Path, events: list[PolicyEvent], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look that is under way may be older than what comes into force meanwhile."""
    rule = folder / "decision.rego"
    async with holding(folder, events) as next_one, holding(folder, events) as before:
        agree = next_one.agree
        looked: list[int] = []

        async def agreed() -> None:
            await agree()
            if not looked:
                looked.append(1)
                rule.write_text(ONE_RULE.replace("good", "better"))
                await before.agree()

        monkeypatch.setattr(next_one, "agree", agreed)
        await next_one.catch_up(before)
        assert next_one.digest == before.digest
        assert await allows(next_one) == [False, True]


async def test_a_file_system_that_tells_nothing_is_looked_at(
    folder: Path, events: list[PolicyEvent], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a link leads elsewhere, or there are too many folders to watch."""
    monkeypatch.setattr(reload, "_LOOK_MS", 10)

    def refuses(*_: Any, **__: Any) -> AsyncIterator[None]:
        raise OSError("OS file watch limit reached")

    monkeypatch.setattr(reload, "awatch", refuses)
    async with holding(folder, events) as holder:
        (folder / "decision.rego").write_text(ONE_RULE.replace("good", "better"))
        async with asyncio.timeout(60):
            while await allows(holder) != [False, True]:
                await asyncio.sleep(0.01)


async def test_what_was_refused_because_of_the_machine_is_tried_again(
    folder: Path, events: list[PolicyEvent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refused, "_AGAIN_S", 0.0)
    full = [True, True]

    def prepared(*given: Any, **named: Any) -> Any:
        if full:
            full.pop()
            raise OSError("No space left on device")
        return bundle.prepare(*given, **named)

    async with holding(folder, events) as holder:
        monkeypatch.setattr(building, "prepare", prepared)
        (folder / "decision.rego").write_text(ONE_RULE.replace("good", "better"))
        await holder.agree()
        assert await allows(holder) == [True, False]
        await holder._look_again()
        await holder._look_again()
        assert await allows(holder) == [False, True]
        assert [event.ok for event in events] == [True, False, True]


async def test_a_folder_with_a_broken_policy_is_no_first_policy(
    folder: Path, events: list[PolicyEvent]
) -> None:
    (folder / "decision.rego").write_text("nonsense")
    with pytest.raises(ConfigError):
        await load(PolicySettings(path=str(folder)), {}, on_change=events.append)
