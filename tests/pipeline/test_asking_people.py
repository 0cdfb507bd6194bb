"""Policy says `ask`: a question is filed, a person answers, and the call goes out once."""

import asyncio
import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway import turns
from gateway.domain.approvals import Approval, ApprovalState, Span
from gateway.domain.audit import AuditRecord, LogEntry
from gateway.domain.calls import Call, Form
from gateway.domain.decisions import Decision, Duty, Obligation, Verdict
from gateway.domain.flow import Run, RunHint
from gateway.domain.identity import Principal
from gateway.domain.labels import STRICTEST_DEFAULT, Confidentiality, Integrity, Label, ToolRule
from gateway.domain.scripts import Script, ScriptId
from gateway.domain.tools import Kind, Profile
from gateway.errors import PolicyUnavailable
from gateway.pins.visible import visible
from gateway.pipeline import approvals, asking
from gateway.pipeline.asking import bound_by, question_of
from gateway.turns import Turns
from gateway.wire.elicitation import approval_state
from gateway.wire.session import seal
from tests.pipeline.house import (
    ALICE,
    KEY,
    MAIL,
    Events,
    House,
    Seen,
    decision,
    event,
    text,
    whole,
)

EMMA = replace(ALICE, subject="emma", user_id="u_emma")
BOB = replace(ALICE, subject="bob", user_id="u_bob")
SECRET = Label(integrity=Integrity.UNTRUSTED, confidentiality=Confidentiality.SECRET)
TO_EVE = {"to": ["eve@outside.example"], "body": "hello"}
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
URL: dict[str, Any] = {"elicitation": {"url": {}}}
FORM: dict[str, Any] = {"elicitation": {"form": {}}}


def asks(question: Mapping[str, Any]) -> Verdict | Decision:
    if question["phase"] != "call" or isinstance(question["approval"], dict):
        return Verdict.ALLOW
    return decision(Verdict.ASK, "outside")


@pytest.fixture
async def house() -> House:
    house = House(tools={"send": ToolRule(destination=("to",), payload=("body",))})
    house.gate.people |= {"emma": EMMA, "bob": BOB}
    house.rule.says = asks
    for profile in Profile:
        await house.approve_all(profile)
    return house


def send(
    house: House,
    arguments: Mapping[str, Any] | None = None,
    *,
    who: str = "emma",
    declares: Mapping[str, Any] | None = None,
    **more: Any,
) -> Call:
    if declares is not None:
        more["_meta"] = {CAPABILITIES: declares}
    return house.call("send", TO_EVE if arguments is None else arguments, who=who, **more)


def legacy(house: House, *, takes_urls: bool) -> Call:
    sealed = seal(KEY, MAIL, EMMA.key, "s1", takes_urls=takes_urls)
    return replace(send(house, profile=Profile.LEGACY), session=sealed)


def refusal(seen: Seen) -> Any:
    found = seen.json
    if "error" in found:
        return found["error"]["data"]
    return found["result"]["_meta"]["douane/refusal"]


def kept(house: House) -> list[Approval]:
    """Everything on file, in the order in which it came."""
    return sorted(house.approvals.all(now=house.now), key=lambda one: int(one.request.id[2:]))


async def asked(house: House, **how: Any) -> Approval:
    """Make the call that is asked about; return what was filed."""
    seen = await house.handle(send(house, **how))
    assert seen.code == "approval_required"
    return kept(house)[-1]


async def answer(
    house: House, found: Approval, *, allow: bool = True, span: Span = Span.ONCE
) -> None:
    await house.approvals.answer(
        found.request.id,
        allow=allow,
        span=span,
        by="user:ada",
        by_user_id="u_ada",
        note="fine",
        now=house.now,
    )


async def test_a_call_that_policy_asks_about_is_filed_and_not_sent(house: House) -> None:
    seen = await house.handle(send(house))
    (found,) = kept(house)
    request = found.request
    assert house.server.saw == []
    assert refusal(seen) == {
        "code": "approval_required",
        "decision_id": request.decision_id,
        "reasons": [{"code": "outside", "message": "outside"}],
        "approval_id": request.id,
        "approval_url": f"https://gateway.example/approve/{request.id}",
    }
    assert f"https://gateway.example/approve/{request.id} or `douane" in seen.bytes.decode()
    assert f"douane approvals allow {request.id}" in seen.json["result"]["content"][0]["text"]
    assert seen.json["result"]["isError"] is True
    assert found.state is ApprovalState.WAITING
    assert (request.principal, request.user_id, request.subject) == (EMMA.key, "u_emma", "emma")
    assert (request.client_id, request.client_name) == ("agent", "Agent")
    assert (str(request.target), request.arguments) == ("mail/tool/send", TO_EVE)
    assert [reason.code for reason in request.reasons] == ["outside"]
    assert (request.asked_at, request.expires_at) == (house.now, house.now + 3600)
    assert request.self_approval is False


