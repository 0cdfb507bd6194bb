"""A call that was decided on what has changed since is decided again, before anything of it goes out."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from gateway.domain.approvals import Span
from gateway.domain.audit import AuditRecord, LogEntry
from gateway.domain.calls import AccessRequest, Form
from gateway.domain.decisions import Verdict
from gateway.domain.labels import STRICTEST_DEFAULT, Effect, ToolRule
from gateway.domain.premises import Premise, Premises, Uses
from gateway.domain.quotas import Count, Per, Quota
from gateway.domain.tools import OWN, Profile
from gateway.errors import AuditUnavailable, Changed, PinDrift
from gateway.pipeline.quotas import Quotas
from gateway.wire.operations import CANCELLED
from tests.pipeline.house import TOOLS, House, decision, result
from tests.pipeline.test_questions_of_planes import EDGE, ask

Then = Callable[[], Any]


class Raced:
    """A ledger at which something happens just before a call is to be written down."""

    def __init__(self, house: House, happens: list[Then]) -> None:
        self._inner = house.ledger
        self._happens = happens
        self.put_with: list[tuple[Premises, Uses]] = []
        self.others: list[Then] = []

    async def put(self, record: AuditRecord, premises: Premises, uses: Uses) -> LogEntry:
        self.put_with.append((premises, uses))
        if self._happens:
            await self._happens.pop(0)()
        return await self._inner.put(record, premises, uses)

    async def caught_up(self) -> bool:
        return bool(self.others) and await self.others.pop(0)()


async def built(*happens: Callable[[House], Any], **rules: ToolRule) -> tuple[House, Raced]:
    house = House(tools=rules or {"send": ToolRule(effect=Effect.EGRESS)})
    for profile in Profile:
        await house.approve_all(profile)
    raced = Raced(house, [partial(one, house) for one in happens])
    house.pipeline._ledger = raced
    house.decisions._permits._ledger = raced
    house.pipeline._late._exchange._ledger = raced
    return house, raced


def only_what_is_trusted(question: Mapping[str, Any]) -> Verdict:
    label = question["flow"]["label"] if question["phase"] == "call" else {"integrity": "trusted"}
    return Verdict.ALLOW if label["integrity"] == "trusted" else Verdict.DENY


async def raises(house: House) -> None:
    (run,) = [state.run for state in house.runs.all()]
    await house.runs.raise_label(run.id, STRICTEST_DEFAULT, None)


async def keeps_changing(_: House) -> None:
    raise Changed([Premise.RUN])


async def test_a_call_is_decided_on_the_label_that_its_record_rests_on() -> None:
    house, raced = await built(raises)
    house.rule.says = only_what_is_trusted
    seen = await house.handle(house.call("send"))
    assert (seen.code, house.server.saw) == ("denied", [])
    assert house.kinds()[-1:] == ["outcome"]
    assert len(raced.put_with) == 1
    (refusal,) = [one for one in house.audit.records if one.kind == "outcome"]
    assert refusal.fields["label_before"] == STRICTEST_DEFAULT.words


async def test_a_call_that_is_still_allowed_goes_out_once() -> None:
    house, raced = await built(raises)
    seen = await house.handle(house.call("send"))
    assert (seen.code, len(house.server.saw)) == (None, 1)
    assert [one.version for one, _ in raced.put_with] == [0, 1]
    (intent,) = [one for one in house.audit.records if one.kind == "intent"]
    assert intent.fields["label_before"] == STRICTEST_DEFAULT.words
    assert intent.fields["question"]


async def test_what_changes_each_time_is_a_fault_and_nothing_is_sent() -> None:
    house, raced = await built(*[keeps_changing] * 5)
    seen = await house.handle(house.call("send"))
    assert (seen.code, house.server.saw) == ("state_changed", [])
    assert len(raced.put_with) == 3
    assert [one.kind for one in house.audit.records if "intent" in one.kind] == []


async def test_a_call_counts_once_however_often_it_is_decided() -> None:
    house, _ = await built(keeps_changing, keeps_changing)
    quota = Quota(name="mails", count=Count.CALLS, most=1, per=Per.DAY)
    house.quotas = Quotas([quota], prices={}, clock=house.clock)
    ledger = house.pipeline._ledger
    house.pipeline = house._wired()
    house.pipeline._ledger = ledger
    taken: list[str] = []

    async def take(key: str, *_: object) -> None:
        taken.append(key)

    house.limits.take = take  # type: ignore[assignment, method-assign]
    seen = await house.handle(house.call("send"))
    assert (seen.code, len(house.server.saw), len(taken)) == (None, 1, 1)


async def test_a_call_is_not_judged_by_what_it_did_not_send(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house, raced = await built(raises)
    questions = house.pipeline._admission._questions
    note, noted = questions.note_sent, []

    async def noting(access: AccessRequest) -> None:
        noted.append(len(raced.put_with))
        await note(access)

    monkeypatch.setattr(questions, "note_sent", noting)
    seen = await house.handle(house.call("send"))
    assert (seen.code, len(house.server.saw)) == (None, 1)
    assert noted == [2]  # once, and only what is on record


async def test_a_definition_that_is_revoked_while_its_call_is_decided_is_not_called() -> None:
    async def revokes(house: House) -> None:
        for pin in house.pins.all():
            await house.pins.revoke(pin.target, pin.profile, by="bob", note="")

    house, _ = await built(revokes)
    seen = await house.handle(house.call("send"))
    assert (seen.code, house.server.saw) == ("pin_revoked", [])


async def test_a_policy_that_comes_into_force_decides() -> None:
    async def turns(house: House) -> None:
        house.rule.digest = "sha256:next"
        house.rule.says = lambda question: replace(
            decision(Verdict.DENY if question["phase"] == "call" else Verdict.ALLOW),
            policy_digest="sha256:next",
        )

    house, _ = await built(turns)
    seen = await house.handle(house.call("send"))
    assert (seen.code, house.server.saw) == ("denied", [])


async def test_a_plane_is_told_what_holds_when_its_question_is_on_record() -> None:
    house, raced = await built(keeps_changing, raises, search=ToolRule(effect=Effect.READ))
    house.rule.says = only_what_is_trusted
    answer = await ask(house)
    assert (answer.decision, len(raced.put_with)) == (False, 2)
    refusal = house.audit.records[-1]
    assert (refusal.fields["plane"], refusal.fields["request_id"]) == (EDGE.name, "q")
    assert house.owed.kept == {}


async def test_a_yes_that_was_found_used_is_asked_for_anew() -> None:
    async def finds_it_used(_: House) -> None:
        raise Changed([Premise.APPROVAL])

    house, raced = await built(finds_it_used)
    house.rule.says = lambda question: (
        Verdict.ASK if question["phase"] == "call" and not question["approval"] else Verdict.ALLOW
    )
    assert (await house.handle(house.call("send"))).code == "approval_required"
    (asked,) = house.approvals.all(now=house.clock())
    await house.approvals.answer(
        asked.request.id,
        allow=True,
        span=Span.ONCE,
        by="ada",
        by_user_id="u_ada",
        note="",
        now=house.clock(),
    )
    seen = await house.handle(house.call("send"))
    assert (seen.code, house.server.saw) == ("approval_required", [])
    assert raced.put_with[0][1].yes == asked.request.id


async def test_a_list_that_two_policies_answer_in_turns_ends_as_a_refusal() -> None:
    house, _ = await built()
    turns = itertools.count()
    house.server.answer = lambda permit: result(permit, {"tools": list(TOOLS.values())})
    house.rule.says = lambda _: replace(
        decision(Verdict.ALLOW), policy_digest=f"sha256:{next(turns) % 2}"
    )
    seen = await house.handle(house.request("tools/list"))
    assert (seen.code, next(turns)) == ("policy_unavailable", 6)


async def rights_end(house: House) -> None:
    """Have a right of somebody's end, as all that is known of people shows from now on."""
    house.people += 1
    house.gate.people = {
        name: replace(who, people=house.people) for name, who in house.gate.people.items()
    }


