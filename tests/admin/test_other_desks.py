"""Runs, servers, keys and policy as people look at them; commands as doors run them."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from gateway.admin.commands import Commands
from gateway.admin.operations import KeyDesk, KeyUse
from gateway.admin.person import Person, Role
from gateway.admin.policy import PolicyDesk
from gateway.admin.reaching import advised
from gateway.domain.tools import Kind
from gateway.errors import (
    AuditUnavailable,
    BadCommand,
    Denied,
    Forbidden,
    NotFound,
    PolicyUnavailable,
)
from tests.admin.world import (
    ADMIN,
    APPROVER,
    AUDITOR,
    STRANGER,
    USER,
    Engine,
    Files,
    Rotation,
    World,
    keys,
    opened,
    sighting,
)

QUESTION = {"target": {"effect": "read"}}


async def test_servers_are_listed_with_how_many_pins_wait() -> None:
    world = World()
    await world.show(sighting("send"), sighting("read"), sighting("fetch", server="web"))
    assert await world.server_desk.list(USER) == [
        {
            "server": "mail",
            "url": "http://127.0.0.1:9001/mcp",
            "status": "ok",
            "error": None,
            "registered": False,
            "pins": {"pending": 2, "approved": 0, "drifted": 0, "revoked": 0},
            "changed": {},
        }
    ]


async def test_a_server_is_registered_and_let_go_by_an_admin_and_on_record() -> None:
    world = World()
    credential = {"kind": "header", "value": "env:WEB"}
    added = await world.server_desk.add(
        ADMIN, name="web", url="https://web.example/mcp", credential=credential
    )
    assert added == {
        "server": "web",
        "url": "https://web.example/mcp",
        "registered": True,
        "pins": {"pending": 0, "approved": 0, "drifted": 0, "revoked": 0},
        "changed": {},
    }
    assert world.registry.kept == {
        "web": {"url": "https://web.example/mcp", "credential": credential}
    }
    assert (await world.server_desk.remove(ADMIN, name="web"))["registered"] is False
    assert world.registry.kept == {}
    with pytest.raises(NotFound):
        await world.server_desk.remove(ADMIN, name="web")
    told = [(one["kind"], one["method"], one["code"], one["server"]) for one in world.written]
    assert told == [
        ("config", "servers.add", "registered", "web"),
        ("config", "servers.remove", "removed", "web"),
        ("config", "servers.remove", "removed", "web"),
        ("config", "servers.remove", "not_found", "web"),
    ]


@pytest.mark.parametrize(
    ("url", "machine"),
    [
        ("https://bob:s3cret@web.example:8443/s3cret?s3cret#s3cret", ["https://web.example:8443"]),
        ("http://[::1]/mcp", ["http://[::1]"]),
        ("s3cret", []),
        ("s3cret://s3cret", []),
        ("https://web.example:s3cret/", []),
    ],
)
async def test_where_a_server_is_stands_in_the_record_and_nothing_secret_does(
    url: str, machine: list[str]
) -> None:
    world = World()
    await world.server_desk.add(ADMIN, name="web", url=url)
    (record,) = world.written
    assert [one["message"] for one in record["reasons"] if one["code"] == "address"] == machine
    assert "s3cret" not in str(record)


async def test_nobody_but_an_admin_registers_a_server() -> None:
    for person in (USER, AUDITOR, APPROVER, STRANGER):
        world = World()
        world.registry.kept["old"] = {}
        with pytest.raises(Forbidden):
            await world.server_desk.add(person, name="web", url="https://web.example/mcp")
        with pytest.raises(Forbidden):
            await world.server_desk.remove(person, name="old")
        assert world.registry.kept == {"old": {}}


async def test_whoever_approves_has_the_gateway_look_at_a_server_now() -> None:
    world = World()
    (first, *_) = await world.server_desk.list(ADMIN)
    name = str(first["server"])
    row = await world.server_desk.refresh(APPROVER, name=name)
    assert (row["server"], world.looked) == (name, [name])
    assert [(one["method"], one["code"]) for one in world.written] == [
        ("servers.refresh", "looked")
    ]
    with pytest.raises(NotFound):
        await world.server_desk.refresh(ADMIN, name="none")
    for person in (USER, AUDITOR, STRANGER):
        with pytest.raises(Forbidden):
            await world.server_desk.refresh(person, name=name)
    assert world.looked == [name]


async def test_a_server_that_cannot_be_recorded_is_not_registered() -> None:
    world = World()
    world.log.failure = "full"
    with pytest.raises(AuditUnavailable):
        await world.server_desk.add(ADMIN, name="web", url="https://web.example/mcp")
    assert world.registry.kept == {}


async def test_a_server_that_cannot_be_is_refused_on_record() -> None:
    world = World()
    world.registry.problem = "servers.web.url: write a URL"
    with pytest.raises(BadCommand):
        await world.server_desk.add(ADMIN, name="web", url="nonsense")
    assert [one["verdict"] for one in world.written] == ["allow", "deny"]


async def test_the_policy_in_force_answers_and_nothing_is_done_with_it() -> None:
    desk = PolicyDesk(Engine(), Files(), World().journal)
    assert await desk.status(USER) == {"digest": "sha256:0123", "candidate": "sha256:4567"}
    assert await desk.eval(AUDITOR, question=QUESTION) == {
        "decision_id": "d_1",
        "verdict": "allow",
        "reasons": [{"code": "rule", "message": "only reading"}],
        "obligations": [],
        "policy_digest": "sha256:0123",
    }
    with pytest.raises(PolicyUnavailable):
        await desk.eval(AUDITOR, question={})
    with pytest.raises(Forbidden):
        await desk.eval(USER, question=QUESTION)


async def test_policy_files_are_good_only_if_they_compile_and_have_tests_that_pass() -> None:
    sound = PolicyDesk(Engine(), Files(), World().journal)
    assert await sound.check(USER) == {"ok": True, "problems": [], "notices": []}
    assert await sound.test(USER) == {
        "ok": True,
        "passed": 3,
        "changed": 0,
        "failed": 0,
        "failures": [],
        "notices": [],
    }
    broken = PolicyDesk(
        Engine(), Files(problems=["a.rego:1: no"], failures=["test_a"]), World().journal
    )
    assert await broken.check(USER) == {
        "ok": False,
        "problems": ["a.rego:1: no"],
        "notices": [],
    }
    assert (await broken.test(USER))["ok"] is False
    untested = PolicyDesk(Engine(), Files(passed=0), World().journal)
    assert (await untested.test(USER))["ok"] is False


async def test_what_policy_is_asked_by_a_person_is_on_record_before_they_are_told() -> None:
    world = World()
    desk = PolicyDesk(Engine(), Files(failures=["test_a"]), world.journal)
    await desk.check(USER)
    await desk.test(USER)
    await desk.eval(AUDITOR, question=QUESTION)
    assert [(one["principal"], one["method"], one["reasons"]) for one in world.written] == [
        (USER.name, "policy.check", [{"code": "checked", "message": "0 problems, 0 notices"}]),
        (
            USER.name,
            "policy.test",
            [{"code": "tested", "message": "3 passed, 0 changed, 1 failed"}],
        ),
        (
            AUDITOR.name,
            "policy.eval",
            [{"code": "evaluated", "message": "allow by sha256:0123, as decision d_1"}],
        ),
    ]
    world.log.failure = "full"
    for unrecorded in (desk.check(USER), desk.test(USER), desk.eval(AUDITOR, question=QUESTION)):
        with pytest.raises(AuditUnavailable):
            await unrecorded


@pytest.mark.parametrize(
    ("why", "to_do"),
    [
        ("ConnectionRefusedError", "start the server"),
        ("gaierror", "mend the DNS"),
        ("SSLCertVerificationError", "trust its certificate"),
        ("SSLError", "no TLS"),
        ("OSError", "is it started"),
    ],
)
def test_whoever_cannot_be_reached_is_told_with_what_to_do(why: str, to_do: str) -> None:
    assert to_do in advised(f"modern: connection: ConnectFailed: {why}")
    assert advised("it speaks no revision") == "it speaks no revision"


async def test_who_has_no_role_sees_nothing() -> None:
    policy = PolicyDesk(Engine(), Files(), World().journal)
    for refused in (
        World().server_desk.list(STRANGER),
        KeyDesk(keys, Rotation(), World().journal).list(STRANGER),
        policy.status(STRANGER),
        policy.check(STRANGER),
        policy.test(STRANGER),
        policy.eval(STRANGER, question=QUESTION),
    ):
        with pytest.raises(Forbidden):
            await refused


@pytest.mark.parametrize("use", list(KeyUse))
async def test_a_key_is_replaced_by_an_admin_and_on_record(use: KeyUse) -> None:
    world = World()
    desk = KeyDesk(keys, world.rotation, world.journal)
    assert (await desk.rotate(ADMIN, use=use))["use"] == use.value
    assert world.rotation.asked == [use.value]
    assert [(record["method"], record["reasons"]) for record in world.written] == [
        ("keys.rotate", [{"code": "rotated", "message": f"{use.value} key"}])
    ]
    with pytest.raises(Forbidden):
        await desk.rotate(AUDITOR, use=use)
    assert world.rotation.asked == [use.value]


async def test_a_key_whose_successor_nobody_knows_yet_stays_and_that_is_on_record() -> None:
    world = World()
    world.rotation.problem = "the next key has not been published for an hour"
    with pytest.raises(Denied, match="for an hour"):
        await KeyDesk(keys, world.rotation, world.journal).rotate(ADMIN)
    assert [record["verdict"] for record in world.written] == ["allow", "deny"]


async def test_a_key_that_cannot_be_recorded_is_not_replaced() -> None:
    world = World()
    world.log.failure = "disk full"
    with pytest.raises(AuditUnavailable):
        await KeyDesk(keys, world.rotation, world.journal).rotate(ADMIN)
    assert world.rotation.asked == []


class Desk:
    async def greet(self, person: Person, *, name: str, kind: Kind = Kind.TOOL) -> str:
        return f"{person.name} {name} {kind}"


@pytest.fixture
def commands() -> Commands:
    return Commands({"greet": Desk().greet}, forbidden=World().people.forbidden)


async def run(commands: Commands, command: str, arguments: bytes) -> Any:
    return await commands.run(USER, command, arguments)  # type: ignore[misc]


class Refusing:
    """Use cases for which nobody has the role."""

    async def act(self, person: Person) -> None:
        person.need(Role.ADMIN)

    async def stream(self, person: Person) -> AsyncGenerator[int, None]:
        yield 1
        person.need(Role.ADMIN)


async def test_who_wants_what_their_roles_do_not_let_them_is_on_record() -> None:
    world, desk = World(), Refusing()
    table: dict[str, Any] = {"act": desk.act, "stream": desk.stream}
    commands = Commands(table, forbidden=world.people.forbidden)
    with pytest.raises(Forbidden):
        await run(commands, "act", b"{}")
    stream: Any = commands.run(USER, "stream", b"{}")
    assert await anext(stream) == 1
    with pytest.raises(Forbidden):
        await anext(stream)
    assert [
        (record["method"], record["principal"], record["verdict"], record["code"])
        for record in world.written
    ] == [(name, "os:uma", "deny", "forbidden") for name in ("act", "stream")]
    assert world.written[0]["roles"] == ["user"]
    world.log.failure = "the disk is full"
    with pytest.raises(AuditUnavailable):
        await run(commands, "act", b"{}")


async def test_a_command_gets_its_arguments_typed_and_its_defaults(commands: Commands) -> None:
    assert await run(commands, "greet", b'{"name": "x"}') == "os:uma x tool"
    assert await run(commands, "greet", b'{"name": "x", "kind": "prompt"}') == "os:uma x prompt"


@pytest.mark.parametrize(
    ("command", "arguments", "told"),
    [
        ("shout", b"{}", "no such command; there are: greet"),
        ("greet", b"{}", "greet: name: Field required"),
        ("greet", b'{"name": 1}', "greet: name: Input should be a valid string"),
        ("greet", b'{"name": "x", "kind": "y"}', "greet: kind: Input should be 'tool'"),
        ("greet", b'{"name": "x", "person": {}}', "greet: person: Extra inputs are not permitted"),
        ("greet", b"[]", "greet: : Input should be an object"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    commands: Commands, command: str, arguments: bytes, told: str
) -> None:
    with pytest.raises(BadCommand) as caught:
        commands.run(USER, command, arguments)
    assert caught.value.public.startswith(told)


@pytest.mark.parametrize(
    ("pairs", "told"),
    [
        ([("name", "x"), ("name", "y")], "greet: an argument is given twice"),
        ([("name", "x"), ("person", "root")], "greet: person: Extra inputs are not permitted"),
        ([("name", "x"), ("kind", "y")], "greet: kind: Input should be 'tool'"),
        ([], "greet: name: Field required"),
    ],
)
def test_a_query_that_does_not_fit_is_refused(
    commands: Commands, pairs: list[tuple[str, str]], told: str
) -> None:
    with pytest.raises(BadCommand) as caught:
        commands.run_query(USER, "greet", pairs)
    assert caught.value.public.startswith(told)


async def test_a_query_is_typed_like_an_object(commands: Commands) -> None:
    pairs = [("name", "x"), ("kind", "prompt")]
    told = await commands.run_query(USER, "greet", pairs)  # type: ignore[misc]
    assert told == "os:uma x prompt"


async def test_what_only_reads_is_told_apart_from_what_changes(tmp_path: Path) -> None:
    async with opened(tmp_path) as (admin, _):
        found = {name: admin.commands.reads(name) for name in ("users.list", "users.add", "none")}
    assert found == {"users.list": True, "users.add": False, "none": None}
    assert (
        Commands({"greet": Desk().greet}, forbidden=World().people.forbidden).reads("greet")
        is False
    )


async def test_every_use_case_has_its_command(tmp_path: Path) -> None:
    async with opened(tmp_path) as (admin, _):
        with pytest.raises(BadCommand) as caught:
            admin.commands.run(USER, "", b"{}")
    assert caught.value.public.removeprefix("no such command; there are: ").split(", ") == [
        "alerts.list",
        "alerts.state",
        "alerts.test",
        "approvals.allow",
        "approvals.deny",
        "approvals.end",
        "approvals.list",
        "approvals.show",
        "approvals.standing",
        "approvals.suggest",
        "audit.archive",
        "audit.ask",
        "audit.bundle",
        "audit.evidence",
        "audit.explain",
        "audit.export",
        "audit.exports",
        "audit.exports.forget",
        "audit.exports.skip",
        "audit.hash",
        "audit.hold",
        "audit.holds",
        "audit.lag",
        "audit.prune",
        "audit.query",
        "audit.questions",
        "audit.records",
        "audit.release",
        "audit.show",
        "audit.stats",
        "audit.tail",
        "audit.verified",
        "audit.verify",
        "clients.add",
        "clients.list",
        "clients.names",
        "clients.remove",
        "clients.show",
        "connections.disconnect",
        "connections.list",
        "consents.list",
        "consents.withdraw",
        "discovery.core",
        "discovery.suggest",
        "discovery.tokens",
        "grants.list",
        "grants.revoke",
        "keys.list",
        "keys.rotate",
        "pins.approve",
        "pins.check",
        "pins.diff",
        "pins.export",
        "pins.import",
        "pins.list",
        "pins.review",
        "pins.revoke",
        "pins.show",
        "policy.check",
        "policy.eval",
        "policy.explain",
        "policy.go",
        "policy.replay",
        "policy.rules",
        "policy.status",
        "policy.stop",
        "policy.stopped",
        "policy.test",
        "runs.end",
        "runs.list",
        "runs.picture",
        "runs.programs",
        "runs.relabel",
        "runs.revoke",
        "runs.show",
        "servers.add",
        "servers.list",
        "servers.refresh",
        "servers.remove",
        "servers.suggest_labels",
        "sessions.end",
        "sessions.list",
        "usage.list",
        "users.add",
        "users.change",
        "users.disable",
        "users.enable",
        "users.link",
        "users.list",
        "users.remove",
        "waiting.counts",
        "whoami",
    ]