async def test_a_question_names_the_issuer_of_whose_call_it_is(house: House) -> None:
    whose = "https://provider.example|emma"
    issuer, _, _ = whose.partition("|")
    house.gate.people["far"] = replace(EMMA, issuer=issuer, user_id="u_far", named=whose)
    assert (await asked(house, who="far")).request.subject == whose


async def test_a_question_is_on_the_record_beside_the_refusal(house: House) -> None:
    found = await asked(house)
    records = [r for r in house.audit.records if r.kind in {"approval", "outcome"}]
    assert [(r.kind, r.fields["code"], r.fields["approval_id"]) for r in records] == [
        ("approval", "asked", found.request.id),
        ("outcome", "approval_required", found.request.id),
    ]
    assert {r.fields["verdict"] for r in records} == {"ask"}
    await asked(house)
    assert house.kinds() == ["approval", "outcome", "outcome"]


async def test_the_same_call_again_counts_and_asks_nothing_new(house: House) -> None:
    first = await asked(house)
    again = await asked(house, _meta={"progressToken": 7})
    assert (again.request.id, again.request.asked) == (first.request.id, 2)


async def test_a_yes_lets_the_very_same_call_out_once(house: House) -> None:
    found = await asked(house)
    await answer(house, found)
    seen = await house.handle(send(house))
    assert seen.json["result"] == text("hello")
    (permit,) = house.server.saw
    assert permit.call.message.params["arguments"] == TO_EVE
    assert permit.access is not None
    assert permit.access.asked["approval"] == {
        "id": found.request.id,
        "by": "user:ada",
        "span": "once",
        "note": "fine",
    }
    again = await house.handle(send(house))
    assert again.code == "approval_required"
    assert refusal(again)["approval_id"] != found.request.id
    assert len(house.server.saw) == 1


async def test_the_records_of_a_call_name_the_yes_it_went_out_by(house: House) -> None:
    found = await asked(house)
    await answer(house, found)
    await house.handle(send(house))
    intent, outcome = house.audit.records[-2:]
    assert (intent.kind, outcome.kind) == ("intent", "outcome")
    assert {r.fields["approval_id"] for r in (intent, outcome)} == {found.request.id}
    assert {r.fields["verdict"] for r in (intent, outcome)} == {"allow"}


async def test_the_result_is_judged_knowing_of_the_yes(house: House) -> None:
    found = await asked(house)
    await answer(house, found)
    await house.handle(send(house))
    (last,) = [q for q in house.rule.asked if q["phase"] == "result"]
    assert last["approval"]["id"] == found.request.id


async def test_of_many_calls_at_once_one_goes_out_by_a_yes(house: House) -> None:
    await answer(house, await asked(house))
    seen = await asyncio.gather(*(house.handle(send(house)) for _ in range(20)))
    assert len(house.server.saw) == 1
    assert sorted(str(one.code) for one in seen) == ["None", *["approval_required"] * 19]


async def read_before(house: House) -> None:
    """Have Emma's run read what outsiders write: a yes is bound to the label it was given under."""
    run = await house.runs.of(EMMA, RunHint())
    await house.runs.raise_label(run.id, STRICTEST_DEFAULT, None)


async def test_a_yes_for_the_run_lets_out_what_goes_to_the_same_place(house: House) -> None:
    await read_before(house)
    await answer(house, await asked(house), span=Span.RUN)
    other = {**TO_EVE, "body": "another text"}
    for arguments in (TO_EVE, other, other):
        assert (await house.handle(send(house, arguments))).code is None
    elsewhere = {**TO_EVE, "to": ["mallory@outside.example"]}
    assert (await house.handle(send(house, elsewhere))).code == "approval_required"


async def _another_argument(house: House) -> Call:
    return send(house, {**TO_EVE, "body": "hello!"})


async def _another_person(house: House) -> Call:
    of = house.runs.of

    async def the_same_run(_: Principal, hint: RunHint) -> Run:
        run: Run = await of(EMMA, hint)
        return run

    house.runs.of = the_same_run
    return send(house, who="bob")


async def _another_label(house: House) -> Call:
    run = (await asked_run(house)).run
    await house.runs.raise_label(run, SECRET, None)
    return send(house)


async def _another_reason(house: House) -> Call:
    house.rule.says = lambda question: (
        decision(Verdict.ASK, "outside", "too_late")
        if question["phase"] == "call" and question["approval"] is None
        else Verdict.ALLOW
    )
    return send(house)


async def _another_definition(house: House) -> Call:
    changed = {"name": "send", "description": "Send.", "inputSchema": {"type": "object"}}
    await house.show(changed)
    await house.approve(Kind.TOOL, "send")
    return send(house)


async def _another_answer_for_the_upstream(house: House) -> Call:
    return send(house, inputResponses={"theirs": {"action": "accept", "content": {"x": 1}}})