async def emma_is_signed_out(house: House) -> None:
    await rights_end(house)
    del house.gate.people["alice"]


@pytest.mark.parametrize("message", ["call", "ping"])
async def test_whoever_is_signed_out_while_their_call_is_decided_calls_nothing(
    message: str,
) -> None:
    house, raced = await built(emma_is_signed_out)
    of = house.call("send") if message == "call" else house.request("ping", profile=Profile.LEGACY)
    seen = await house.handle(of)
    assert (seen.code, house.server.saw) == ("unauthenticated", [])
    assert raced.put_with[0][0].people == 0


async def test_whoever_is_still_known_when_others_are_signed_out_goes_on() -> None:
    house, raced = await built(rights_end)
    seen = await house.handle(house.call("send"))
    assert (seen.code, len(house.server.saw)) == (None, 1)
    assert [one.people for one, _ in raced.put_with] == [0, 1]


async def approved_elsewhere(house: House) -> bool:
    """Let memory show what another process has approved."""
    for profile in Profile:
        await house.approve_all(profile)
    return True


async def unapproved(*others: Callable[[House], Any]) -> tuple[House, Raced]:
    """Return a house of which memory shows no approved definition, and what others do meanwhile."""
    house, raced = await built()
    for pin in house.pins.all():
        await house.pins.revoke(pin.target, pin.profile, by="bob", note="")
    raced.others = [partial(one, house) for one in others]
    return house, raced


