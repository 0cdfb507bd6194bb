"""Runs, servers, keys and policy as people look at them; commands as doors run them."""

from pathlib import Path
from typing import Any

import pytest

from gateway.admin.commands import Commands
from gateway.admin.operations import KeyDesk, RunDesk, ServerDesk
from gateway.admin.person import Person
from gateway.admin.policy import PolicyDesk
from gateway.domain.tools import Kind
from gateway.errors import BadCommand, Forbidden, NotFound, PolicyUnavailable
from tests.admin.world import (
    AUDITOR,
    STRANGER,
    USER,
    Engine,
    Files,
    Runs,
    World,
    keys,
    opened,
    sighting,
    status,
)

QUESTION = {"target": {"effect": "read"}}


async def test_runs_are_listed_newest_first_with_their_labels() -> None:
    desk = RunDesk(Runs())
    newest = {
        "run": "r_new",
        "integrity": "untrusted",
        "confidentiality": "private",
        "sources": 1,
    }
    assert await desk.list(USER, limit=1) == [newest]
    assert [row["run"] for row in await desk.list(USER)] == ["r_new", "r_old"]


async def test_a_run_is_shown_with_every_source_of_its_label() -> None:
    desk = RunDesk(Runs())
    assert await desk.show(USER, run="r_new") == {
        "run": "r_new",
        "integrity": "untrusted",
        "confidentiality": "private",
        "sources": [
            {
                "server": "web",
                "tool": "fetch",
                "record": 7,
                "integrity": "untrusted",
                "confidentiality": "private",
            }
        ],
    }
    with pytest.raises(NotFound):
        await desk.show(USER, run="r_none")


async def test_servers_are_listed_with_how_many_pins_wait() -> None:
    world = World()
    await world.show(sighting("send"), sighting("read"), sighting("fetch", server="web"))
    assert await ServerDesk(status, world.pins).list(USER) == [
        {
            "server": "mail",
            "url": "http://127.0.0.1:9001/mcp",
            "status": "ok",
            "error": None,
            "pins": {"pending": 2, "approved": 0, "drifted": 0, "revoked": 0},
        }
    ]


async def test_the_policy_in_force_answers_and_nothing_is_done_with_it() -> None:
    desk = PolicyDesk(Engine(), Files())
    assert await desk.status(USER) == {"digest": "sha256:0123"}
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
    sound = PolicyDesk(Engine(), Files())
    assert await sound.check(USER) == {"ok": True, "problems": []}
    assert await sound.test(USER) == {"ok": True, "passed": 3, "failed": 0, "failures": []}
    broken = PolicyDesk(Engine(), Files(problems=["a.rego:1: no"], failures=["test_a"]))
    assert await broken.check(USER) == {"ok": False, "problems": ["a.rego:1: no"]}
    assert (await broken.test(USER))["ok"] is False
    untested = PolicyDesk(Engine(), Files(passed=0))
    assert (await untested.test(USER))["ok"] is False


async def test_who_has_no_role_sees_nothing() -> None:
    policy = PolicyDesk(Engine(), Files())
    for refused in (
        RunDesk(Runs()).list(STRANGER),
        RunDesk(Runs()).show(STRANGER, run="r_new"),
        ServerDesk(status, World().pins).list(STRANGER),
        KeyDesk(keys).list(STRANGER),
        policy.status(STRANGER),
        policy.check(STRANGER),
        policy.test(STRANGER),
        policy.eval(STRANGER, question=QUESTION),
    ):
        with pytest.raises(Forbidden):
            await refused


class Desk:
    async def greet(self, person: Person, *, name: str, kind: Kind = Kind.TOOL) -> str:
        return f"{person.name} {name} {kind}"


@pytest.fixture
def commands() -> Commands:
    return Commands({"greet": Desk().greet})


async def run(commands: Commands, command: str, arguments: bytes) -> Any:
    return await commands.run(USER, command, arguments)  # type: ignore[misc]


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


async def test_every_use_case_has_its_command(tmp_path: Path) -> None:
    async with opened(tmp_path) as (admin, _):
        with pytest.raises(BadCommand) as caught:
            admin.commands.run(USER, "", b"{}")
    assert caught.value.public.removeprefix("no such command; there are: ").split(", ") == [
        "audit.explain",
        "audit.export",
        "audit.hash",
        "audit.query",
        "audit.show",
        "audit.stats",
        "audit.tail",
        "audit.verify",
        "clients.add",
        "clients.list",
        "clients.remove",
        "keys.list",
        "pins.approve",
        "pins.check",
        "pins.diff",
        "pins.export",
        "pins.import",
        "pins.list",
        "pins.revoke",
        "pins.show",
        "policy.check",
        "policy.eval",
        "policy.status",
        "policy.test",
        "runs.list",
        "runs.show",
        "servers.list",
    ]