async def asked_run(house: House) -> Any:
    return kept(house)[0].request


@pytest.mark.parametrize(
    "changed",
    [
        _another_argument,
        _another_person,
        _another_label,
        _another_reason,
        _another_definition,
        _another_answer_for_the_upstream,
    ],
)
async def test_whatever_changes_is_asked_anew(house: House, changed: Any) -> None:
    found = await asked(house)
    await answer(house, found)
    call = await changed(house)
    seen = await house.handle(call)
    assert (seen.code, house.server.saw) == ("approval_required", [])
    assert refusal(seen)["approval_id"] != found.request.id


async def _after_it_ran_out(house: House) -> Call:
    house.now += 3601
    return send(house)


async def _after_it_went_out(house: House) -> Call:
    assert (await house.handle(send(house))).code is None
    return send(house)


async def _in_another_run(house: House) -> Call:
    await house.runs.end((await asked_run(house)).run)
    return send(house)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (_another_label, "the run was trusted and public and is untrusted and secret"),
        (_another_reason, "policy asks for other reasons"),
        (_another_definition, "the definition has changed since"),
        (_in_another_run, "its run has ended"),
        (_after_it_ran_out, "it has run out"),
        (_after_it_went_out, "it was for one call, and that has gone out"),
    ],
)
async def test_the_second_question_says_why_the_first_yes_does_not_count(
    house: House, changed: Any, why: str
) -> None:
    house.rule.themselves = lambda question: True
    found = await asked(house)
    await answer(house, found)
    seen = await house.handle(await changed(house))
    request = kept(house)[-1].request
    assert request.follows == found.request.id
    assert request.follows_because == f"an earlier yes no longer counts: {why}"
    told = {"code": "earlier_answer_void", "message": request.follows_because}
    assert told in refusal(seen)["reasons"]
    assert f"Note: {request.follows_because}." in question_of(request)


async def test_of_an_earlier_no_it_says_that_it_was_one(house: House) -> None:
    await answer(house, await asked(house), allow=False)
    request = (await asked(await _later(house))).request
    assert request.follows_because == "an earlier no no longer counts: it has run out"


async def _later(house: House) -> House:
    house.now += 3601
    return house


async def test_another_call_follows_nothing(house: House) -> None:
    await answer(house, await asked(house))
    await house.handle(await _another_argument(house))
    await house.handle(await _another_person(house))
    assert [one.request.follows for one in kept(house)] == ["", "", ""]


async def test_the_page_of_a_question_is_on_its_record(house: House) -> None:
    found = await asked(house)
    (record,) = (r for r in house.audit.records if r.kind == "approval")
    page = f"https://gateway.example/approve/{found.request.id}"
    assert {"code": "page", "message": page} in record.fields["reasons"]


async def test_arguments_that_read_like_a_whole_call_are_not_that_call(house: House) -> None:
    answers = {"theirs": {"action": "accept"}}
    posing = {"arguments": TO_EVE, "inputResponses": answers}
    found = await asked(house, arguments=posing)
    await answer(house, found)
    seen = await house.handle(send(house, inputResponses=answers))
    assert (seen.code, house.server.saw) == ("approval_required", [])
    shown = [one.request.arguments for one in kept(house)]
    assert shown == [posing, posing]


async def test_a_yes_to_one_method_is_none_to_another(house: House) -> None:
    def about(method: str) -> Call:
        uri = {"uri": "mail://inbox"}
        return house.request(method, uri, who="emma", profile=Profile.LEGACY)

    await house.handle(about("resources/subscribe"))
    await answer(house, kept(house)[0])
    assert (await house.handle(about("resources/read"))).code == "approval_required"
    assert house.server.saw == []


BESIDE: list[tuple[str, dict[str, Any]]] = [
    ("resources/read", {"uri": "mail://inbox"}),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "to", "value": "k"}},
    ),
]


@pytest.mark.parametrize(("method", "params"), BESIDE)
async def test_what_is_called_name_and_names_nothing_is_shown_and_bound(
    house: House, method: str, params: dict[str, Any]
) -> None:
    await house.show({"name": "greet", "arguments": [{"name": "to"}]}, kind=Kind.PROMPT)
    await house.approve(Kind.PROMPT, "greet")
    await house.handle(house.request(method, {**params, "name": "A"}, who="emma"))
    await answer(house, kept(house)[0])
    assert kept(house)[0].request.arguments == {**params, "name": "A"}
    other = house.request(method, {**params, "name": "another"}, who="emma")
    assert (await house.handle(other)).code == "approval_required"
    assert house.server.saw == []


async def asked_in_a_session(house: House, id_: str, message: str) -> None:
    """Have the server ask its client something."""
    params = {"message": message, "requestedSchema": {"type": "object", "properties": {}}}
    asks = {"jsonrpc": "2.0", "id": id_, "method": "elicitation/create", "params": params}
    house.server.answer = lambda permit: Events([event(asks)]).answer()
    in_session: dict[str, Any] = {"profile": Profile.LEGACY, "session": "s1", "who": "emma"}
    await house.handle(house.request("GET", {}, form=Form.STREAM, id_=None, **in_session))
    house.server.answer = lambda permit: whole(b"", status=202)
    house.server.saw.clear()


