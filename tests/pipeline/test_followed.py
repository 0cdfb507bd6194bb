"""Resources that a `subscriptions/listen` follows at a server's own endpoint: each is a call."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.decisions import Duty, Obligation, Verdict
from gateway.domain.labels import BOTTOM, Confidentiality
from gateway.domain.tools import Kind, Profile
from gateway.pipeline import pipeline, recording
from gateway.wire.jsonrpc import METHOD_NOT_FOUND
from tests.pipeline.house import (
    ALICE,
    PRIVATE,
    UNHINTED,
    Events,
    House,
    Seen,
    decision,
)


def denying(when: Callable[[Mapping[str, Any]], bool]) -> Callable[[Mapping[str, Any]], Verdict]:
    return lambda question: Verdict.DENY if when(question) else Verdict.ALLOW


ONE, TWO = "mail://inbox", "mail://secret"
KEY = "AKIAQYLPMN5HHHFPZAM2"


@pytest.fixture
async def house() -> House:
    built = House()
    for profile in Profile:
        await built.approve_all(profile)
    built.server.answer = lambda permit: Events([]).answer()
    return built


async def listen(house: House, *uris: str, **more: Any) -> Seen:
    wanted = {"notifications": {"resourceSubscriptions": [*uris], **more}}
    return await house.handle(house.request("subscriptions/listen", wanted))


def asked(house: House) -> list[tuple[str, str]]:
    return [(q["phase"], q["target"]["name"]) for q in house.rule.asked if q["phase"] != "list"]


async def test_policy_is_asked_about_each_resource_as_the_older_revisions_have_it(
    house: House,
) -> None:
    params = {"uri": ONE}
    house.server.answer = lambda permit: Events([]).answer()
    old = house.request("resources/subscribe", params, profile=Profile.LEGACY, session="s")
    await house.handle(old)
    (before,) = (q for q in house.rule.asked if q["phase"] == "call")
    house.rule.asked.clear()
    await listen(house, ONE, TWO)
    assert asked(house) == [("call", ONE), ("call", TWO)]
    now = next(q for q in house.rule.asked if q["phase"] == "call")
    for part in ("method", "arguments", "target", "dlp"):
        assert now[part] == before[part]
    assert len(house.server.saw) == 2


async def test_one_that_is_refused_refuses_the_whole_before_anything_is_sent(house: House) -> None:
    house.rule.says = denying(lambda q: q["phase"] == "call" and q["target"]["name"] == TWO)
    seen = await listen(house, ONE, TWO)
    assert (seen.code, house.server.saw) == ("denied", [])
    assert seen.json["id"] == 1
    assert house.last["target"] == f"['{TWO}']"


async def test_each_is_on_record_before_it_is_sent_and_part_of_its_message(house: House) -> None:
    recorded: list[Any] = []

    def answer(permit: Any) -> Any:
        recorded.extend(r for r in house.audit.records if r.kind.value in ("intent", "outcome"))
        return Events([]).answer()

    house.server.answer = answer
    await listen(house, ONE, TWO)
    about = [r for r in recorded if r.fields.get("target")]
    assert [(r.kind.value, r.fields["target"]) for r in about] == [
        ("intent", f"['{ONE}']"),
        ("outcome", f"['{ONE}']"),
        ("intent", f"['{TWO}']"),
        ("outcome", f"['{TWO}']"),
    ]
    (whole,) = (r for r in recorded if not r.fields.get("target"))
    assert {r.fields["parent"] for r in about} == {whole.fields["decision_id"].removeprefix("d_")}


async def test_nothing_of_a_server_that_has_changed_is_followed(house: House) -> None:
    await house.show({"name": "mail", "instructions": "something else"}, kind=Kind.SERVER)
    assert ((await listen(house, ONE)).code, house.server.saw) == ("pin_drift", [])
    wanted = {"notifications": {"toolsListChanged": True}}
    await house.handle(house.request("subscriptions/listen", wanted))
    assert len(house.server.saw) == 1


async def test_nor_of_one_that_changes_while_they_are_decided(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = recording.recorded

    async def changing(ledger: Any, admission: Any, permit: Any, trail: Any) -> None:
        await recorded(ledger, admission, permit, trail)
        if permit.access is not None and permit.access.target.name == TWO:
            await house.show({"name": "mail", "instructions": "else"}, kind=Kind.SERVER)

    monkeypatch.setattr(pipeline, "recorded", changing)
    assert ((await listen(house, ONE, TWO)).code, house.server.saw) == ("pin_drift", [])


async def test_without_the_scope_nothing_is_decided(house: House) -> None:
    house.gate.people["alice"] = replace(ALICE, scopes=frozenset({"tools:call"}))
    assert (await listen(house, ONE)).code == "insufficient_scope"
    assert (house.server.saw, house.rule.asked) == ([], [])


async def test_what_a_uri_says_is_looked_at(house: House) -> None:
    house.rule.says = denying(lambda q: q["phase"] == "call" and bool(q["dlp"]["arguments"]))
    seen = await listen(house, ONE, f"{ONE}?k={KEY}")
    assert (seen.code, house.server.saw) == ("denied", [])
    assert KEY not in str(house.last["arguments"])


async def test_duties_are_met_for_each(house: House) -> None:
    limit = Obligation(duty=Duty.RATE_LIMIT, detail={"calls_per_minute": 2})
    label = Obligation(duty=Duty.LABEL, detail={"confidentiality": "secret"})
    house.rule.says = lambda q: decision(Verdict.ALLOW, obligations=[limit, label])
    await listen(house, ONE, TWO)
    run = await house.runs.of(ALICE, UNHINTED)
    assert run.label.confidentiality is Confidentiality.SECRET
    assert ((await listen(house, TWO)).code, len(house.server.saw)) == ("rate_limited", 1)


async def test_whoever_follows_has_read_nothing_yet() -> None:
    house = House(default=PRIVATE)
    await house.approve_all()
    house.server.answer = lambda permit: Events([]).answer()
    for _ in range(2):
        await listen(house, ONE, TWO)
        assert (await house.runs.of(ALICE, UNHINTED)).label == BOTTOM
    assert len(house.server.saw) == 2


async def test_a_person_is_asked_about_one_that_policy_asks_about(house: House) -> None:
    house.rule.says = lambda q: (
        Verdict.ASK
        if q["phase"] == "call" and q["target"]["name"] == TWO and not q["approval"]
        else Verdict.ALLOW
    )
    seen = await listen(house, ONE, TWO)
    assert (seen.code, house.server.saw) == ("approval_required", [])


@pytest.mark.parametrize("profile", Profile)
async def test_no_client_subscribes_in_another_familys_words(
    house: House, profile: Profile
) -> None:
    method = "resources/subscribe" if profile is Profile.MODERN else "subscriptions/listen"
    params = {"uri": ONE, "notifications": {"resourceSubscriptions": [ONE]}}
    seen = await house.handle(house.request(method, params, profile=profile))
    assert seen.json["error"]["code"] == METHOD_NOT_FOUND
    assert (house.server.saw, house.rule.asked) == ([], [])
