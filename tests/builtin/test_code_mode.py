"""A program instead of fifty calls: each of them on the one path, judged and recorded by itself."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.calls import Permit, RawAnswer
from gateway.domain.decisions import Decision, Verdict
from gateway.domain.labels import BOTTOM, Confidentiality
from gateway.domain.programs import SandboxLimits
from gateway.domain.scripts import Script, digest_of
from gateway.domain.tools import Profile
from gateway.sandbox.monty import monty_engine
from tests.builtin.answering import answer
from tests.builtin.front import Site, methods, speaks
from tests.pipeline.house import ALICE, MAIL, PRIVATE, UNHINTED, Seen, decision, result, text

FAST = SandboxLimits(wall_s=10.0, interpreter_s=2.0)
FORM: dict[str, Any] = {
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}, "url": {}}}
}


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with monty_engine(FAST, tmp_path, warm=0, type_check=False) as engine:
        made = await Site(engine=engine).furnish()
        yield made
        await made.aclose()


async def ran(site: Site, code: str, **more: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = told(await run(site, {"code": code}, **more))
    return found


async def run(site: Site, arguments: Mapping[str, Any], **more: Any) -> Seen:
    meta = more.pop("meta", None)
    params = {"name": "run_code", "arguments": dict(arguments), **({"_meta": meta} if meta else {})}
    return await site.ask("tools/call", params, **more)


def told(seen: Seen) -> Any:
    return json.loads(seen.json["result"]["content"][0]["text"])


def calls(site: Site) -> list[Mapping[str, Any]]:
    """Return the records of how calls inside programs ended."""
    return [
        one.fields
        for one in site.house.audit.records
        if one.kind.value == "outcome" and one.fields["origin"] == "sandbox"
    ]


SEARCH = "import tools\nawait tools.mail.search(q='x')"


@pytest.mark.parametrize("profile", list(Profile))
async def test_a_programs_call_is_an_ordinary_one(site: Site, profile: Profile) -> None:
    site.house.server.answer = speaks()
    found = await ran(site, SEARCH, profile=profile)
    assert (found["status"], found["value"]) == ("ok", "hello")
    assert found["calls"] == [{"seq": 1, "tool": "mail.search", "state": "done"}]
    outer = [one for one in site.house.audit.records if one.fields.get("target") == "run_code"]
    assert [one.kind.value for one in outer] == ["intent", "outcome"]
    (inner,) = calls(site)
    assert inner["server"] == "mail"
    assert inner["target"] == "search"
    assert inner["seq"] == 1
    assert inner["parent"] == outer[0].fields["decision_id"]
    assert inner["script_sha256"] == outer[0].fields["script_sha256"]
    assert inner["run"] == outer[0].fields["run"]
    assert methods(site.house.server).count("tools/call") == 1


async def test_a_call_that_policy_refuses_is_an_error_the_program_can_act_on(site: Site) -> None:
    site.house.rule.says = lambda question: (
        decision(Verdict.DENY, "not_this")
        if question["phase"] == "call" and question["target"]["name"] == "send"
        else Verdict.ALLOW
    )
    code = (
        "import tools\n"
        "try:\n    await tools.mail.send(to='x')\n    said = ''\n"
        "except RuntimeError as e:\n    said = str(e)\n"
        "said"
    )
    found = await ran(site, code)
    assert found["value"].startswith("ToolError[denied] mail.send:")
    assert "not_this" in found["value"]
    assert found["calls"][0]["state"] == "refused"
    assert [one["verdict"] for one in calls(site)] == ["deny"]
    assert site.house.server.saw == []


async def test_an_uncaught_refusal_ends_the_run_and_says_what_was_done(site: Site) -> None:
    site.house.rule.says = lambda question: (
        decision(Verdict.DENY, "not_this")
        if question["phase"] == "call" and question["arguments"].get("to") == "eve"
        else Verdict.ALLOW
    )
    code = "import tools\nawait tools.mail.send(to='bob')\nawait tools.mail.send(to='eve')"
    seen = await run(site, {"code": code})
    assert seen.json["result"]["isError"] is True
    found = told(seen)
    assert (found["status"], found["side_effects"]) == ("error", [1])


async def test_what_a_program_makes_of_what_it_read_comes_into_a_run_that_began_since(
    site: Site,
) -> None:
    house = site.house
    house.server.answer = lambda permit: result(permit, text("the secret plan"))
    before = await house.runs.of(ALICE, UNHINTED)
    append = house.audit.append

    async def ending(record: Any) -> Any:
        if record.kind.value == "outcome" and record.fields["origin"] == "sandbox":
            await house.runs.end(before.id)
        return await append(record)

    house.audit.append = ending  # type: ignore[method-assign]
    assert (await ran(site, SEARCH))["value"] == "the secret plan"
    run = await house.runs.of(ALICE, UNHINTED)
    assert run.id != before.id
    ended = house.runs.find(before.id)
    assert run.label == ended.run.label != BOTTOM
    assert run.roamed  # each answer that the program was given is remembered in the other one
    assert run.sources[-1].label == run.label
    assert house.last["target"] == "run_code"
    assert house.last["label_after"] == run.label.words


async def test_a_program_whose_run_goes_on_is_no_source_of_it(site: Site) -> None:
    site.house.server.answer = lambda permit: result(permit, text("the secret plan"))
    await ran(site, SEARCH)
    run = await site.house.runs.of(ALICE, UNHINTED)
    assert [(one.tool, one.label != BOTTOM) for one in run.sources] == [
        ("search", True),
        ("run_code", False),
    ]
    assert not run.roamed


async def test_what_a_call_saw_is_what_the_run_has_seen(site: Site) -> None:
    site.house.server.answer = lambda permit: result(permit, text("the secret plan"))
    await ran(site, SEARCH)
    (inner,) = calls(site)
    last = site.house.last
    assert last["target"] == "run_code"
    assert last["label_after"] == inner["label_after"]


async def test_a_result_is_labelled_as_its_run_is(site: Site) -> None:
    site.house.rule.says = lambda question: Verdict.ALLOW
    found: list[Mapping[str, Any]] = []

    def says(question: Mapping[str, Any]) -> Verdict:
        if question["phase"] == "result" and question["target"]["name"] == "run_code":
            found.append(question["flow"])
        return Verdict.ALLOW

    site.house.rule.says = says
    await ran(site, SEARCH)
    (inner,) = calls(site)
    assert found[0]["label"] == inner["label_after"]


async def test_what_a_program_returns_proves_nothing(site: Site) -> None:
    """Only what a call answered does: a program can make up any text."""
    await ran(site, "'eve@outside.example'")
    seen: list[Mapping[str, Any]] = []

    def says(question: Mapping[str, Any]) -> Verdict:
        if question["phase"] == "call":
            seen.append(question["flow"])
        return Verdict.ALLOW

    site.house.rule.says = says
    await site.ask("tools/call", {"name": "mail__send", "arguments": {"to": "eve@outside.example"}})
    assert all(one["from"] is None for one in seen[0]["destinations"])
    assert seen[0]["payload"] == []


async def test_arguments_are_judged_as_they_are_sent(site: Site) -> None:
    await ran(site, "import tools\nawait tools.mail.search(q=(1, 2), r={1: 'x'})")
    (permit,) = site.house.server.saw
    assert permit.call.message.params["arguments"] == {"q": [1, 2], "r": {"1": "x"}}
    asked = [one for one in site.house.rule.asked if one["phase"] == "call"]
    assert asked[-1]["arguments"] == {"q": [1, 2], "r": {"1": "x"}}


async def test_what_the_caller_cannot_see_a_program_cannot_call(site: Site) -> None:
    site.house.rule.says = lambda question: (
        decision(Verdict.DENY, "hidden")
        if question["target"]["server"] == "notes"
        else Verdict.ALLOW
    )
    found = await ran(site, "import tools\nawait tools.notes.read()")
    assert (found["status"], found["calls"]) == ("error", [])


async def test_a_definition_that_changed_since_the_stubs_is_not_called(site: Site) -> None:
    changed = {"name": "search", "description": "Another.", "inputSchema": {"type": "object"}}

    async def show_another() -> None:
        site.house.catalogs.first = None
        await site.show(MAIL, changed)

    site.house.catalogs.first = show_another
    found = await ran(site, SEARCH)
    assert (found["status"], site.house.server.saw) == ("error", [])


async def test_who_may_not_run_programs_is_not_shown_how(site: Site) -> None:
    site.house.rule.says = lambda question: (
        decision(Verdict.DENY, "no_code") if question["target"]["server"] == "" else Verdict.ALLOW
    )
    assert "run_code" not in await site.names()
    seen = await run(site, {"code": "1"})
    assert seen.reply.code == "unknown_tool"
    site.house.rule.says, site.house.rule.digest = (lambda question: Verdict.ALLOW), "sha256:new"
    assert "run_code" in await site.names()


async def test_a_program_that_policy_refuses_is_not_run(site: Site) -> None:
    site.house.rule.says = lambda question: (
        decision(Verdict.DENY, "not_now") if question["phase"] == "call" else Verdict.ALLOW
    )
    seen = await run(site, {"code": SEARCH})
    assert (seen.reply.code, calls(site)) == ("denied", [])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "Give either code or resume"),
        ({"code": "1", "resume": "s_1"}, "Give either code or resume"),
        ({"resume": "s_1"}, "No run 's_1' of yours waits"),
        ({"resume": "s_1", "grants": []}, "A run that goes on keeps its grants"),
        ({"code": "1", "grants": [{"tool": "mail__none", "max_calls": 1}]}, "There is no tool"),
    ],
    ids=["nothing", "both", "unknown", "resume-with-grants", "unknown-grant"],
)
async def test_what_is_asked_for_wrongly_is_told(
    site: Site, arguments: dict[str, Any], says: str
) -> None:
    found = (await run(site, arguments)).json["result"]
    assert found["isError"] is True
    assert found["content"][0]["text"].startswith(says)


async def test_arguments_that_do_not_fit_the_schema_run_nothing(site: Site) -> None:
    seen = await run(site, {"code": "1", "tools": "all"})
    assert seen.reply.code == "denied"


async def test_a_program_with_grants_calls_nothing_else(site: Site) -> None:
    grants = [{"tool": "mail__search", "max_calls": 2, "arguments": {"q": "x"}}]
    code = (
        "import tools\nout = []\n"
        "for q in ['x', 'y', 'x', 'x']:\n"
        "    try:\n        out.append(await tools.mail.search(q=q))\n"
        "    except RuntimeError as e:\n        out.append(str(e)[:25])\n"
        "out"
    )
    found = told(await run(site, {"code": code, "grants": grants}))
    assert found["value"] == [
        "hello",
        "ToolError[denied] mail.se",
        "hello",
        "ToolError[limit_exceeded]",
    ]


def asks(question: Mapping[str, Any]) -> Verdict | Decision:
    sends = question["phase"] == "call" and question["target"]["name"] == "send"
    if not sends or isinstance(question["approval"], dict):
        return Verdict.ALLOW
    return decision(Verdict.ASK, "outside")


SENDS = (
    "import tools\na = await tools.mail.search(q='x')\nb = await tools.mail.send(to='bob')\n[a, b]"
)


@pytest.fixture
def asking(site: Site) -> Site:
    site.house.gate.people["alice"] = replace(ALICE, user_id="u_alice")
    site.house.rule.says = asks
    return site


async def test_a_call_that_waits_for_a_person_parks_the_run(asking: Site) -> None:
    found = await ran(asking, SENDS)
    assert found["status"] == "awaiting_approval"
    assert [one["state"] for one in found["calls"]] == ["done", "awaiting_approval"]
    assert len(found["waits_for"]) == 1
    await answer(asking, allow=True)
    again = told(await run(asking, {"resume": found["run"]}))
    assert (again["status"], again["value"]) == ("ok", ["hello", "hello"])
    # What was done before it waited was not done again.
    sent = [one.call.message.params["name"] for one in asking.house.server.saw]
    assert sent == ["search", "send"]


async def test_a_no_is_an_error_in_the_program_that_goes_on(asking: Site) -> None:
    found = await ran(asking, SENDS)
    await answer(asking, allow=False)
    again = told(await run(asking, {"resume": found["run"]}))
    assert again["status"] == "error"
    assert "ToolError[denied] mail.send" in again["error"]


async def test_a_run_that_goes_on_too_early_waits_on(asking: Site) -> None:
    found = await ran(asking, SENDS)
    again = told(await run(asking, {"resume": found["run"]}))
    assert (again["status"], again["waits_for"]) == ("awaiting_approval", found["waits_for"])
    await answer(asking, allow=True)
    assert told(await run(asking, {"resume": found["run"]}))["status"] == "ok"


async def test_a_parked_run_is_its_principals_alone(asking: Site) -> None:
    asking.house.gate.people["mallory"] = replace(ALICE, subject="mallory")
    found = await ran(asking, SENDS)
    await answer(asking, allow=True)
    seen = await run(asking, {"resume": found["run"]}, who="mallory")
    assert "of yours waits" in seen.json["result"]["content"][0]["text"]
    assert told(await run(asking, {"resume": found["run"]}))["status"] == "ok"


async def test_of_two_who_resume_at_once_one_goes_on(asking: Site) -> None:
    found = await ran(asking, SENDS)
    await answer(asking, allow=True)
    both = await asyncio.gather(*(run(asking, {"resume": found["run"]}) for _ in range(2)))
    failed = [seen.json["result"].get("isError", False) for seen in both]
    assert sorted(failed) == [False, True]
    assert [one.call.message.params["name"] for one in asking.house.server.saw].count("send") == 1


async def test_what_waits_for_a_person_is_no_form_inside_a_program(asking: Site) -> None:
    """A client that could be asked in the middle of a call is not, by a program's call."""
    asking.house.rule.themselves = lambda question: True
    found = await ran(asking, SENDS, meta=FORM)
    assert found["status"] == "awaiting_approval"