def accepted(house: House, id_: str, **more: Any) -> Call:
    said = {"action": "accept", "content": {}, **more}
    in_session: dict[str, Any] = {"profile": Profile.LEGACY, "session": "s1", "who": "emma"}
    call = house.request("", said, form=Form.RESPONSE, id_=id_, **in_session)
    body = json.dumps({"jsonrpc": "2.0", "id": id_, "result": said}).encode()
    return replace(call, message=replace(call.message, body=body))


async def test_a_yes_to_an_answer_is_to_that_answer_of_that_very_question(house: House) -> None:
    house.rule.says = lambda question: (
        asks(question) if question["method"] != "elicitation/create" else Verdict.ALLOW
    )
    await asked_in_a_session(house, "q1", "May I list your files?")
    house.rule.says = asks
    await house.handle(accepted(house, "q1"))
    (found,) = kept(house)
    shown = question_of(found.request)
    assert "May I list your files?" in shown
    assert found.request.arguments == {"action": "accept", "content": {}}
    await answer(house, found, span=Span.RUN)
    house.rule.says = lambda _: Verdict.ALLOW
    await asked_in_a_session(house, "q2", "May I delete your files?")
    house.rule.says = asks
    for late in (accepted(house, "q2"), accepted(house, "q1", name="a")):
        await house.handle(late)
        assert house.server.saw == []
    assert ["May I delete" in question_of(one.request) for one in kept(house)] == [
        False,
        True,
        False,
    ]
    await house.handle(accepted(house, "q1"))
    assert len(house.server.saw) == 1


async def test_of_a_long_question_its_beginning_is_shown(house: House) -> None:
    house.rule.says = lambda _: Verdict.ALLOW
    await asked_in_a_session(house, "q1", "x" * 5000)
    house.rule.says = asks
    await house.handle(accepted(house, "q1"))
    (sentence,) = [one for one in kept(house)[0].request.evidence if "answers" in one]
    assert "more characters" in sentence
    assert len(sentence) < 1200


async def test_a_yes_for_the_run_is_none_for_another_link(house: House) -> None:
    linked = {**TO_EVE, "body": "see https://ours.example/minutes"}
    await answer(house, await asked(house, arguments=linked), span=Span.RUN)
    # Before anything is answered: what is read makes it another question anyway.
    for body in ("see https://evil.example/minutes", "see nothing"):
        other = await house.handle(send(house, {**TO_EVE, "body": body}))
        assert other.code == "approval_required"
    same = {**linked, "body": "again: https://ours.example/minutes"}
    assert (await house.handle(send(house, same))).code is None


async def test_a_yes_for_the_run_is_for_one_call_where_nobody_knows_where_it_goes(
    house: House,
) -> None:
    await read_before(house)
    very_many = {"to": [f"{n}@outside.example" for n in range(300)]}
    for tool, arguments, other in (
        ("search", {"q": "a"}, {"q": "b"}),
        ("send", very_many, {"to": [*very_many["to"], "eve@outside.example"]}),
    ):
        await house.handle(house.call(tool, arguments, who="emma"))
        await answer(house, kept(house)[-1], span=Span.RUN)
        for _ in range(2):
            assert (await house.handle(house.call(tool, arguments, who="emma"))).code is None
        refused = await house.handle(house.call(tool, other, who="emma"))
        assert refused.code == "approval_required"


async def test_what_a_question_is_found_by_tells_nobody_that_a_guess_was_right(
    house: House,
) -> None:
    await answer(house, await asked(house))
    await house.handle(send(house))
    (permit,) = house.server.saw
    assert permit.access is not None
    asking = decision(Verdict.ASK, "outside")
    ours, others = (bound_by(permit.access, asking, key) for key in (KEY, b"x" * 32))
    assert str(ours.fingerprint) == str(kept(house)[0].request.fingerprint)
    assert not {ours.fingerprint, ours.scope} & {others.fingerprint, others.scope}


async def test_another_tool_is_asked_anew_also_for_a_run(house: House) -> None:
    await answer(house, await asked(house), span=Span.RUN)
    assert (await house.handle(house.call("search", TO_EVE, who="emma"))).code == (
        "approval_required"
    )


async def test_a_no_is_a_denial_until_it_runs_out(house: House) -> None:
    found = await asked(house)
    await answer(house, found, allow=False)
    for _ in range(3):
        seen = await house.handle(send(house))
        assert refusal(seen)["code"] == "denied"
        assert [reason["code"] for reason in refusal(seen)["reasons"]] == [
            "person_said_no",
            "outside",
        ]
    assert house.last["approval_id"] == found.request.id
    assert len(kept(house)) == 1
    house.now += 3600
    assert (await house.handle(send(house))).code == "approval_required"
    assert house.server.saw == []


