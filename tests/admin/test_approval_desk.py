"""Who may answer which question, and what the log knows of it before it counts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from gateway.admin.approvals import ApprovalDesk
from gateway.admin.person import How, Person, Role
from gateway.admin.standing import StandingDesk
from gateway.domain.approvals import ApprovalId, ApprovalRequest, ApprovalRules, ApprovalState
from gateway.domain.decisions import Reason
from gateway.domain.document import Digest
from gateway.domain.flow import RunId, Source
from gateway.domain.identity import Client
from gateway.domain.labels import STRICTEST_DEFAULT, Effect
from gateway.domain.standing import StandingAnswer
from gateway.domain.tools import Kind, Target, UpstreamId
from gateway.errors import AuditUnavailable, Denied, Forbidden, NotFound, PolicyUnavailable
from gateway.storage.claims import ProcessClaims
from tests.admin.world import NOW, NOW_TEXT, URL, Themselves, new_journal
from tests.storage.memory import MemoryAuditLog
from tests.storage.memory_people import (
    MemoryApprovalStore,
    MemoryClientStore,
    MemoryStandingAnswers,
)


def person(name: str, *roles: Role, **changes: Any) -> Person:
    return Person(name=f"user:{name}", roles=frozenset(roles), user_id=f"u_{name}", **changes)


ADA = person("ada", Role.APPROVER)
ROOT = Person(name="os:root", roles=frozenset(Role))
EMMA = person("emma", Role.USER)
MIGHTY_EMMA = person("emma", *Role)
SOURCE = Source(server="web", tool="fetch", record="r7", label=STRICTEST_DEFAULT)


def question(name: str = "a", **changes: Any) -> ApprovalRequest:
    made = ApprovalRequest(
        id=ApprovalId(name),
        fingerprint=Digest.of(name.encode()),
        scope=Digest.of(b"scope"),
        principal=f"{URL}|emma|c_1",
        subject="emma",
        user_id="u_emma",
        client_id="c_1",
        client_name="Agent",
        run=RunId("r_1"),
        target=Target(server=UpstreamId("mail"), kind=Kind.TOOL, name="send"),
        effect=Effect.EGRESS,
        pin_digest=Digest.of(b"pin"),
        carried=b'{"to":["eve@outside.example"]}',
        label=STRICTEST_DEFAULT,
        reasons=(Reason(code="outside", message="it leaves"),),
        evidence=("this address stands only in a mail from outside",),
        decision_id="d_1",
        policy_digest="sha256:policy",
        self_approval=False,
        question=b'{"phase":"call"}',
        asked_at=NOW,
        expires_at=NOW + 60,
    )
    return replace(made, **changes)


class Desk:
    def __init__(self) -> None:
        self.log = MemoryAuditLog()
        self.store = MemoryApprovalStore(ApprovalRules(expire_s=60.0))
        self.now = NOW
        self.lapsed = ""
        self.read = SOURCE
        """What the run of the question has read."""
        self.rules = ApprovalRules(expire_s=60.0, standing_s=1000.0)
        self.answers = MemoryStandingAnswers()
        self.claims = ProcessClaims(clock=lambda: self.now)
        self.approved = True
        self.absent = ""
        """Who of those whose calls an answer is for was not there since it was given."""
        self.barred: Sequence[str] = ()
        """Why the person of an answer is barred, one for each time that it is asked."""
        self.policy = Themselves()
        self.clients = MemoryClientStore()
        journal = new_journal(self.log)
        self.standing = StandingDesk(
            self.answers,
            self.store,
            journal,
            claims=self.claims,
            rules=lambda: self.rules,
            issuer=URL,
            clock=lambda: self.now,
            barred=self._barred,
            absent=lambda _: self.absent,
            approved=lambda _: self.approved,
        )
        self.desk = ApprovalDesk(
            self.store,
            journal,
            clients=self.clients,
            sources=lambda run: (self.read,) if run == "r_1" else (),
            issuer=URL,
            clock=lambda: self.now,
            lapsed=lambda _: self.lapsed,
            standing=self.standing,
            policy=self.policy,
        )

    async def _barred(self, _answer: StandingAnswer, _since: float) -> str:
        why, *later = *self.barred, ""
        self.barred = later
        return why

    async def ask(self, *names: str, **changes: Any) -> "Desk":
        for name in names or ("a",):
            await self.store.file(question(name, **changes))
        return self

    def state(self, name: str = "a") -> ApprovalState:
        found = self.store.get(ApprovalId(name), now=self.now)
        assert found is not None
        return found.state


async def allow(desk: Desk, who: Person, **more: Any) -> Mapping[str, Any]:
    return await desk.desk.allow(who, approval="a", **more)


async def test_a_question_is_listed_while_it_waits() -> None:
    desk = await Desk().ask("a", "b")
    await desk.desk.deny(ADA, approval="a")
    assert [row["id"] for row in await desk.desk.list(ADA)] == ["b"]
    rows = await desk.desk.list(ADA, all=True)
    assert [(row["id"], row["state"]) for row in rows] == [("b", "waiting"), ("a", "denied")]


async def test_what_waits_comes_first_and_then_the_newest() -> None:
    desk = await Desk().ask("a", "b", "c")
    await desk.ask("new", asked_at=NOW + 1, expires_at=NOW + 61)
    await desk.desk.deny(ADA, approval="new")
    rows = await desk.desk.list(ADA, all=True)
    assert [row["id"] for row in rows] == ["a", "b", "c", "new"]


async def test_a_question_to_which_no_answer_counts_says_why_and_takes_none() -> None:
    desk = await Desk().ask()
    desk.lapsed = "its run has ended"
    assert [row["void"] for row in await desk.desk.list(ADA)] == ["its run has ended"]
    assert desk.desk.waiting(ADA) == []
    for answer in (desk.desk.allow, desk.desk.deny):
        with pytest.raises(Denied, match="its run has ended"):
            await answer(ADA, approval="a")
    assert (desk.log.records, desk.state()) == ([], ApprovalState.WAITING)


@pytest.mark.parametrize(
    ("answered", "used", "after_s", "void"),
    [
        (False, False, 0, None),
        (False, False, 61, "nobody answered in time"),
        (True, False, 0, None),
        (True, False, 61, "the answer has run out"),
        (True, True, 0, "the yes was for one call, and that has gone out"),
    ],
)
async def test_what_has_ended_says_why(
    *, answered: bool, used: bool, after_s: float, void: str | None
) -> None:
    desk = await Desk().ask()
    if answered:
        await allow(desk, ADA)
    if used:
        assert await desk.store.use(ApprovalId("a"), now=NOW)
    desk.now += after_s
    assert [row["void"] for row in await desk.desk.list(ADA, all=True)] == [void]


async def test_a_question_is_shown_with_everything_it_says() -> None:
    desk = await Desk().ask()
    assert await desk.desk.show(ADA, approval="a") == {
        "id": "a",
        "state": "waiting",
        "server": "mail",
        "kind": "tool",
        "name": "send",
        "effect": "egress",
        "subject": "emma",
        "client_id": "c_1",
        "client": "Agent",
        "run": "r_1",
        "codes": ["outside"],
        "asked": 1,
        "asked_at": NOW_TEXT,
        "expires_at": "2027-01-15T08:01:00.000Z",
        "self_approval": False,
        "by": None,
        "answered_at": None,
        "span": None,
        "url": None,
        "void": None,
        "stands_until": None,
        "note": "",
        "principal": f"{URL}|emma|c_1",
        "withheld": None,
        "arguments": {"to": ["eve@outside.example"]},
        "label": {"integrity": "untrusted", "confidentiality": "private"},
        "sources": [{"server": "web", "tool": "fetch", "record": "r7"}],
        "evidence": ["this address stands only in a mail from outside"],
        "reasons": [{"code": "outside", "message": "it leaves"}],
        "pin_digest": str(Digest.of(b"pin")),
        "decision_id": "d_1",
        "policy_digest": "sha256:policy",
        "may_stand": False,
        "follows": None,
        "follows_because": None,
    }


OTTO = person("otto", Role.AUDITOR)


async def test_whoever_sees_what_a_call_says_is_on_record() -> None:
    desk = await Desk().ask()
    await desk.desk.show(ADA, approval="a")
    (record,) = desk.log.records
    assert (record.fields["principal"], record.fields["method"], record.fields["code"]) == (
        "user:ada",
        "approvals.show",
        "read",
    )
    assert "eve@outside.example" not in str(record.fields)


async def test_what_a_call_says_is_told_only_once_that_is_on_record() -> None:
    desk = await Desk().ask()
    desk.log.failure = "disk full"
    with pytest.raises(AuditUnavailable):
        await desk.desk.show(ADA, approval="a")


@pytest.mark.parametrize("who", [OTTO, EMMA], ids=["auditor", "whose call it is"])
async def test_who_may_not_answer_does_not_see_what_the_call_says(who: Person) -> None:
    desk = await Desk().ask()
    row = await desk.desk.show(who, approval="a")
    assert (row["arguments"], row["evidence"]) == (None, [])
    assert "user:" in row["withheld"] or "somebody else's answer" in row["withheld"]
    assert "eve@outside.example" not in str(row)
    assert desk.log.records == []


@pytest.mark.parametrize("name", ["notes://by/Merger", "['by/Merger']"])
async def test_who_may_not_answer_does_not_see_what_an_earlier_call_said(name: str) -> None:
    desk = await Desk().ask()
    desk.read = replace(SOURCE, tool=name)
    row = await desk.desk.show(OTTO, approval="a")
    assert row["sources"] == [{"server": "web", "tool": "a resource", "record": "r7"}]
    row = await desk.desk.show(ADA, approval="a")
    assert row["sources"] == [{"server": "web", "tool": name, "record": "r7"}]


async def test_once_it_is_answered_nobody_sees_what_the_call_says() -> None:
    desk = await Desk().ask()
    await desk.desk.deny(ADA, approval="a")
    row = await desk.desk.show(ADA, approval="a")
    assert (row["arguments"], row["withheld"]) == (
        None,
        "this question waits no more: it is denied",
    )


async def test_an_approver_says_yes_and_it_is_on_the_record_first() -> None:
    desk = await Desk().ask()
    row = await allow(desk, ADA, note="it is hers")
    assert (row["state"], row["by"], row["span"]) == ("allowed", "user:ada", "once")
    assert (row["note"], row["answered_at"]) == ("it is hers", NOW_TEXT)
    (record,) = desk.log.records
    assert record.kind == "approval"
    assert record.fields == {
        "principal": "user:ada",
        "roles": ["approver"],
        "method": "approvals.allow",
        "server": "mail",
        "target": "send",
        "pin_digest": str(Digest.of(b"pin")),
        "run": "r_1",
        "approval_id": "a",
        "decision_id": "d_1",
        "verdict": "allow",
        "code": "allowed",
        "reasons": [
            {"code": "allowed", "message": "mail/tool/send for emma"},
            {"code": "note", "message": "it is hers"},
        ],
    }


async def test_a_yes_for_the_run_says_so_on_the_record() -> None:
    desk = await Desk().ask()
    assert (await allow(desk, ADA, for_run=True))["span"] == "run"
    assert [reason["code"] for reason in desk.log.records[0].fields["reasons"]] == [
        "allowed",
        "span",
    ]


@pytest.mark.parametrize("verb", ["allow", "deny"])
async def test_an_answer_that_cannot_be_recorded_is_none(verb: str) -> None:
    desk = await Desk().ask()
    desk.log.failure = "disk full"
    with pytest.raises(AuditUnavailable):
        await getattr(desk.desk, verb)(ADA, approval="a")
    assert desk.state() is ApprovalState.WAITING


async def test_a_no_stands() -> None:
    desk = await Desk().ask()
    assert (await desk.desk.deny(ADA, approval="a", note="never"))["state"] == "denied"
    assert desk.log.records[0].fields["code"] == "denied"


async def test_a_no_can_be_for_the_run() -> None:
    desk = await Desk().ask()
    row = await desk.desk.deny(ADA, approval="a", for_run=True)
    assert (row["state"], row["span"]) == ("denied", "run")


async def test_what_has_run_out_is_shown_as_that() -> None:
    desk = await Desk().ask()
    desk.now += 60
    assert (await desk.desk.show(ADA, approval="a"))["state"] == "expired"
    with pytest.raises(Denied, match="it is expired"):
        await allow(desk, ADA)
    assert desk.log.records == []


@pytest.mark.parametrize(
    "who",
    [
        EMMA,
        MIGHTY_EMMA,
        replace(MIGHTY_EMMA, user_id="u_emma2"),
        replace(MIGHTY_EMMA, name=f"user:{URL}|emma", user_id=""),
    ],
    ids=["a user", "an approver", "another account", "no account"],
)
async def test_the_person_whose_call_it_is_does_not_count(who: Person) -> None:
    desk = await Desk().ask()
    for verb in (desk.desk.allow, desk.desk.deny):
        with pytest.raises(Forbidden, match="your own call"):
            await verb(who, approval="a")
    assert (desk.state(), desk.log.records) == (ApprovalState.WAITING, [])


async def test_the_person_whose_call_it_is_counts_where_policy_says_so() -> None:
    desk = await Desk().ask(self_approval=True)
    assert (await allow(desk, EMMA))["by"] == "user:emma"


@pytest.mark.parametrize("says", [False, PolicyUnavailable("no answer")])
async def test_policy_is_asked_again_when_they_answer(says: bool | PolicyUnavailable) -> None:
    desk = await Desk().ask(self_approval=True)
    desk.policy.says = says
    for answer in (desk.desk.allow, desk.desk.deny):
        with pytest.raises(Forbidden, match="somebody else's answer"):
            await answer(EMMA, approval="a")
    assert (desk.log.records, desk.state()) == ([], ApprovalState.WAITING)
    assert (await allow(desk, ADA))["by"] == "user:ada"


async def test_where_policy_cannot_be_asked_again_only_others_answer() -> None:
    desk = await Desk().ask(self_approval=True, question=b"")
    with pytest.raises(Forbidden):
        await allow(desk, EMMA)


def by_itself(client_id: str) -> Mapping[str, Any]:
    principal = f"{URL}|{client_id}|{client_id}"
    return {"principal": principal, "subject": client_id, "user_id": "", "client_id": client_id}


@pytest.mark.parametrize(
    "made_by",
    [
        {"c_1": "user:ada"},
        {"c_1": "client:c_9", "c_9": "user:ada"},
        {"c_1": "os:ada"},
        {"c_1": "client:c_9", "c_9": "os:ada"},
    ],
    ids=["by herself", "by a program of hers", "before she was somebody", "by a program from then"],
)
async def test_who_registered_a_client_does_not_answer_for_it(made_by: Mapping[str, str]) -> None:
    desk = await Desk().ask(**by_itself("c_1"), may_stand=True)
    for id_, by in made_by.items():
        desk.clients.add(Client(id=id_, name=id_, created_at=NOW, created_by=by))
    ada = replace(ADA, os_user="ada")
    for answer in (
        desk.desk.allow(ada, approval="a"),
        desk.desk.allow(ada, approval="a", standing=True),
        desk.desk.deny(ada, approval="a"),
    ):
        with pytest.raises(Forbidden, match="a client that you registered"):
            await answer
    assert (desk.state(), desk.log.records) == (ApprovalState.WAITING, [])
    bob = person("bob", Role.APPROVER, os_user="bob")
    assert (await allow(desk, bob))["by"] == "user:bob"


async def test_a_client_that_nobody_knows_who_registered_is_anybodys_own() -> None:
    desk = await Desk().ask(**by_itself("c_1"))
    desk.clients.add(Client(id="c_1", name="c_1", created_at=NOW, created_by="client:c_9"))
    for answer in (desk.desk.allow(ADA, approval="a"), desk.desk.deny(ADA, approval="a")):
        with pytest.raises(Forbidden, match="nobody knows who registered"):
            await answer
    assert (desk.state(), desk.log.records) == (ApprovalState.WAITING, [])
    assert (await allow(desk, ROOT))["by"] == "os:root"


async def test_a_client_whose_registrar_was_removed_is_not_answered_for_by_its_person() -> None:
    desk = await Desk().ask(**by_itself("c_1"))
    desk.clients.add(Client(id="c_9", name="c_9", created_at=NOW, created_by="user:ada"))
    desk.clients.add(Client(id="c_1", name="c_1", created_at=NOW, created_by="client:c_9"))
    desk.clients.remove("c_9")
    with pytest.raises(Forbidden, match="a client that you registered"):
        await allow(desk, ADA)
    assert (await allow(desk, person("bob", Role.APPROVER)))["by"] == "user:bob"


async def test_who_registered_a_client_answers_for_what_it_does_for_others() -> None:
    desk = await Desk().ask()
    desk.clients.add(Client(id="c_1", name="Agent", created_at=NOW, created_by="user:ada"))
    assert (await allow(desk, ADA))["by"] == "user:ada"


async def test_who_owns_the_machine_is_told_from_nobody() -> None:
    desk = await Desk().ask(**by_itself("c_1"))
    desk.clients.add(Client(id="c_1", name="Agent", created_at=NOW, created_by="os:root"))
    assert (await allow(desk, ROOT))["by"] == "os:root"


@pytest.mark.parametrize("self_approval", [True, False])
async def test_a_question_about_somebody_elses_call_is_not_there_for_users(
    self_approval: bool,
) -> None:
    desk = await Desk().ask(self_approval=self_approval)
    bob = person("bob", Role.USER)
    assert await desk.desk.list(bob, all=True) == []
    for verb in (desk.desk.show, desk.desk.allow, desk.desk.deny):
        with pytest.raises(NotFound):
            await verb(bob, approval="a")


async def test_users_see_what_is_asked_about_their_own_calls() -> None:
    desk = await Desk().ask("a")
    await desk.ask("b", user_id="u_bob", principal=f"{URL}|bob|c_1", subject="bob")
    assert [row["id"] for row in await desk.desk.list(EMMA)] == ["a"]


async def test_auditors_see_everything_and_answer_nothing() -> None:
    desk = await Desk().ask(self_approval=True)
    auditor = person("otto", Role.AUDITOR)
    assert [row["id"] for row in await desk.desk.list(auditor)] == ["a"]
    with pytest.raises(Forbidden):
        await allow(desk, auditor)


async def test_which_resource_it_is_is_as_much_what_the_call_says_as_its_arguments() -> None:
    name = "crm://people/eve@outside.example"
    target = Target(server=UpstreamId("crm"), kind=Kind.RESOURCE, name=name)
    desk = await Desk().ask(target=target)
    auditor = person("otto", Role.AUDITOR)
    for who in (ADA, auditor, EMMA):
        assert [row["name"] for row in await desk.desk.list(who)] == ["a resource"]
    assert desk.log.records == []
    shown = [(await desk.desk.show(who, approval="a"))["name"] for who in (auditor, EMMA, ADA)]
    assert shown == ["a resource", "a resource", name]
    assert [one.fields["method"] for one in desk.log.records] == ["approvals.show"]
    assert (await allow(desk, ADA))["name"] == "a resource"
    assert (await desk.desk.show(ADA, approval="a"))["name"] == "a resource"


async def test_whoever_has_no_role_sees_nothing() -> None:
    desk = await Desk().ask()
    with pytest.raises(Forbidden):
        await desk.desk.list(person("sam"))
    with pytest.raises(Forbidden):
        await desk.desk.show(person("sam"), approval="a")


async def test_a_program_cannot_answer_whatever_its_roles() -> None:
    desk = await Desk().ask(self_approval=True)
    robot = Person(name="client:c_9", roles=frozenset(Role), how=How.TOKEN)
    with pytest.raises(Forbidden, match="only a person"):
        await allow(desk, robot)
    assert desk.state() is ApprovalState.WAITING


async def test_who_owns_the_machine_can_answer_without_an_account() -> None:
    assert (await allow(await Desk().ask(), ROOT))["by"] == "os:root"


async def test_a_question_is_answered_once() -> None:
    desk = await Desk().ask()
    await allow(desk, ADA)
    with pytest.raises(Denied, match="allowed"):
        await desk.desk.deny(ADA, approval="a")
    assert len(desk.log.records) == 1


async def test_a_question_that_has_run_out_is_not_answered() -> None:
    desk = await Desk().ask()
    desk.now += 60
    with pytest.raises(Denied, match="expired"):
        await allow(desk, ADA)
    assert desk.log.records == []


async def test_what_nobody_asked_is_not_found() -> None:
    with pytest.raises(NotFound):
        await allow(Desk(), ADA)
