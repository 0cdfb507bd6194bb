"""Which run a call is in, and that no call goes out on a cleaner label than what was read before."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.calls import Call, Permit, RawAnswer
from gateway.domain.decisions import Verdict
from gateway.domain.flow import RunHint, Task
from gateway.domain.labels import BOTTOM, ToolRule
from gateway.domain.tools import Profile
from gateway.flow.evidence import UNKNOWN_RUN
from gateway.storage.store import Store
from tests.pipeline.house import (
    ALICE,
    PRIVATE,
    UNHINTED,
    House,
    Seen,
    decision,
    result,
    text,
)
from tests.pipeline.test_calls_of_programs import script

HOST = replace(ALICE, trusted_host=True)
TASK = {"prompt": "Write to Bob", "tools": ["send"]}


@pytest.fixture
async def house() -> House:
    built = House(tools={"search": ToolRule(result=PRIVATE), "send": ToolRule(result=BOTTOM)})
    await ready(built)
    return built


async def ready(built: House) -> None:
    built.gate.people["alice"] = HOST
    await built.approve_all()
    await built.approve_all(Profile.LEGACY)
    built.audit.records.clear()
    built.rule.says = no_private_data_out


def no_private_data_out(question: Mapping[str, Any]) -> Verdict:
    if question["phase"] == "call" and question["target"]["name"] == "send":
        dirty = question["flow"]["label"] == PRIVATE.words
        return Verdict.DENY if dirty else Verdict.ALLOW
    return Verdict.ALLOW


def use(house: House, tool: str, *, session: str | None = "s1", run: str | None = None) -> Call:
    """Make a call in a session of a revision that has them, or without one in the other."""
    profile = Profile.MODERN if session is None else Profile.LEGACY
    params = {"name": tool, "arguments": {}}
    return house.request("tools/call", params, profile=profile, session=session, run=run)


async def ask(house: House, method: str, params: Mapping[str, Any], **more: Any) -> Seen:
    return await house.handle(house.request(method, params, **more))


async def begin(house: House, **more: Any) -> str:
    seen = await ask(house, "douane/run/begin", {"task": TASK}, **more)
    handle: str = seen.json["result"]["run"]
    return handle


async def test_a_session_that_was_opened_before_knows_what_another_one_reads(house):
    assert (await house.handle(use(house, "send", session="b"))).code is None
    assert (await house.handle(use(house, "search", session="a"))).code is None
    assert (await house.handle(use(house, "send", session="b"))).code == "denied"
    assert (await house.handle(use(house, "send", session="new"))).code == "denied"


async def test_a_call_with_a_handle_that_is_not_known_is_read_strictly(house):
    assert (await house.handle(use(house, "send", run="invented"))).code == "denied"
    assert house.last["label_before"] == PRIVATE.words
    assert (await house.handle(use(house, "send"))).code is None


async def test_a_call_of_an_unknown_run_says_so_on_record_and_in_its_question(house):
    house.rule.says = lambda question: decision(Verdict.ASK, "outside")
    await house.handle(use(house, "send", run="invented"))
    assert house.last["label_because"] == "unknown_run"
    (filed,) = house.approvals.all(now=house.now)
    assert UNKNOWN_RUN in filed.request.evidence
    await house.handle(use(house, "send", session=None))
    assert "label_because" not in house.last


async def test_the_same_call_is_decided_alike_in_a_session_and_without_one(house):
    for session in (None, "new"):
        assert (await house.handle(use(house, "send", session=session))).code is None
        assert house.last["label_before"] == BOTTOM.words
    await house.handle(use(house, "search", session=None))
    for session in (None, "new"):
        assert (await house.handle(use(house, "send", session=session))).code == "denied"
        assert house.last["label_before"] == PRIVATE.words


async def test_what_a_call_of_an_unknown_run_is_labelled_after_is_no_cleaner(house):
    await house.handle(use(house, "send", run="invented"))
    house.rule.says = lambda question: Verdict.ALLOW
    await house.handle(use(house, "send", run="invented"))
    assert house.last["label_after"] == PRIVATE.words
    phases = [asked["flow"]["label"] for asked in house.rule.asked if asked["phase"] == "result"]
    assert phases[-1] == PRIVATE.words


@pytest.mark.parametrize("profile", list(Profile))
async def test_a_trusted_host_begins_a_run_that_has_seen_nothing_else(house, profile):
    await house.handle(use(house, "search"))
    seen = await ask(house, "douane/run/begin", {"task": TASK}, profile=profile)
    answer = seen.json["result"]
    assert answer.pop("resultType", None) == ("complete" if profile is Profile.MODERN else None)
    assert answer.keys() == {"run", "idle_s"}
    assert answer["idle_s"] == 8 * 3600
    record = house.audit.records[-1]
    assert record.kind.value == "run"
    assert {
        name: record.fields[name] for name in ("verdict", "code", "label_before", "method")
    } == {
        "verdict": "allow",
        "code": "begun",
        "label_before": BOTTOM.words,
        "method": "douane/run/begin",
    }
    assert record.fields["arguments"] == TASK
    sent = await house.handle(use(house, "send", session=None, run=answer["run"]))
    assert sent.code is None
    assert house.last["run"] == record.fields["run"]
    assert house.server.saw[-1].call.message.method == "tools/call"
    assert (await house.handle(use(house, "send"))).code == "denied"


async def test_the_task_that_a_run_was_begun_for_is_in_force_in_it(house):
    handle = await begin(house)
    await house.handle(use(house, "send", run=handle))
    (asked,) = [each for each in house.rule.asked if each["phase"] == "call"]
    assert asked["task"] == {"prompt": "Write to Bob", "tools": ("send",)}
    assert house.last["task"] == "counted"


async def test_nothing_of_it_reaches_a_server(house):
    handle = await begin(house)
    await ask(house, "douane/run/end", {"run": handle})
    assert house.server.saw == []


async def test_only_a_trusted_host_begins_or_ends_runs(house):
    house.gate.people["alice"] = ALICE
    for method, params in (("douane/run/begin", {}), ("douane/run/end", {"run": "x"})):
        seen = await ask(house, method, params)
        error = seen.json["error"]
        assert (seen.code, error["code"]) == ("denied", 40301)
        assert [reason["code"] for reason in error["data"]["reasons"]] == ["not_a_trusted_host"]
        assert house.last["verdict"] == "deny"
    assert house.runs.all() == []


async def test_a_run_that_cannot_be_recorded_is_given_to_nobody(house):
    house.audit.failure = "disk full"
    seen = await ask(house, "douane/run/begin", {})
    assert seen.code == "audit_unavailable"
    assert "result" not in seen.json


async def test_a_run_goes_on_whose_end_cannot_be_recorded(house):
    handle = await begin(house)
    house.audit.failure = "disk full"
    assert (await ask(house, "douane/run/end", {"run": handle})).code == "audit_unavailable"
    house.audit.failure = None
    assert [one.live for one in house.runs.all() if one.run.part_of is not None] == [True]
    assert (await ask(house, "douane/run/end", {"run": handle})).json["result"]["ended"] is True


async def test_a_run_is_begun_only_with_a_token_that_may_call_tools(house):
    house.gate.people["alice"] = replace(HOST, scopes=frozenset({"prompts"}))
    assert (await ask(house, "douane/run/begin", {})).code == "insufficient_scope"
    assert (await ask(house, "douane/run/begin", {}, who=None)).code == "unauthenticated"


@pytest.mark.parametrize(
    "params",
    [
        {"task": "do it"},
        {"task": {"prompt": 1}},
        {"task": {"prompt": "x" * 65_537}},
        {"task": {"tools": "send"}},
        {"task": {"tools": [1]}},
        {"task": {"tools": ["t"] * 1025}},
        {"task": {"goal": "x"}},
    ],
    ids=["text", "prompt", "long", "tools", "tool", "many", "other"],
)
async def test_a_task_that_cannot_be_read_begins_nothing(house, params):
    seen = await ask(house, "douane/run/begin", params)
    assert seen.json["error"]["code"] == -32602
    assert house.runs.all() == []


@pytest.mark.parametrize("task", [None, {}, {"prompt": "p"}, {"tools": []}], ids=str)
async def test_what_a_task_may_leave_out(house, task):
    await ask(house, "douane/run/begin", {} if task is None else {"task": task})
    begun = house.runs.all()[-1].run
    expected = Task(prompt=(task or {}).get("prompt"), tools=tuple(t) if (t := (task or {}).get("tools")) is not None else None)  # fmt: skip
    assert begun.task == (None if task is None else expected)


async def test_a_host_ends_its_run_and_only_its_own(house):
    handle = await begin(house)
    house.gate.people["bob"] = replace(HOST, subject="bob")
    assert (await ask(house, "douane/run/end", {"run": handle}, who="bob")).json["result"][
        "ended"
    ] is False
    assert (await house.handle(use(house, "send", session=None, run=handle))).code is None
    ended = await ask(house, "douane/run/end", {"run": handle})
    assert ended.json["result"]["ended"] is True
    assert (house.audit.records[-1].kind.value, house.last["code"]) == ("run", "ended")
    assert (await house.handle(use(house, "send", session=None, run=handle))).code == "denied"
    again = await ask(house, "douane/run/end", {"run": handle})
    assert (again.json["result"]["ended"], house.last["code"]) == (False, "no_such_run")
    for wrong in ({}, {"run": 1}, {"run": ""}):
        assert (await ask(house, "douane/run/end", wrong)).json["error"]["code"] == -32602


async def test_two_runs_of_a_host_know_nothing_of_each_other(house):
    one, other = [await begin(house) for _ in range(2)]
    await house.handle(use(house, "search", run=one))
    assert (await house.handle(use(house, "send", run=one))).code == "denied"
    assert (await house.handle(use(house, "send", run=other))).code is None


async def test_a_record_says_what_a_call_does_and_why_its_destinations_are_good():
    rule = ToolRule(destination=("to",), result=BOTTOM)
    house = House(tools={"send": rule})
    await ready(house)
    params = {"name": "send", "arguments": {"to": ["eve@evil.example"]}}
    await house.handle(house.request("tools/call", params))
    body = house.audit.entries[-1].body
    written = json.loads(body)
    (place,) = written["destinations"]
    assert place.pop("value_hmac") == written["arguments"]["to"][0]
    assert (written["effect"], place) == (
        "destroy",
        {"path": "$.to[0]", "proof": "none", "integrity": "untrusted"},
    )
    assert b"eve@evil.example" not in body


# Races, against the database.


@pytest.fixture
async def raced(tmp_path: Path) -> AsyncIterator[House]:
    store = await Store.open(tmp_path / "var", clock=lambda: 1_800_000_000.0)
    built = House(
        tools={"search": ToolRule(result=PRIVATE), "send": ToolRule(result=BOTTOM)},
        runs=store.runs,
    )
    await ready(built)
    yield built
    await store.close()


@pytest.mark.parametrize("session", ["s1", None], ids=["grant", "begun"])
async def test_no_call_that_begins_after_a_private_reply_is_decided_on_a_clean_label(
    raced: House, session: str | None
) -> None:
    for round_ in range(10):
        run = None if session else await begin(raced)
        await raced.runs.end((await raced.runs.of(HOST, UNHINTED)).id) if session else None
        released = asyncio.Event()
        late: list[str | None] = []

        async def read(run: str | None = run, released: asyncio.Event = released) -> None:
            await raced.handle(use(raced, "search", session=session, run=run))
            released.set()

        async def send(
            run: str | None = run,
            released: asyncio.Event = released,
            late: list[str | None] = late,
        ) -> None:
            for _ in range(12):
                after = released.is_set()
                seen = await raced.handle(use(raced, "send", session=session, run=run))
                if after:
                    late.append(seen.code)
                await asyncio.sleep(0)

        await asyncio.gather(*(send() for _ in range(4)), *(read() for _ in range(4)), send())
        last = await raced.handle(use(raced, "send", session=session, run=run))
        assert {*late, last.code} == {"denied"}, round_


async def test_what_a_call_brings_whose_run_was_ended_meanwhile_is_seen_by_the_next(raced: House):
    brought: list[str] = []

    def ends_first(permit: Permit) -> RawAnswer:
        brought.append(permit.run.id)
        return result(permit, text("private words"))

    raced.server.answer = ends_first
    raise_label = raced.runs.raise_label

    async def ended_first(run: Any, *what: Any, **more: Any) -> Any:
        await raced.runs.end(run)
        return await raise_label(run, *what, **more)

    raced.runs.raise_label = ended_first
    await raced.handle(use(raced, "search"))
    raced.runs.raise_label = raise_label
    after = await raced.runs.of(HOST, RunHint())
    assert (after.id not in brought, after.label) == (True, PRIVATE)
    assert (await raced.handle(use(raced, "send"))).code == "denied"


async def test_a_program_that_reads_without_its_hosts_run_sends_in_none_that_is_clean(house):
    handle = await begin(house)
    made = replace(script(house, bare=True), expires_at=house.now + 600)
    await house.scripts.begin(made)
    house.gate.people["program"] = replace(ALICE, script=made.id)

    async def calls(tool: str, run: str | None, who: str = "program") -> Seen:
        params = {"name": tool, "arguments": {}}
        seen: Seen = await house.handle(house.request("tools/call", params, who=who, run=run))
        return seen

    assert (await calls("send", handle)).code is None
    assert (await calls("search", None)).code is None
    assert (await calls("send", handle)).code == "denied"
    assert (await calls("send", handle, who="alice")).code == "denied"


META = {
    "douane/task": {"prompt": "Write to Bob", "tools": ["search"]},
    "douane/run": "made-up",
    "progressToken": 7,
}


@pytest.mark.parametrize("trusted", [True, False])
async def test_what_is_meant_for_us_reaches_no_upstream(house, trusted):
    house.gate.people["alice"] = replace(ALICE, trusted_host=trusted)
    await house.handle(house.call(_meta=META))
    (permit,) = house.server.saw
    assert permit.call.message.params["_meta"] == {"progressToken": 7}
    assert b"douane/" not in permit.call.message.body
    assert b"Write to Bob" not in permit.call.message.body


@pytest.mark.parametrize(
    "task",
    [None, 7, "find", [], {"prompt": 7}, {"prompt": "x", "more": 1}, {"tools": "search"}],
    ids=["null", "number", "text", "list", "prompt", "unknown", "tools"],
)
async def test_a_malformed_task_is_none(house, task):
    await house.handle(house.call(_meta={"douane/task": task}))
    (asked,) = (q for q in house.rule.asked if q["phase"] == "call")
    told = asked["task"]
    assert told == {"prompt": None, "tools": None}