async def test_a_no_for_the_run_answers_what_differs_a_little(house: House) -> None:
    await answer(house, await asked(house), allow=False, span=Span.RUN)
    for n in range(50):
        seen = await house.handle(send(house, {**TO_EVE, "body": f"hello {n}"}))
        assert refusal(seen)["reasons"][0]["code"] == "person_said_no"
    assert len(kept(house)) == 1
    elsewhere = await house.handle(send(house, {**TO_EVE, "to": ["bob@ours.example"]}))
    assert elsewhere.code == "approval_required"


async def test_a_yes_that_has_run_out_is_none(house: House) -> None:
    await answer(house, await asked(house))
    house.now += 3600
    assert (await house.handle(send(house))).code == "approval_required"


async def test_policy_may_refuse_in_spite_of_a_yes(house: House) -> None:
    found = await asked(house)
    await answer(house, found)
    house.rule.says = lambda question: (
        asks(question) if not question["approval"] else decision(Verdict.DENY, "never")
    )
    seen = await house.handle(send(house))
    assert (seen.code, house.server.saw) == ("denied", [])
    assert kept(house)[0].state is ApprovalState.ALLOWED


async def test_policy_may_ask_for_more_than_a_yes(house: House) -> None:
    await answer(house, await asked(house))
    house.rule.says = lambda question: (
        decision(Verdict.ASK, "outside") if question["phase"] == "call" else Verdict.ALLOW
    )
    seen = await house.handle(send(house))
    assert (seen.code, house.server.saw, len(kept(house))) == ("approval_required", [], 1)
    assert "more than that" in seen.json["result"]["content"][0]["text"]


async def test_policy_that_cannot_be_asked_again_lets_nothing_out(house: House) -> None:
    await answer(house, await asked(house))

    def fails(question: Mapping[str, Any]) -> Verdict | Decision:
        if question["approval"]:
            raise PolicyUnavailable("policy could not be evaluated")
        return asks(question)

    house.rule.says = fails
    assert (await house.handle(send(house))).code == "policy_unavailable"
    assert (house.server.saw, kept(house)[0].state) == ([], ApprovalState.ALLOWED)


async def test_a_yes_is_used_up_before_the_intent_is_recorded(house: House) -> None:
    await answer(house, await asked(house))
    house.audit.failure = "disk full"
    await house.handle(send(house))
    house.audit.failure = ""
    assert (house.server.saw, kept(house)[0].state) == ([], ApprovalState.USED)


async def test_a_call_that_a_limit_refuses_has_not_used_its_yes(house: House) -> None:
    await answer(house, await asked(house))
    slow = Obligation(duty=Duty.RATE_LIMIT, detail={"calls_per_minute": 1})
    house.rule.says = lambda question: (
        decision(Verdict.ALLOW, obligations=[slow]) if question["approval"] else asks(question)
    )
    await house.limits.take(f"{EMMA.key}|mail/tool/send", 1)
    assert (await house.handle(send(house))).code == "rate_limited"
    assert kept(house)[0].state is ApprovalState.ALLOWED