async def test_a_grant_that_is_to_hold_beforehand_is_asked_about_once(asking: Site) -> None:
    def says(question: Mapping[str, Any]) -> Verdict | Decision:
        runs = question["phase"] == "call" and question["target"]["name"] == "run_code"
        if runs and question["approval"] is None:
            return decision(Verdict.ASK, "grants_in_advance")
        return asks(question)

    asking.house.rule.says = says
    grants = [
        {"tool": "mail__send", "max_calls": 1, "arguments": {"to": "bob"}, "preapproved": True},
        {"tool": "mail__search", "max_calls": 5},
    ]
    asked = {"code": SENDS, "grants": grants}
    assert (await run(asking, asked)).reply.code == "approval_required"
    await answer(asking, allow=True)
    found = told(await run(asking, asked))
    assert (found["status"], found["value"]) == ("ok", ["hello", "hello"])
    (sent,) = [one for one in calls(asking) if one["target"] == "send"]
    assert sent["approval_id"]


async def test_a_grant_that_was_not_asked_to_hold_beforehand_does_not(asking: Site) -> None:
    grants = [
        {"tool": "mail__send", "max_calls": 1, "arguments": {"to": "bob"}, "preapproved": True},
        {"tool": "mail__search", "max_calls": 5},
    ]
    found = told(await run(asking, {"code": SENDS, "grants": grants}))
    assert found["status"] == "awaiting_approval"


