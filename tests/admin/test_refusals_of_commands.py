"""Every command of every door, each by each way to be refused: one record, and nothing without one."""

import enum
import types
import typing
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any, Literal

import orjson
import pytest
from pydantic import BaseModel

from gateway.admin import Admin
from gateway.admin.commands import Commands
from gateway.admin.journal import Journal
from gateway.admin.person import Person
from gateway.domain.audit import AuditRecord
from gateway.errors import AuditUnavailable, BadCommand, GatewayError, Unauthenticated
from tests.admin.world import ADMIN, STRANGER, opened

FOR_ANYBODY = {"whoami"}
"""What says no more than who asks."""
LOOKS = {
    *("alerts.list", "alerts.state", "approvals.list", "approvals.standing", "approvals.suggest"),
    *("audit.evidence", "audit.exports", "audit.holds", "audit.lag", "audit.questions"),
    *("audit.verified", "clients.list", "clients.names", "connections.list", "consents.list"),
    *("discovery.core", "discovery.suggest", "discovery.tokens", "grants.list", "keys.list"),
    *("pins.check", "pins.export", "pins.list", "pins.review", "policy.rules", "policy.status"),
    *("policy.stopped", "runs.list", "runs.programs", "servers.list", "servers.suggest_labels"),
    *("sessions.list", "usage.list", "users.list", "waiting.counts"),
}
"""What shows nothing of the record and changes nothing: docs/audit.md, "Not recorded"."""
SAYS_SO = {"audit.verify"}
"""A log that cannot be written can still be computed again; the answer says that no record was made."""


