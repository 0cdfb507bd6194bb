"""Ready-made questions: one answer each, on record before it is given."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.admin import ask as module
from gateway.admin.archive import Archive
from gateway.admin.ask import AskDesk
from gateway.audit.questions import QUESTIONS, Progress
from gateway.errors import AuditUnavailable, BadCommand, Forbidden
from gateway.storage.store import Store
from gateway.wiring.indexing import archive_of
from tests.admin.world import ADMIN, APPROVER, AUDITOR, STRANGER, USER, new_journal
from tests.storage.logged import FROM_CRM, HOUR, NOW, TO_OTHERS, Event, made, refused, write

SEEN: dict[str, Any] = {"sources": FROM_CRM, "destinations": TO_OTHERS, "policy_digest": "sha256:1"}
IN_FORCE: Event = (
    "policy",
    NOW - HOUR,
    {"code": "in_force", "policy_digest": "sha256:1", "verdict": "allow"},
)


def answered(code: str, who: str, note: str = "") -> Event:
    """What is recorded when a person answers the question `a_1`."""
    reasons = [{"code": code, "message": "mail/send"}]
    if note:
        reasons.append({"code": "note", "message": note})
    verdict = "allow" if code == "allowed" else "deny" if code == "denied" else "ask"
    fields = {"principal": who, "approval_id": "a_1", "code": code, "verdict": verdict}
    return ("approval", NOW, {**fields, "reasons": reasons, "decision_id": "d_asked"})


@asynccontextmanager
async def asking(folder: Path, events: Sequence[Event]) -> AsyncIterator[tuple[AskDesk, Store]]:
    """A desk over a log of these records."""
    await write(folder, events)
    store = await Store.open(folder, clock=lambda: NOW)
    try:
        with archive_of(store) as archive:
            journal = new_journal(store.audit)
            yield (
                AskDesk(archive, journal, hashes_of=store.hashes_of, clock=lambda: NOW + 60),
                store,
            )
    finally:
        await store.close()


def newest(store: Store) -> dict[str, Any]:
    reader = store.log.reader()
    try:
        (record,) = reader.after(reader.newest() - 1)
    finally:
        reader.close()
    return record


async def test_who_sent_data_outside_under_which_policy_and_who_approved_it(
    tmp_path: Path,
) -> None:
    events = [
        IN_FORCE,
        answered("asked", "emma"),
        answered("allowed", "user:noah", "checked by phone"),
        *made("1", approval_id="a_1", source_ip="10.0.0.1", run="r_1", **SEEN),
    ]
    async with asking(tmp_path, events) as (desk, _):
        answer = await desk.ask(AUDITOR, question="sent-outside", source="crm")
    assert answer == {
        "question": "sent-outside",
        "since": "2027-01-08T08:01:00.000Z",
        "through": 5,
        "complete": True,
        "next": None,
        "rows": [
            {
                "time": "2027-01-15T08:00:00.000000Z",
                "principal": "emma",
                "client": "c_1",
                "source_ip": "10.0.0.1",
                "server": "mail",
                "tool": "send",
                "effect": "egress",
                "went_out": True,
                "verdict": "allow",
                "code": None,
                "rules": [],
                "seen": list(FROM_CRM),
                "label": None,
                "destinations": list(TO_OTHERS),
                "policy_digest": "sha256:1",
                "policy_since": "2027-01-15T07:00:00.000000Z",
                "approval": {
                    "id": "a_1",
                    "answer": "allowed",
                    "by": "user:noah",
                    "at": "2027-01-15T08:00:00.000000Z",
                    "note": "checked by phone",
                },
                "run": "r_1",
                "decision_id": f"d_{1:0>30}",
                "record": "r3",
                "leaf_index": 3,
                "outcome": 4,
                "signed": True,
            }
        ],
    }


async def test_what_was_refused_and_what_nobody_knows_the_end_of_are_told_alike(
    tmp_path: Path,
) -> None:
    asked = {"verdict": "ask", "code": "approval_required", "approval_id": "a_1"}
    events = [
        *made("1", **SEEN)[:1],
        *refused("2", NOW + 1, **SEEN),
        *refused("3", NOW + 2, **(SEEN | asked)),
        answered("asked", "emma"),
        *made("4", NOW + 3, **SEEN)[:1],
        *refused("4", NOW + 4, **SEEN),
    ]
    async with asking(tmp_path, events) as (desk, _):
        rows = (await desk.ask(AUDITOR, question="sent-outside", source="crm"))["rows"]
        told = [(r["record"], r["went_out"], r["verdict"], r["rules"]) for r in rows]
        assert told == [
            ("r4", True, "deny", ["rule_a"]),
            ("r2", False, "ask", ["rule_a"]),
            ("r1", False, "deny", ["rule_a"]),
            ("r0", True, "unknown", []),
        ]
        waiting = {"id": "a_1", "answer": None, "by": None, "at": None, "note": None}
        assert [r["approval"] for r in rows] == [None, waiting, None, None]
        for allowed, found in ((True, ["r4", "r0"]), (False, ["r2", "r1"])):
            answer = await desk.ask(AUDITOR, question="sent-outside", source="crm", allowed=allowed)
            assert [row["record"] for row in answer["rows"]] == found


def given(code: str, who: str, verdict: str, method: str = "approvals.allow") -> Event:
    kind, at, fields = answered(code, who)
    return (kind, at, {**fields, "verdict": verdict, "method": method})


YES = given("allowed", "user:noah", "allow")
FORM = "approvals.form"


@pytest.mark.parametrize(
    ("answers", "answer", "by"),
    [
        ([YES, given("allowed", "user:ada", "allow"), given("denied", "user:ada", "deny")], *("allowed", "user:noah")),
        ([given("denied", "user:ada", "allow", "approvals.deny"), YES, given("denied", "user:noah", "deny")], *("denied", "user:ada")),
        ([given("allowed", "user:ada", "allow"), YES, given("denied", "user:ada", "deny")], *("allowed", "user:noah")),
        ([given("allowed", "user:ada", "allow"), given("audit_unavailable", "user:ada", "deny"), YES], *("allowed", "user:noah")),
        ([given("denied", "emma", "deny", FORM)], *("denied", "emma")),
        ([YES, given("denied", "user:ada", "allow", "approvals.deny")], *("allowed", "user:noah")),
        ([YES, given("denied", "emma", "deny", FORM), given("denied", "emma", "deny", FORM)], *("allowed", "user:noah")),
    ],
    ids=["a late yes", "a late yes after a no", "recorded before", "a first try", "a no", "cut short", "a late no"],
)  # fmt: skip
async def test_an_answer_that_came_too_late_is_not_told_as_the_answer(
    tmp_path: Path, answers: list[Event], answer: str, by: str
) -> None:
    events = [answered("asked", "emma"), *answers, *made("1", approval_id="a_1", **SEEN)]
    async with asking(tmp_path, events) as (desk, _):
        (row,) = (await desk.ask(AUDITOR, question="sent-outside", source="crm"))["rows"]
        assert (row["approval"]["answer"], row["approval"]["by"]) == (answer, by)


async def test_a_policy_is_in_force_since_it_last_came_into_force_before_the_call(
    tmp_path: Path,
) -> None:
    def again(at: float) -> Event:
        return ("policy", at, IN_FORCE[2])

    events = [IN_FORCE, again(NOW - 60), *made("1", **SEEN), again(NOW + 60)]
    async with asking(tmp_path, events) as (desk, _):
        (row,) = (await desk.ask(AUDITOR, question="sent-outside", source="crm"))["rows"]
        assert row["policy_since"] == "2027-01-15T07:59:00.000000Z"


async def test_a_page_goes_on_where_the_other_ended(tmp_path: Path) -> None:
    events = [one for n in range(5) for one in refused(str(n), NOW + n // 2, **SEEN)]
    async with asking(tmp_path, events) as (desk, _):
        for question in ("sent-outside", "denied", "timeline"):
            found: list[int] = []
            after = None
            for _ in range(3):
                answer = await desk.ask(
                    AUDITOR,
                    question=question,
                    source="crm",
                    principal="emma",
                    limit=2,
                    after=after,
                )
                found += [row["leaf_index"] for row in answer["rows"]]
                after = answer["next"]
            assert (found, after) == ([4, 3, 2, 1, 0], None), question


async def test_counts_begin_with_an_hour_and_say_so(tmp_path: Path) -> None:
    async with asking(tmp_path, [*made("1"), *refused("2")]) as (desk, _):
        asked = {"server": "mail", "tool": "send", "source": "crm", "since": "30m"}
        for question in ("who-called", "top", "undeclared", "denied-by-rule", "flows"):
            answer = await desk.ask(AUDITOR, question=question, **asked)  # type: ignore[arg-type]
            assert answer["since"] == "2027-01-15T07:00:00.000Z", question
        rows = (await desk.ask(AUDITOR, question="who-called", **asked))["rows"]  # type: ignore[arg-type]
        told = {"principal": "emma", "client": "c_1", "calls": 2, "refused": 1}
        assert rows == [{**told, "last": "2027-01-15T08:00:00.000Z"}]


async def test_a_value_is_found_wherever_its_hash_stands(tmp_path: Path) -> None:
    whole = {"to": ["a@example.com"], "body": "hello"}
    async with asking(tmp_path, [*made("1", arguments=whole), *made("2")]) as (desk, store):
        for content, where in (("hello", "arguments.body"), ("a@example.com", "arguments.to[0]")):
            rows = (await desk.ask(AUDITOR, question="where-went", content=content))["rows"]
            assert [(row["leaf_index"], row["where"]) for row in rows][-1] == (0, [where])
        rows = (await desk.ask(AUDITOR, question="where-went", content=whole))["rows"]
        assert {"arguments_hmac"} == {path for row in rows for path in row["where"]}
        assert (await desk.ask(AUDITOR, question="where-went", content="other"))["rows"] == []
        message = newest(store)["reasons"][0]["message"]
        assert (
            message == f"where-went, subject = principal, since = 7d, {store.hashes_of('other')[0]}"
        )


async def test_that_somebody_asked_is_on_record_first(tmp_path: Path) -> None:
    async with asking(tmp_path, made("1")) as (desk, store):
        await desk.ask(AUDITOR, question="who-called", server="mail", tool="send")
        record = newest(store)
        told = [record[name] for name in ("kind", "principal", "method", "verdict", "code")]
        assert told == ["admin", "os:otto", "audit.ask", "allow", "read"]
        message = "who-called, server = mail, tool = send, subject = principal, since = 7d"
        assert record["reasons"] == [{"code": "read", "message": message}]
        store.writer._closing = True  # nothing can be recorded any more
        with pytest.raises(AuditUnavailable):
            await desk.ask(AUDITOR, question="top")
        store.writer._closing = False


@pytest.mark.parametrize("person", [USER, STRANGER, APPROVER], ids=lambda one: one.name)
async def test_nobody_else_asks(tmp_path: Path, person: Any) -> None:
    async with asking(tmp_path, []) as (desk, _):
        with pytest.raises(Forbidden):
            await desk.ask(person, question="top")
        with pytest.raises(Forbidden):
            await desk.questions(person)


async def test_every_question_is_listed_and_can_be_asked(tmp_path: Path) -> None:
    async with asking(tmp_path, made("1")) as (desk, _):
        listed = [row["question"] for row in await desk.questions(ADMIN)]
        assert listed == list(QUESTIONS) == list(module.Question.__args__)  # type: ignore[attr-defined]
        for question in listed:
            answer = await desk.ask(
                ADMIN,
                question=question,
                server="mail",
                tool="send",
                principal="emma",
                source="crm",
                content="x",
            )
            assert answer["complete"], question


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"question": "sent-outside"}, "sent-outside needs source"),
        ({"question": "who-called", "server": "mail"}, "who-called needs tool"),
        ({"question": "flows"}, "flows needs source"),
        ({"question": "timeline"}, "timeline needs principal"),
        ({"question": "top", "since": "soon"}, "not a time: 'soon'"),
        ({"question": "denied", "after": "nonsense"}, "not a cursor"),
    ],
)
async def test_what_cannot_be_answered_is_refused_and_not_recorded(
    tmp_path: Path, asked: dict[str, Any], says: str
) -> None:
    async with asking(tmp_path, []) as (desk, store):
        with pytest.raises(BadCommand, match=says):
            await desk.ask(AUDITOR, **asked)
        reader = store.log.reader()
        assert reader.newest() == -1
        reader.close()


class Behind:
    """An index that has not come to the end."""

    def catch_up(self, enough: Any) -> Progress:
        assert not enough()
        return Progress(through=7, newest=9)


class Nobody:
    def top(self, *_: object) -> list[dict[str, Any]]:
        return []


async def test_an_answer_that_is_behind_says_so(tmp_path: Path) -> None:
    async with asking(tmp_path, []) as (desk, _):
        desk.archive = Archive(Nobody(), Behind())  # type: ignore[arg-type]
        answer = await desk.ask(AUDITOR, question="top")
        assert (answer["through"], answer["complete"]) == (7, False)


class Late:
    """An index of a log that is behind itself."""

    def catch_up(self, enough: Callable[[], bool]) -> Progress:
        return Progress(through=3, newest=3, lag_s=2.04)


async def test_an_answer_says_that_the_log_is_late(tmp_path: Path) -> None:
    async with asking(tmp_path, made("1")) as (desk, store):
        assert "lag_s" not in await desk.ask(AUDITOR, question="top")
        late = AskDesk(
            Archive(desk.archive._answers, Late()),
            new_journal(store.audit),
            hashes_of=store.hashes_of,
            clock=lambda: NOW,
        )
        answer = await late.ask(AUDITOR, question="top")
        assert (answer["complete"], answer["lag_s"]) == (False, 2.0)