async def test_secrets_are_taken_out_of_what_comes_back(site: Site) -> None:
    found = await ran(site, "print('the-gateways-own-secret')\n['the-gateways-own-secret']")
    assert found["value"] == ["[redacted]"]
    assert "the-gateways-own-secret" not in found["console"]


async def test_a_tool_that_fails_is_an_exception_with_its_text(site: Site) -> None:
    site.house.server.answer = lambda permit: result(
        permit, {**text("no such mailbox"), "isError": True}
    )
    found = await ran(site, SEARCH)
    assert "ToolError[failed] mail.search: no such mailbox" in found["error"]
    assert found["calls"] == [
        {"seq": 1, "tool": "mail.search", "state": "failed", "code": "failed"}
    ]


async def test_structured_content_is_what_a_program_gets(site: Site) -> None:
    site.house.server.answer = lambda permit: result(
        permit, {**text("two"), "structuredContent": {"n": 2}}
    )
    assert (await ran(site, "import tools\n(await tools.mail.search())['n']"))["value"] == 2


async def test_a_picture_is_a_program_only_told_of(site: Site) -> None:
    picture = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    site.house.server.answer = lambda permit: result(permit, {"content": [picture]})
    (found,) = (await ran(site, SEARCH))["value"]
    assert (found["type"], "data" in found) == ("image", False)