def some(hint: Any) -> Any:
    """Return something that is of the kind `hint`, as JSON has it."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return least(hint)
    if origin in {types.UnionType, typing.Union}:
        return some(inner[0])
    found: Any = {str: "7d", int: 1, bool: False, float: 1.0, Any: "7d"}.get(hint)
    if origin is Literal:
        found = inner[0]
    elif isinstance(hint, type) and issubclass(hint, enum.Enum):
        found = next(iter(hint)).value
    elif (origin or hint) in {dict, Mapping}:
        found = {}
    elif found is None:
        found = []
    return found


def least(model: type[BaseModel]) -> Mapping[str, Any]:
    required = {name: one for name, one in model.model_fields.items() if one.is_required()}
    return {name: some(one.annotation) for name, one in required.items()}


def names_of(commands: Commands) -> list[str]:
    return sorted(commands._acts)


async def given(commands: Commands, person: Person, name: str, body: bytes) -> None:
    """Give a command as every door does, to its end."""
    answer = commands.run(person, name, body)
    if isinstance(answer, AsyncGenerator):
        async for _ in answer:
            break
        await answer.aclose()
    else:
        await answer


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    """What is written by whoever acts."""
    found: list[Mapping[str, Any]] = []
    before = Journal._append

    async def append(journal: Journal, kind: Any, fields: Mapping[str, Any]) -> Any:
        found.append(fields)
        return await before(journal, kind, fields)

    monkeypatch.setattr(Journal, "_append", append)
    return found


async def refused(admin: Admin, person: Person, name: str, body: bytes) -> GatewayError | None:
    """Return why, as a door has it: once that is on record."""
    try:
        await given(admin.commands, person, name, body)
    except GatewayError as error:
        await admin.people.refused(person, name, error)
        return error
    return None


async def test_whoever_has_no_role_is_refused_every_command_on_record(
    tmp_path: Path, told: list[Mapping[str, Any]]
) -> None:
    async with opened(tmp_path) as (admin, _):
        for name in names_of(admin.commands):
            if name in FOR_ANYBODY:
                continue
            told.clear()
            body = orjson.dumps(least(admin.commands._named(name).arguments))
            assert await refused(admin, STRANGER, name, body) is not None, name
            kept = [(one["principal"], one["method"], one["verdict"]) for one in told]
            assert kept == [(STRANGER.name, name, "deny")], name


@pytest.mark.parametrize("body", [b"", b"[]", b'{"no_such": 1}'])
async def test_arguments_that_are_none_are_refused_on_record_by_every_command(
    tmp_path: Path, told: list[Mapping[str, Any]], body: bytes
) -> None:
    async with opened(tmp_path) as (admin, _):
        for name in names_of(admin.commands):
            told.clear()
            assert await refused(admin, ADMIN, name, body) is not None, name
            assert [(one["method"], one["code"]) for one in told] == [(name, "bad_command")], name


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        (
            "policy.stop",
            {"note": "", "['a']" * 200_000: 1},
            "\u2026: Extra inputs are not permitted",
        ),
        (
            "pins.approve",
            {"server": "mail", "reviewed": [], **{f"x{at}": 0 for at in range(12)}},
            "; ".join(
                [f"x{at}: Extra inputs are not permitted" for at in range(10)]
                + ["12 problems in all"]
            ),
        ),
        (
            "pins.approve",
            {"server": "mail", "reviewed": [], **{f"x{at}": 0 for at in range(50_000)}},
            "50000 problems in all",
        ),
        (
            "pins.approve",
            {"server": "mail", "reviewed": [0] * 50_000},
            "reviewed.0: Input should be an object",
        ),
        (
            "users.change",
            {"user": "ann", "groups": ["g"] * 10_001},
            "groups: List should have at most 10000 items after validation, not 10001",
        ),
        (
            "clients.add",
            {
                "name": "a",
                "resources": [],
                "scopes": [],
                "jwks": {f"{i}": 0 for i in range(10_001)},
            },
            "jwks: Dictionary should have at most 10000 items after validation, not more",
        ),
    ],
    ids=["a long name", "some problems", "many problems", "many wrong", "many", "many names"],
)
async def test_arguments_are_refused_in_few_words_however_much_they_are(
    tmp_path: Path, name: str, arguments: Any, said: str
) -> None:
    async with opened(tmp_path) as (admin, _):
        error = await refused(admin, ADMIN, name, orjson.dumps(arguments))
    assert error is not None
    assert error.public == f"{name}: {said}"


async def test_no_list_or_mapping_that_a_command_takes_may_have_any_number_of_members(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as (admin, _):
        models = {name: admin.commands._named(name).arguments for name in names_of(admin.commands)}
    loose = {
        f"{name} {part}"
        for name, model in models.items()
        for part, said in model.model_json_schema().get("properties", {}).items()
        for one in said.get("anyOf", [said])
        if one.get("type") in {"array", "object"} and not {"maxItems", "maxProperties"} & one.keys()
    }
    assert loose == set()


@pytest.mark.parametrize(
    ("note", "kept"),
    [
        ("a" * 8_192, "a" * 8_192),
        ("['a']" * 200_000, ("['a']" * 2_000)[:8_191] + "\u2026"),
        ("why " * 1_500 + "a" * 3_000, "why " * 1_499 + "why\u2026"),
        ("why\n" * 1_500 + "a" * 3_000, "why\n" * 1_499 + "why\u2026"),
        ("why: " + "a" * 8_190, "why: " + "a" * 8_186 + "\u2026"),
    ],
    ids=["short enough", "one word", "no part of a word", "nor of a line", "a word as long as all"],
)
async def test_what_people_say_at_length_is_cut_before_it_is_on_its_way_into_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, note: str, kept: str
) -> None:
    async with opened(tmp_path) as (admin, store):
        written: list[AuditRecord] = []
        append = store.audit.append

        async def noting(record: AuditRecord) -> Any:
            written.append(record)
            return await append(record)

        monkeypatch.setattr(store.audit, "append", noting)
        await given(admin.commands, ADMIN, "policy.stop", orjson.dumps({"note": note}))
        error = BadCommand("no", detail=note)
        await admin.people.refused(ADMIN, "policy.stop", error)
        await admin.people.unknown(Unauthenticated("no", detail=note), source_ip="")
        await admin.people.did(ADMIN, "policy.stop", "done", note)
    told = [{one["message"] for one in record.fields["reasons"]} for record in written]
    assert len(told) == 4
    assert [kept in each for each in told] == [True] * 4
    assert max(len(text) for each in told for text in each) <= 8_192


async def test_where_nothing_can_be_recorded_a_command_does_nothing_but_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: Any) -> Any:
        raise AuditUnavailable("full")

    monkeypatch.setattr(Journal, "_append", full)
    done = set()
    async with opened(tmp_path) as (admin, _):
        for name in names_of(admin.commands):
            body = orjson.dumps(least(admin.commands._named(name).arguments))
            try:
                await given(admin.commands, ADMIN, name, body)
            except GatewayError:
                continue
            except AttributeError:
                continue  # what this world has no files for
            done.add(name)
    assert done <= LOOKS | FOR_ANYBODY | SAYS_SO
