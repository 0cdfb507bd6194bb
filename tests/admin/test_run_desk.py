"""What people see of runs, and what their word about one does."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.admin.person import How, Person, Role
from gateway.admin.runs import RunDesk
from gateway.domain.audit import RecordKind
from gateway.domain.identity import Client
from gateway.errors import (
    AuditUnavailable,
    BadCommand,
    Denied,
    Forbidden,
    NotFound,
    PolicyUnavailable,
)
from tests.admin.world import ADMIN, APPROVER, AUDITOR, NOW, STRANGER, USER, Runs, World

CALL = {
    "id": "1",
    "time": "2026-11-21T23:00:00Z",
    "kind": "outcome",
    "decision_id": "d_1",
    "server": "web",
    "target": "fetch",
    "effect": "read",
    "verdict": "allow",
}
NEW = {
    "run": "r_new",
    "integrity": "untrusted",
    "confidentiality": "private",
    "sources": 1,
    "part_of": None,
    "task": False,
    "live": True,
    "idle_s": 7,
}
LOWER: dict[str, Any] = {
    "run": "r_new",
    "seen_integrity": "untrusted",
    "seen_confidentiality": "private",
    "integrity": "trusted",
    "confidentiality": "private",
    "look": "0.first",
    "note": "I wrote that page",
}


class Desk(RunDesk):
    """A desk whose journal and runs can be looked at."""

    def __init__(self, records: list[dict[str, Any]] | None = None) -> None:
        self.world = World()
        self.runs = Runs()
        self.asked: list[tuple[str, int]] = []
        self.records = [CALL] if records is None else records
        self.questions: list[Mapping[str, Any]] = []
        self.themselves: bool | None = False
        super().__init__(
            self.runs,
            self._of_run,
            self.world.journal,
            clients=self.world.clients,
            policy=self,
            issuer="https://gate",
            clock=lambda: NOW,
        )

    async def self_approval(self, question: Mapping[str, Any]) -> bool:
        self.questions.append(question)
        if self.themselves is None:
            raise PolicyUnavailable("no usable answer")
        return self.themselves

    async def _of_run(self, run: str, most: int) -> list[dict[str, Any]]:
        self.asked.append((run, most))
        return self.records[-most:]

    @property
    def written(self) -> list[tuple[RecordKind, dict[str, Any]]]:
        return [(record.kind, dict(record.fields)) for record in self.world.log.records]


async def test_runs_are_listed_newest_first_with_their_labels() -> None:
    desk = Desk()
    assert await desk.list(USER, limit=1) == [NEW]
    assert await desk.list(USER, limit=-1) == []
    assert [row["run"] for row in await desk.list(USER)] == ["r_new", "r_old"]
    await desk.end(APPROVER, run="r_new")
    assert [row["run"] for row in await desk.list(USER, live=True)] == ["r_old"]
    assert [row["live"] for row in await desk.list(USER)] == [False, True]


async def test_a_run_is_shown_with_every_source_of_its_label_and_its_steps() -> None:
    desk = Desk()
    shown = await desk.show(AUDITOR, run="r_new")
    (step,) = shown.pop("steps")
    assert shown == {
        **NEW,
        "look": "0.first",
        "principals": [],
        "left_out": False,
        "because": ["This run has read what outsiders can write: web/fetch."],
        "sources": [
            {
                "server": "web",
                "tool": "fetch",
                "record": "r7",
                "integrity": "untrusted",
                "confidentiality": "private",
            }
        ],
    }
    assert (step["seq"], step["server"], step["target"]) == (1, "web", "fetch")
    assert desk.asked == [("r_new", 3000)]


async def test_a_run_that_only_the_log_remembers_still_has_its_story() -> None:
    shown = await Desk().show(AUDITOR, run="r_gone")
    assert (shown["live"], shown["look"], shown["sources"]) == (False, "", [])
    assert len(shown["steps"]) == 1
    with pytest.raises(NotFound):
        await Desk(records=[]).show(AUDITOR, run="r_gone")
    with pytest.raises(NotFound):
        await Desk(records=[]).picture(AUDITOR, run="r_gone")


async def test_a_story_that_is_too_long_says_so() -> None:
    desk = Desk([{**CALL, "id": str(n), "decision_id": f"d_{n}"} for n in range(3000)])
    shown = await desk.show(AUDITOR, run="r_new")
    assert (len(shown["steps"]), shown["left_out"]) == (1000, True)


async def test_a_picture_has_each_result_in_its_own_colour() -> None:
    drawn = await Desk().picture(APPROVER, run="r_new")
    assert drawn["run"] == "r_new"
    assert "url(#to-private)" in drawn["svg"]


async def test_a_person_ends_a_run_and_it_is_on_record_before() -> None:
    desk = Desk()
    assert await desk.end(ADMIN, run="r_new", note="new task") == {"run": "r_new", "ended": True}
    ((kind, fields),) = desk.written
    assert kind is RecordKind.RUN
    assert fields["run"] == "r_new"
    assert fields["label_before"] == {"integrity": "untrusted", "confidentiality": "private"}
    assert (fields["method"], fields["code"], fields["principal"]) == (
        "runs.end",
        "ended",
        "os:root",
    )
    assert [reason["message"] for reason in fields["reasons"]] == ["r_new", "new task"]
    with pytest.raises(Denied):
        await desk.end(ADMIN, run="r_new")
    with pytest.raises(NotFound):
        await desk.end(ADMIN, run="r_none")


async def test_a_person_vouches_for_what_they_saw_and_it_is_on_record_before() -> None:
    desk = Desk()
    label = {"integrity": "trusted", "confidentiality": "private"}
    assert await desk.relabel(APPROVER, **LOWER) == {"run": "r_new", **label}
    assert desk.runs.states["r_new"].run.label.words == label  # type: ignore[index]
    ((kind, fields),) = desk.written
    assert kind is RecordKind.RUN
    assert (fields["label_before"], fields["label_after"]) == (
        {"integrity": "untrusted", "confidentiality": "private"},
        label,
    )
    assert (fields["method"], fields["code"], fields["run"]) == (
        "runs.relabel",
        "relabelled",
        "r_new",
    )


async def test_what_cannot_be_recorded_is_not_done() -> None:
    desk = Desk()
    desk.world.log.failure = "disk full"
    with pytest.raises(AuditUnavailable):
        await desk.relabel(APPROVER, **LOWER)
    with pytest.raises(AuditUnavailable):
        await desk.end(APPROVER, run="r_new")
    assert desk.runs.states == Runs().states


async def test_a_label_that_was_raised_meanwhile_is_not_lowered_and_that_is_on_record() -> None:
    desk = Desk()
    with pytest.raises(Denied):
        await desk.relabel(APPROVER, **{**LOWER, "seen_confidentiality": "secret"})
    assert [fields["verdict"] for _, fields in desk.written] == ["allow", "deny"]
    with pytest.raises(NotFound):
        await desk.relabel(APPROVER, **{**LOWER, "run": "r_none"})


async def test_nobody_vouches_for_what_they_have_not_seen_and_that_is_on_record() -> None:
    desk = Desk()
    seen = {**LOWER, "look": (await desk.show(APPROVER, run="r_new"))["look"]}
    desk.runs.look = "0.second"
    with pytest.raises(Denied, match="has read something since you looked"):
        await desk.relabel(APPROVER, **seen)
    assert [fields["verdict"] for kind, fields in desk.written if kind is RecordKind.RUN] == [
        "allow",
        "deny",
    ]
    assert desk.runs.states == Runs().states


async def test_whoever_looks_sees_all_that_their_look_stands_for() -> None:
    """What comes in while they are shown the run came after it."""
    desk = Desk()

    async def meanwhile(run: str, most: int) -> list[dict[str, Any]]:
        desk.runs.look = "0.second"
        return [CALL]

    desk._records = meanwhile
    assert (await desk.show(APPROVER, run="r_new"))["look"] == "0.first"


@pytest.mark.parametrize(
    "changed",
    [
        {"integrity": "untrusted"},
        {"confidentiality": "secret"},
        {"integrity": "untrusted", "confidentiality": "secret"},
        {"note": " "},
    ],
    ids=["same", "higher", "only higher", "no note"],
)
async def test_a_persons_word_only_lowers_and_says_why(changed: dict[str, str]) -> None:
    desk = Desk()
    with pytest.raises(BadCommand):
        await desk.relabel(APPROVER, **{**LOWER, **changed})
    assert desk.written == []


async def test_who_may_do_what_with_runs() -> None:
    desk = Desk()
    for refused in (
        desk.list(STRANGER),
        desk.show(USER, run="r_new"),
        desk.picture(USER, run="r_new"),
        desk.end(AUDITOR, run="r_new"),
        desk.relabel(AUDITOR, **LOWER),
    ):
        with pytest.raises(Forbidden):
            await refused
    assert desk.runs.states == Runs().states


NOAH = Person(
    name="user:noah", roles=frozenset({Role.APPROVER, Role.ADMIN}), user_id="u_noah", how=How.TOKEN
)
FAR = "https://provider.example|noah"


@pytest.mark.parametrize(
    ("person", "whose"),
    [
        (NOAH, "https://gate|noah"),
        (replace(NOAH, how=How.SOCKET), "https://gate|noah"),
        (replace(NOAH, how=How.PAGE), "https://gate|noah"),
        (replace(NOAH, name=f"user:{FAR}"), FAR),
        (NOAH, None),
    ],
    ids=["token", "socket", "page", "of a provider", "nobody knows whose"],
)
@pytest.mark.parametrize("policy", [False, None], ids=["no", "no answer"])
async def test_nobody_speaks_for_a_run_of_their_own_calls(
    person: Person, whose: str | None, *, policy: bool | None
) -> None:
    desk = Desk()
    desk.themselves = policy
    desk.runs.whose["r_new"] = whose
    for refused in (desk.end(person, run="r_new"), desk.relabel(person, **LOWER)):
        with pytest.raises(Forbidden, match="somebody else's word"):
            await refused
    assert (desk.runs.states, desk.written) == (Runs().states, [])


async def test_nobody_speaks_for_a_run_of_a_client_that_they_registered() -> None:
    desk = Desk()
    desk.runs.whose["r_new"] = "https://gate|c_1"
    desk.world.clients.add(Client(id="c_1", name="agent", created_at=NOW, created_by="user:noah"))
    for refused in (desk.end(NOAH, run="r_new"), desk.relabel(NOAH, **LOWER)):
        with pytest.raises(Forbidden, match="a client that you registered"):
            await refused
    emma = replace(NOAH, name="user:emma", user_id="u_emma")
    assert (await desk.end(emma, run="r_new"))["ended"]


async def test_nobody_speaks_for_a_run_of_a_client_that_nobody_knows_who_registered() -> None:
    desk = Desk()
    desk.runs.whose["r_new"] = "https://gate|c_1"
    desk.world.clients.add(Client(id="c_1", name="agent", created_at=NOW, created_by="client:c_9"))
    for refused in (desk.end(NOAH, run="r_new"), desk.relabel(NOAH, **LOWER)):
        with pytest.raises(Forbidden, match="nobody knows whose"):
            await refused
    assert (await desk.end(ADMIN, run="r_new"))["ended"]


@pytest.mark.parametrize(
    ("person", "whose"),
    [
        (ADMIN, "https://gate|noah"),
        (ADMIN, None),
        (NOAH, "https://gate|emma"),
        (NOAH, FAR),
        (replace(NOAH, name=f"user:{FAR}"), "https://gate|noah"),
    ],
    ids=["the operator", "the operator, of nobody knows whose", "a colleague", "far", "near"],
)
async def test_somebody_else_speaks_for_it(person: Person, whose: str | None) -> None:
    desk = Desk()
    desk.runs.whose["r_new"] = whose
    await desk.relabel(person, **LOWER)
    await desk.end(person, run="r_new")
    assert desk.questions == []


async def test_where_policy_lets_people_answer_for_themselves_they_speak_for_their_runs() -> None:
    desk = Desk()
    desk.themselves = True
    await desk.relabel(NOAH, **LOWER)
    await desk.end(NOAH, run="r_new")
    assert [asked["method"] for asked in desk.questions] == ["runs.relabel", "runs.end"]
    asked = desk.questions[0]
    assert (asked["principal"]["sub"], asked["target"]["effect"]) == ("noah", "destroy")
    assert asked["flow"]["label"] == {"integrity": "untrusted", "confidentiality": "private"}


async def test_no_program_speaks_for_a_run() -> None:
    desk = Desk()
    desk.themselves = True
    program = Person(name="client:c_1", roles=NOAH.roles, how=How.TOKEN)
    for refused in (desk.end(program, run="r_new"), desk.relabel(program, **LOWER)):
        with pytest.raises(Forbidden, match="only a person"):
            await refused
    assert desk.runs.states == Runs().states