def fails(permit: Permit) -> RawAnswer:
    return RawAnswer(status=502, headers=(), session=None, body=b"")


async def test_a_call_whose_outcome_nobody_knows_says_so(site: Site) -> None:
    site.house.server.answer = fails
    found = await ran(site, "import tools\nawait tools.mail.send(to='bob')")
    assert found["calls"][0]["state"] == "outcome_unknown"
    assert found["side_effects"] == [1]


async def test_what_one_program_may_know_of_is_not_told_by_another(site: Site) -> None:
    site.house.server.answer = speaks()
    other = SEARCH + "\n"
    hidden = digest_of(other)
    site.house.rule.says = lambda question: (
        decision(Verdict.DENY, "not_this_program")
        if question["phase"] == "list" and question["origin"]["script_sha256"] == hidden
        else Verdict.ALLOW
    )
    for code, state in ((other, "refused"), (SEARCH, "done"), (other, "refused")):
        found = await ran(site, code)
        assert [one["state"] for one in found["calls"]] == [state]


async def test_what_a_program_prints_is_in_no_record(site: Site) -> None:
    await ran(site, "print('a very private line')\n1")
    written = b"".join(entry.body for entry in site.house.audit.entries)
    assert b"a very private line" not in written


async def test_programs_of_one_principal_are_bounded(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = "import asyncio\nawait asyncio.sleep(0.5)\n1"
    begun: list[Script] = []
    begin = site.house.scripts.begin

    async def noted(script: Script) -> None:
        begun.append(script)
        await begin(script)

    monkeypatch.setattr(site.house.scripts, "begin", noted)
    seen = await asyncio.gather(*(run(site, {"code": slow}) for _ in range(6)))
    assert sorted(one.reply.code or "" for one in seen) == ["", "", "", "", *["rate_limited"] * 2]
    # Whoever runs as many as they may files no more, either.
    assert len(begun) == 4


async def test_of_a_program_whose_caller_goes_away_while_it_is_filed_nothing_is_kept(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is filed all the same, and would count as one of its person's for as long as it may wait."""
    begin, filed = site.house.scripts.begin, asyncio.Event()

    async def slow(script: Script) -> None:
        await begin(script)
        filed.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(site.house.scripts, "begin", slow)
    calling = asyncio.create_task(run(site, {"code": "1"}))
    await asyncio.wait_for(filed.wait(), 60)
    calling.cancel()
    await asyncio.wait([calling])
    assert site.house.scripts.live(now=site.house.now) == []


async def test_a_program_is_its_persons_whatever_client_runs_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    persons: list[str] = []
    begin = site.house.scripts.begin

    async def noted(script: Script) -> None:
        persons.append(script.whose)
        await begin(script)

    monkeypatch.setattr(site.house.scripts, "begin", noted)
    alice = site.house.gate.people["alice"]
    site.house.gate.people["other"] = replace(alice, client_id="other")
    for who in ("alice", "other"):
        assert told(await run(site, {"code": "1"}, who=who))["status"] == "ok"
    assert persons == [alice.person] * 2


async def test_what_grants_say_of_arguments_is_bounded(site: Site) -> None:
    def grants(letters: int) -> list[Mapping[str, Any]]:
        said = {"q": "x" * letters}
        return [{"tool": "mail__search", "max_calls": 1, "arguments": said}] * 2

    assert told(await run(site, {"code": "1", "grants": grants(32_000)}))["status"] == "ok"
    refused = await run(site, {"code": "1", "grants": grants(33_000)})
    assert "too much of arguments" in refused.json["result"]["content"][0]["text"]


async def test_more_clients_of_a_person_run_no_more_programs(site: Site) -> None:
    slow = "import asyncio\nawait asyncio.sleep(0.5)\n1"
    names = [f"client {number}" for number in range(6)]
    for name in names:
        site.house.gate.people[name] = replace(site.house.gate.people["alice"], client_id=name)
    seen = await asyncio.gather(*(run(site, {"code": slow}, who=name) for name in names))
    assert sorted(one.reply.code or "" for one in seen) == ["", "", "", "", *["rate_limited"] * 2]


async def test_a_program_in_a_session_has_its_sessions_run(site: Site) -> None:
    site.house.server.answer = speaks()
    session = {"profile": Profile.LEGACY, "session": "e.1"}
    await ran(site, SEARCH, **session)
    (inner,) = calls(site)
    assert inner["label_before"]["confidentiality"] != Confidentiality.PRIVATE.word
    assert inner["label_before"] != PRIVATE.words


async def test_calls_alike_that_follow_each_other_are_told_as_one(site: Site) -> None:
    site.house.server.answer = speaks()
    search = "await tools.mail.search(q='x')\n"
    found = await ran(site, f"import tools\n{search * 3}await tools.mail.send(to='bob')\n{search}")
    assert found["calls"] == [
        {"seq": 1, "times": 3, "tool": "mail.search", "state": "done"},
        {"seq": 4, "tool": "mail.send", "state": "done"},
        {"seq": 5, "tool": "mail.search", "state": "done"},
    ]
