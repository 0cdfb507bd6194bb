"""What lists cost, and which tools the log suggests to list always."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.admin import Admin
from gateway.admin.person import Person
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.tools import Kind, Profile, Target, UpstreamId
from gateway.errors import BadCommand, Forbidden
from gateway.storage.store import Store
from tests.admin.world import ADMIN, APPROVER, AUDITOR, NOW, STRANGER, USER, opened, sighting

CALLS = {"search": 6, "send": 3, "list": 1}
"""How often each tool is called."""


async def ask(admin: Admin, command: str, person: Person = AUDITOR, **arguments: Any) -> Any:
    answer: Any = admin.commands.run(person, command, json.dumps(arguments).encode())
    return await answer


async def approve(store: Store, name: str, server: str = "mail") -> None:
    target = Target(server=UpstreamId(server), kind=Kind.TOOL, name=name)
    pin = store.pins.find(target, Profile.MODERN)
    assert pin is not None
    expected = str(pin.observed.digest)
    await store.pins.approve(target, Profile.MODERN, expected=expected, by="emma", note="")


async def called(store: Store, *tools: str, days_ago: float = 1.0, **more: Any) -> None:
    """Write what a call of each tool of `mail` leaves behind when it goes out."""
    for tool in tools:
        fields = {"method": "tools/call", "server": "mail", "target": tool, "verdict": "allow"}
        await store.audit.append(_record(fields | more, days_ago))
    await store.caught_up()


NUMBERS = iter(range(10_000))


def _record(fields: Mapping[str, Any], days_ago: float) -> AuditRecord:
    kind = fields.get("kind", RecordKind.INTENT)
    rest = {key: member for key, member in fields.items() if key != "kind"}
    time = NOW - days_ago * 86_400
    return AuditRecord(kind=kind, time=time, id=f"r_{next(NUMBERS)}", fields=rest)


async def used(store: Store) -> None:
    for tool, times in CALLS.items():
        await approve(store, tool)
        await called(store, *[tool] * times)


TOOLS = [sighting(name) for name in CALLS]


def names(rows: Any) -> list[str]:
    return [row["name"] for row in rows]


async def test_the_fewest_tools_are_suggested_that_had_most_calls(tmp_path: Path) -> None:
    async with opened(tmp_path, seen=TOOLS) as (admin, store):
        await used(store)
        rows = await ask(admin, "discovery.suggest")
        assert rows == [
            {
                "name": "mail__search",
                "server": "mail",
                "tool": "search",
                "calls": 6,
                "share": 60.0,
                "tokens": 13,
                "core": True,
            },
            {
                "name": "mail__send",
                "server": "mail",
                "tool": "send",
                "calls": 3,
                "share": 30.0,
                "tokens": 13,
                "core": False,
            },
        ]
        everything = await ask(admin, "discovery.suggest", cover=100)
        assert names(everything) == ["mail__search", "mail__send", "mail__list"]
        assert names(await ask(admin, "discovery.suggest", cover=100, most=1)) == ["mail__search"]
        assert names(await ask(admin, "discovery.suggest", cover=60)) == ["mail__search"]


async def test_what_is_in_the_core_comes_first_in_its_order(tmp_path: Path) -> None:
    async with opened(tmp_path, seen=TOOLS) as (admin, store):
        for tool in CALLS:
            await approve(store, tool)
        await called(store, "search", "send", "send")
        assert names(await ask(admin, "discovery.suggest")) == ["mail__search", "mail__send"]


COUNTS_NOT: list[dict[str, Any]] = [
    {"kind": RecordKind.OUTCOME},
    {"verdict": "deny"},
    {"method": "prompts/get"},
    {"server": ""},
    {"server": "elsewhere"},
    {"target": "unknown"},
    {"target": "waits"},
]


@pytest.mark.parametrize("more", COUNTS_NOT, ids=str)
async def test_only_allowed_calls_of_approved_tools_count(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    async with opened(tmp_path, seen=[*TOOLS, sighting("waits")]) as (admin, store):
        await used(store)
        before = await ask(admin, "discovery.suggest")
        await called(store, *["list"] * 50, **more)
        assert await ask(admin, "discovery.suggest") == before


async def test_only_calls_since_a_time_count(tmp_path: Path) -> None:
    async with opened(tmp_path, seen=TOOLS) as (admin, store):
        await approve(store, "send")
        await called(store, "send", days_ago=40)
        assert await ask(admin, "discovery.suggest") == []
        assert names(await ask(admin, "discovery.suggest", since="41d")) == ["mail__send"]
        assert await ask(admin, "discovery.suggest", since="1s") == []


async def test_a_long_log_is_counted_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, seen=TOOLS) as (admin, store):
        await used(store)
        whole = await ask(admin, "discovery.suggest", cover=100)
        monkeypatch.setattr("gateway.admin.audit._COUNTED", 3)
        assert await ask(admin, "discovery.suggest", cover=100) == whole


@pytest.mark.parametrize(
    "wrong",
    [{"cover": 0.0}, {"cover": 101.0}, {"most": 0}, {"most": 1001}, {"since": "soon"}],
    ids=str,
)
async def test_what_makes_no_sense_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    async with opened(tmp_path) as (admin, _):
        with pytest.raises(BadCommand):
            await ask(admin, "discovery.suggest", **wrong)


@pytest.mark.parametrize(
    ("person", "may"), [(ADMIN, True), (APPROVER, False), (USER, False), (STRANGER, False)]
)
async def test_what_people_have_called_is_for_those_who_may_read_the_log(
    tmp_path: Path, person: Person, may: bool
) -> None:
    async with opened(tmp_path) as (admin, _):
        if may:
            assert await ask(admin, "discovery.suggest", person) == []
            return
        with pytest.raises(Forbidden):
            await ask(admin, "discovery.suggest", person)


async def test_the_core_is_listed_in_its_order_with_what_it_costs(tmp_path: Path) -> None:
    async with opened(tmp_path, seen=TOOLS) as (admin, store):
        unknown = {"name": "mail__gone", "status": "unknown", "tokens": None}
        pending = {"name": "mail__search", "status": "pending", "tokens": 13}
        assert await ask(admin, "discovery.core", USER) == [pending, unknown]
        await approve(store, "search")
        approved = {**pending, "status": "approved"}
        assert await ask(admin, "discovery.core", USER) == [approved, unknown]


async def test_a_list_costs_what_is_approved_of_each_server(tmp_path: Path) -> None:
    both = [sighting("send", profile=profile) for profile in Profile]
    longer = sighting("send", "Sends mail." * 10, profile=Profile.LEGACY)
    seen = [*TOOLS, *both, sighting("a", server="other"), sighting("send", kind=Kind.PROMPT)]
    async with opened(tmp_path, seen=[*seen, longer]) as (admin, store):
        empty = {"server": "files", "tools": 0, "tokens": 0}
        assert await ask(admin, "discovery.tokens", USER) == [
            empty,
            {"server": "mail", "tools": 0, "tokens": 0},
        ]
        await approve(store, "send")
        await approve(store, "search")
        octets = len('{"name":"mail__send","description":"Sends mail."}') * 2 + len("arch") - 2
        cost = {"server": "mail", "tools": 2, "tokens": -(-octets // 4)}
        assert await ask(admin, "discovery.tokens", USER) == [empty, cost]


@pytest.mark.parametrize("command", ["core", "tokens"])
async def test_nobody_without_a_role_sees_what_there_is(tmp_path: Path, command: str) -> None:
    async with opened(tmp_path) as (admin, _):
        with pytest.raises(Forbidden):
            await ask(admin, f"discovery.{command}", STRANGER)