async def test_a_call_that_has_no_turn_has_not_used_its_yes(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large call waits for its turn beside the loop, and too many of one principal's are refused."""
    large = {**TO_EVE, "body": "hello " * 4_000}
    await answer(house, await asked(house, arguments=large))

    def says(question: Any) -> Any:
        if isinstance(question.get("approval"), dict):
            monkeypatch.setattr(turns, "_TURNS", Turns(most_waiting=0))
        return asks(question)

    house.rule.says = says
    assert (await house.handle(send(house, large))).code == "rate_limited"
    assert kept(house)[0].state is ApprovalState.ALLOWED
    assert house.server.saw == []


STEP_UP = Obligation(duty=Duty.REQUIRE_STEP_UP, detail={"scopes": ["money"]})


@pytest.mark.parametrize("after", ["allow", "deny"])
async def test_a_scope_is_asked_for_once_a_person_has_said_yes_which_then_counts_once(
    house: House, after: str
) -> None:
    def says(question: Any) -> Any:
        if question["phase"] != "call":
            return Verdict.ALLOW
        if question["approval"] is None:
            return decision(Verdict.ASK, "outside", obligations=[STEP_UP])
        if "money" in question["principal"]["scopes"]:
            return Verdict.ALLOW
        if after == "allow":
            return decision(Verdict.ALLOW, obligations=[STEP_UP])
        return decision(Verdict.DENY, "insufficient_scope", obligations=[STEP_UP])

    house.rule.says = says
    await answer(house, await asked(house))
    for _ in range(2):
        seen = await house.handle(send(house))
        assert (seen.reply.status, seen.code) == (403, "insufficient_scope")
    assert house.server.saw == []
    house.gate.people["emma"] = replace(EMMA, scopes=EMMA.scopes | {"money"}, token_id="t9")
    assert (await house.handle(send(house))).code is None
    assert (await house.handle(send(house))).code == "approval_required"
    assert len(house.server.saw) == 1


async def test_beyond_so_many_questions_none_is_filed(house: House) -> None:
    for n in range(20):
        await asked(house, arguments={"n": n})
    seen = await house.handle(send(house, {"n": 20}))
    assert (seen.code, len(kept(house))) == ("approval_required", 20)
    assert "approval_id" not in refusal(seen)
    assert "too many questions" in seen.json["result"]["content"][0]["text"]
    assert (await house.handle(send(house, {"n": 20}, who="bob"))).code == "approval_required"
    assert len(kept(house)) == 21


async def test_what_nobody_could_read_is_not_asked(house: House) -> None:
    seen = await house.handle(send(house, {"body": "x" * 70_000}))
    assert (seen.code, kept(house), house.server.saw) == ("approval_required", [], [])


# Asking the person whose call it is, in band.


async def themselves(house: House, **how: Any) -> Seen:
    house.rule.themselves = lambda question: True
    return await house.handle(send(house, **how))


@pytest.mark.parametrize("declares", [URL, FORM, {"elicitation": {}}], ids=["url", "form", "bare"])
async def test_without_self_approval_nothing_is_offered_in_band(
    house: House, declares: Mapping[str, Any]
) -> None:
    seen = await house.handle(send(house, declares=declares))
    assert seen.json["result"]["isError"] is True
    assert "url" not in refusal(seen)
    assert "in a browser" not in seen.bytes.decode()


async def test_a_client_that_acts_for_itself_has_nobody_to_ask(house: House) -> None:
    seen = await themselves(house, who="alice", declares=FORM)
    assert seen.json["result"]["isError"] is True
    assert kept(house)[0].request.self_approval is False


async def test_a_policy_that_does_not_say_lets_nobody_answer_for_themselves(house: House) -> None:
    def fails(question: Mapping[str, Any]) -> bool:
        raise PolicyUnavailable("policy could not be evaluated")

    house.rule.themselves = fails
    await house.handle(send(house, declares=FORM))
    assert kept(house)[0].request.self_approval is False


async def test_policy_is_asked_about_the_call_itself(house: House) -> None:
    house.rule.themselves = lambda question: bool(question["arguments"] == TO_EVE)
    await house.handle(send(house))
    await house.handle(send(house, {"to": []}))
    assert [one.request.self_approval for one in kept(house)] == [True, False]


async def test_a_stateless_client_is_asked_to_open_our_page(house: House) -> None:
    seen = await themselves(house, declares=URL)
    id_ = kept(house)[0].request.id
    result = seen.json["result"]
    assert result["resultType"] == "input_required"
    (key, asked_for) = next(iter(result["inputRequests"].items()))
    assert (key, asked_for["method"]) == ("douane-approval", "elicitation/create")
    assert asked_for["params"]["mode"] == "url"
    assert asked_for["params"]["url"] == f"https://gateway.example/approve/{id_}"
    assert "eve@outside.example" in asked_for["params"]["message"]
    assert "requestState" not in result


async def test_a_client_that_comes_back_from_our_page_is_not_asked_again(house: House) -> None:
    await themselves(house, declares=URL)
    back = {"douane-approval": {"action": "accept"}}
    seen = await themselves(house, declares=URL, inputResponses=back)
    assert seen.json["result"]["isError"] is True
    assert kept(house)[0].request.asked == 2
    await answer(house, kept(house)[0])
    done = await themselves(house, declares=URL, inputResponses=back)
    assert done.json["result"] == text("hello")
    (permit,) = house.server.saw
    assert "inputResponses" not in json.loads(permit.call.message.body)["params"]


async def test_a_client_of_a_session_is_asked_to_open_our_page(house: House) -> None:
    house.rule.themselves = lambda question: True
    seen = await house.handle(legacy(house, takes_urls=True))
    error = seen.json["error"]
    id_ = kept(house)[0].request.id
    assert error["code"] == -32042
    (elicitation,) = error["data"]["elicitations"]
    assert elicitation["url"] == f"https://gateway.example/approve/{id_}"
    assert error["data"]["approval_id"] == id_


async def test_a_client_of_a_session_that_cannot_gets_the_text(house: House) -> None:
    house.rule.themselves = lambda question: True
    seen = await house.handle(legacy(house, takes_urls=False))
    said = seen.json["result"]["content"][0]["text"]
    id_ = kept(house)[0].request.id
    assert f"douane approvals allow {id_}" in said
    assert f"https://gateway.example/approve/{id_}" in said


async def test_a_stateless_client_with_forms_alone_is_asked_by_a_form(house: House) -> None:
    seen = await themselves(house, declares=FORM)
    result = seen.json["result"]
    asked_for = result["inputRequests"]["douane-approval"]["params"]
    assert asked_for["mode"] == "form"
    assert asked_for["requestedSchema"]["required"] == ["approve"]
    assert asked_for["requestedSchema"]["properties"]["approve"]["type"] == "boolean"
    assert "eve@outside.example" in asked_for["message"]
    assert result["requestState"] == approval_state(KEY, EMMA.key, kept(house)[0].request.id)


def back(state: str, response: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    responses = {"douane-approval": response, **more}
    return {"inputResponses": responses, "requestState": state, "declares": FORM}


YES = {"action": "accept", "content": {"approve": True}}


async def form_state(house: House, who: str = "emma") -> str:
    seen = await themselves(house, who=who, declares=FORM)
    state: str = seen.json["result"]["requestState"]
    return state


async def test_a_yes_in_the_form_lets_the_call_out_without_our_answer_in_it(house: House) -> None:
    state = await form_state(house)
    seen = await themselves(house, **back(state, YES))
    assert seen.json["result"] == text("hello")
    (permit,) = house.server.saw
    sent = json.loads(permit.call.message.body)
    assert sent["params"].keys() == {"name", "arguments", "_meta"}
    assert sent["params"] == permit.call.message.params
    (used,) = kept(house)
    assert (used.state, used.by, used.by_user_id) == (ApprovalState.USED, "user:emma", "u_emma")
    codes = [(r.kind.value, r.fields["code"]) for r in house.audit.records if r.kind == "approval"]
    assert codes == [("approval", "asked"), ("approval", "allowed")]


async def test_a_form_that_policy_no_longer_offers_answers_nothing(house: House) -> None:
    state = await form_state(house)
    house.rule.themselves = lambda question: False
    seen = await house.handle(send(house, **back(state, YES)))
    assert (seen.code, house.server.saw) == ("approval_required", [])
    assert kept(house)[0].state is ApprovalState.WAITING


async def test_what_policy_was_asked_is_kept_to_ask_it_again(house: House) -> None:
    await themselves(house)
    assert json.loads(kept(house)[0].request.question) in house.rule.asked
    house.rule.themselves = lambda question: False
    await house.handle(send(house, {"to": []}))
    assert kept(house)[1].request.question == b""


async def test_a_program_of_a_hosts_says_no_yes_in_its_persons_place(house: House) -> None:
    house.gate.people["robot"] = replace(EMMA, script=ScriptId("s_1"))
    await house.scripts.begin(
        Script(
            id=ScriptId("s_1"),
            principal=EMMA.key,
            sha256="ab" * 32,
            grants=None,
            most=None,
            parent="",
            began=house.now,
            expires_at=house.now + 60,
        )
    )
    seen = await themselves(house, who="robot", declares=FORM)
    assert seen.json["result"]["isError"] is True
    assert "requestState" not in seen.json["result"]
    state = approval_state(KEY, EMMA.key, kept(house)[0].request.id)
    seen = await themselves(house, who="robot", **back(state, YES))
    assert (seen.code, house.server.saw) == ("approval_required", [])
    assert kept(house)[0].state is ApprovalState.WAITING


async def test_what_answers_the_upstreams_own_questions_goes_on(house: House) -> None:
    seen = await themselves(
        house, **back(await form_state(house), YES, theirs={"action": "accept"})
    )
    # It is another call than the one that was asked about.
    assert (seen.code, len(kept(house))) == ("approval_required", 2)
    assert kept(house)[1].request.arguments == {
        "arguments": TO_EVE,
        "inputResponses": {"theirs": {"action": "accept"}},
    }


@pytest.mark.parametrize(
    ("response", "state"),
    [
        ({"action": "decline"}, ApprovalState.DENIED),
        ({"action": "accept", "content": {"approve": False}}, ApprovalState.DENIED),
        ({"action": "cancel"}, ApprovalState.WAITING),
        ({"action": "accept"}, ApprovalState.WAITING),
        ({"action": "accept", "content": {"approve": "true"}}, ApprovalState.WAITING),
        ({"action": "accept", "content": {"approve": 1}}, ApprovalState.WAITING),
        ({}, ApprovalState.WAITING),
    ],
    ids=["declined", "no", "cancelled", "nothing", "a text", "a number", "empty"],
)
async def test_anything_but_a_yes_in_the_form_lets_nothing_out(
    house: House, response: Mapping[str, Any], state: ApprovalState
) -> None:
    seen = await themselves(house, **back(await form_state(house), response))
    assert seen.json["result"]["isError"] is True
    assert (house.server.saw, kept(house)[0].state) == ([], state)


async def test_a_yes_counts_only_with_the_state_that_we_gave_for_it(house: House) -> None:
    state = await form_state(house)
    other = await form_state(house, "bob")
    unsealed = approval_state(b"x" * 32, EMMA.key, kept(house)[0].request.id)
    for wrong in (other, unsealed, "douane-approval.", f"{state}0"):
        seen = await themselves(house, **back(wrong, YES))
        assert (seen.code, house.server.saw) == ("approval_required", [])
    without = back(state, YES)
    del without["requestState"]
    assert (await themselves(house, **without)).code == "approval_required"
    assert (house.server.saw, kept(house)[0].state) == ([], ApprovalState.WAITING)


async def test_a_state_of_another_question_answers_nothing(house: House) -> None:
    state = await form_state(house)
    seen = await themselves(house, arguments={"to": ["mallory"]}, **back(state, YES))
    assert (seen.code, house.server.saw) == ("approval_required", [])
    assert {one.state for one in kept(house)} == {ApprovalState.WAITING}


async def test_a_form_answers_no_question_that_is_not_for_the_person(house: House) -> None:
    found = await asked(house)
    state = approval_state(KEY, EMMA.key, found.request.id)
    seen = await themselves(house, **back(state, YES))
    assert (seen.code, house.server.saw) == ("approval_required", [])


async def test_an_answer_that_cannot_be_recorded_is_none(house: House) -> None:
    state = await form_state(house)
    house.audit.failure = "disk full"
    await themselves(house, **back(state, YES))
    assert (house.server.saw, kept(house)[0].state) == ([], ApprovalState.WAITING)


async def test_whoever_answers_first_has_answered(house: House) -> None:
    state = await form_state(house)
    await answer(house, kept(house)[0], allow=False)
    seen = await themselves(house, **back(state, YES))
    assert (seen.code, house.server.saw) == ("denied", [])


async def test_a_form_that_comes_too_late_is_on_record_as_that(house: House) -> None:
    state = await form_state(house)
    append = house.audit.append

    async def somebody_is_quicker(record: AuditRecord) -> LogEntry:
        entry = await append(record)
        if record.fields.get("code") == "allowed":
            await answer(house, kept(house)[0], allow=False)
        return entry

    house.audit.append = somebody_is_quicker  # type: ignore[method-assign]
    seen = await themselves(house, **back(state, YES))
    assert (seen.code, house.server.saw) == ("denied", [])
    said = [r.fields for r in house.audit.records if r.kind == "approval"]
    assert [(one["verdict"], one["code"]) for one in said] == [
        ("ask", "asked"),
        ("allow", "allowed"),
        ("deny", "denied"),
    ]


async def test_what_a_form_cannot_show_whole_is_asked_on_our_page_alone(house: House) -> None:
    long = {"to": [], "body": "x" * 5_000}
    told = await themselves(house, arguments=long, declares=FORM)
    assert told.json["result"]["isError"] is True
    seen = await themselves(house, arguments={**long, "n": 1}, declares={**URL})
    assert seen.json["result"]["resultType"] == "input_required"


@pytest.mark.parametrize("body", ["x" * 60_000, "x" * 5_000])
async def test_a_long_question_is_spelled_beside_the_loop(
    house: House, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    spelled = visible
    loop, on_the_loop, beside = threading.get_ident(), list[int](), list[int]()

    def noting(text: str) -> str:
        (on_the_loop if threading.get_ident() == loop else beside).append(len(text))
        return spelled(text)

    monkeypatch.setattr(asking, "visible", noting)
    long = {"to": [], "body": body}
    ways: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}
    seen = await themselves(house, arguments=long, declares=ways)
    assert sum(one > len(body) for one in beside) == 1
    assert max(on_the_loop, default=0) < len(body)
    assert seen.code == "approval_required"


@pytest.mark.parametrize(("size", "leaves"), [(1, False), (5_000, True)])
async def test_what_answers_are_bound_to_is_told_of_a_large_call_beside_the_loop(
    house: House, monkeypatch: pytest.MonkeyPatch, size: int, leaves: bool
) -> None:
    """And whether a person has said no to it."""
    ran = list[bool]()

    def noting(*args: Any, **how: Any) -> Any:
        ran.append(threading.get_ident() != loop)
        return bound_by(*args, **how)

    loop = threading.get_ident()
    monkeypatch.setattr(approvals, "bound_by", noting)
    assert (await house.handle(send(house, {**TO_EVE, "a": [0] * size}))).code
    assert ran == [leaves]


async def test_nothing_in_a_question_hides(house: House) -> None:
    seen = await themselves(house, arguments={"to": "a\u202eb\x1b[2J"}, declares=FORM)
    asked_for = seen.json["result"]["inputRequests"]["douane-approval"]["params"]["message"]
    assert "\u202e" not in asked_for
    assert "\x1b" not in asked_for


async def test_a_call_that_is_answered_in_an_error_of_the_upstream_has_used_its_yes(
    house: House,
) -> None:
    await answer(house, await asked(house))
    house.server.answer = lambda permit: whole(b"", status=500)
    await house.handle(send(house))
    assert kept(house)[0].state is ApprovalState.USED