async def test_a_no_of_old_memory_is_asked_again() -> None:
    house, _ = await unapproved(approved_elsewhere)
    seen = await house.handle(house.call("send"))
    assert (seen.code, len(house.server.saw)) == (None, 1)


async def nothing_new(_: House) -> bool:
    return False


async def nobody_knows(_: House) -> bool:
    raise AuditUnavailable("it is not known now")


@pytest.mark.parametrize("others", [nothing_new, nobody_knows])
async def test_a_no_that_rests_on_all_there_is_stays_one(others: Callable[[House], Any]) -> None:
    house, raced = await unapproved(others, approved_elsewhere)
    seen = await house.handle(house.call("send"))
    assert (seen.code, house.server.saw) == ("pin_revoked", [])
    assert len(raced.others) == 1


async def something_else(_: House) -> bool:
    return True


async def test_a_no_is_asked_again_so_often_and_then_it_is_one() -> None:
    house, raced = await unapproved(*[something_else] * 5)
    seen = await house.handle(house.call("send"))
    assert (seen.code, house.server.saw) == ("pin_revoked", [])
    assert len(raced.others) == 3


async def test_what_is_on_record_is_not_decided_again() -> None:
    house, raced = await built()
    raced.others = [partial(something_else, house)]

    def revoked(_: object) -> None:
        raise PinDrift("this definition has changed since the call was decided")

    house.pipeline._admission.require_unchanged = revoked  # type: ignore[method-assign, assignment]
    seen = await house.handle(house.call("send"))
    assert (seen.code, len(raced.put_with)) == ("pin_drift", 1)


async def test_a_question_is_not_filed_twice_because_of_what_others_do() -> None:
    house, raced = await built()
    raced.others = [partial(something_else, house)]
    house.rule.says = lambda question: Verdict.ASK if question["phase"] == "call" else Verdict.ALLOW
    assert (await house.handle(house.call("send"))).code == "approval_required"
    (asked,) = house.approvals.all(now=house.clock())
    assert asked.request.asked == 1


async def test_a_plane_is_told_no_only_by_what_is_known_everywhere() -> None:
    house, raced = await unapproved(approved_elsewhere)
    assert (await ask(house)).decision
    assert raced.others == []


BOTH = (Profile.LEGACY, Profile.MODERN)
QUIET = {
    "initialize": BOTH[:1],
    "ping": BOTH[:1],
    "server/discover": BOTH[1:],
    "notifications/initialized": BOTH[:1],
    CANCELLED: BOTH,
    "DELETE": BOTH[:1],
}
SHOWING = {
    **dict.fromkeys(("tools/list", "resources/list", "prompts/list", "tools/call"), BOTH),
    "subscriptions/listen": BOTH[1:],
    "GET": BOTH[:1],
}
FORMS = {"GET": Form.STREAM, "DELETE": Form.END}


@pytest.mark.parametrize(
    ("method", "profile"),
    [(method, profile) for one in (QUIET, SHOWING) for method in one for profile in one[method]],
)
async def test_what_shows_something_rests_on_where_its_run_is_and_a_greeting_does_not(
    method: str, profile: Profile
) -> None:
    """A run that was shown something at two gateways is remembered whole at neither."""
    house, raced = await built()
    told = Form.NOTIFICATION if method.startswith("notifications/") else Form.REQUEST
    form = FORMS.get(method, told)
    call = house.request(
        "" if method in FORMS else method,
        {"name": "search"} if method == "tools/call" else {},
        profile=profile,
        form=form,
        session="s1" if profile is Profile.LEGACY else None,
        id_=1 if form is Form.REQUEST else None,
    )
    await house.handle(call)
    assert [premises.carries for premises, _ in raced.put_with] == [method in SHOWING]


async def test_our_own_lists_show_nothing_of_a_run() -> None:
    house, raced = await built()
    call = house.request("tools/list", endpoint="/mcp")
    await house.handle(replace(call, server=OWN))
    assert [premises.carries for premises, _ in raced.put_with] == [False]
