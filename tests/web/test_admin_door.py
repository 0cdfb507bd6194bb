"""The admin socket: closed to others from its first moment, and the kernel says who asks."""

import asyncio
import json
import os
import pwd
import socket
import stat
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.admin.commands import Commands
from gateway.admin.person import EVERY_ROLE, Person
from gateway.errors import ConfigError, Denied
from gateway.web import door
from gateway.web.door import admin_door, person_of
from tests.admin.world import World, principal, user


class Desk:
    """Two commands: one that answers, one that streams until nobody listens."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    async def whoami(self, person: Person, *, shout: bool = False) -> dict[str, Any]:
        if shout:
            raise Denied("not so loud", reasons=[("loud", "it is late")])
        return {"name": person.name, "roles": sorted(person.roles)}

    async def count(self, person: Person, *, to: int) -> AsyncGenerator[int, None]:
        for number in range(to):
            yield number
        if to > 2:
            try:
                await asyncio.Event().wait()
            finally:
                self.ended.set()


class Peer:
    """One connection to the door."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, line: bytes) -> Any:
        self._writer.write(line + b"\n")
        await self._writer.drain()
        return await self.answer()

    async def answer(self) -> Any:
        line = await self._reader.readline()
        return json.loads(line) if line else None

    async def hang_up(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


@asynccontextmanager
async def visited(
    folder: Path, desk: Desk | None = None, world: World | None = None
) -> AsyncIterator[Peer]:
    desk, people = desk or Desk(), (world or World()).people
    commands = Commands({"whoami": desk.whoami, "count": desk.count}, forbidden=people.forbidden)
    async with admin_door(folder, commands, people) as path:
        peer = Peer(*await asyncio.open_unix_connection(path))
        try:
            yield peer
        finally:
            await peer.hang_up()


async def test_the_owner_of_the_data_has_every_role_by_the_kernels_word(tmp_path: Path) -> None:
    async with visited(tmp_path) as peer:
        answer = await peer.ask(b'{"command": "whoami"}')
        me = person_of(os.getuid(), tmp_path, World().people)
        assert answer == {"ok": True, "result": {"name": me.name, "roles": sorted(EVERY_ROLE)}}


async def test_a_refused_command_is_on_record(tmp_path: Path) -> None:
    world = World()
    async with visited(tmp_path, world=world) as peer:
        for line in (b'{"command": "nothing"}', b'{"command": "count", "arguments": {"x": 1}}'):
            answer = await peer.ask(line)
            assert (answer["ok"], answer["code"]) == (False, "bad_command")
    codes = [orjson.loads(entry.body)["code"] for entry in world.log.entries]
    assert codes == ["bad_command", "bad_command"]


async def test_another_user_of_the_machine_has_no_role(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "_peer_uid", lambda _: 65534)
    async with visited(tmp_path) as peer:
        answer = await peer.ask(b'{"command": "whoami"}')
        assert answer["result"]["roles"] == []


@pytest.mark.parametrize(
    ("uid", "owner", "roles"),
    [
        (0, 1000, EVERY_ROLE),
        (1000, 1000, EVERY_ROLE),
        (1001, 1000, frozenset()),
        (None, 0, frozenset()),
    ],
)
def test_roles_follow_the_data_directorys_owner(
    uid: int | None, owner: int, roles: frozenset[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    owned = os.stat_result([0o700, 1, 1, 1, owner, owner, 0, 0, 0, 0])
    people = World().people
    monkeypatch.setattr(Path, "stat", lambda _: owned)
    assert person_of(uid, Path("/data"), people).roles == roles


def test_a_user_without_a_name_is_recorded_by_number(tmp_path: Path) -> None:
    people = World().people
    assert person_of(3_000_000, tmp_path, people).name == "os:3000000"
    assert person_of(None, tmp_path, people).name == "os:unknown"


async def test_a_visitor_is_the_person_of_their_operating_systems_user(tmp_path: Path) -> None:
    world = World()
    me = pwd.getpwuid(os.getuid()).pw_name
    world.users.add(user(os_user=me))
    async with visited(tmp_path, world=world) as peer:
        answer = await peer.ask(b'{"command": "whoami"}')
        assert answer["result"] == {"name": "user:emma", "roles": ["user"]}
        world.users.change("u_emma", groups=frozenset({"auditors"}), at=0)
        answer = await peer.ask(b'{"command": "whoami"}')
        assert answer["result"] == {"name": "user:emma", "roles": ["auditor"]}


async def test_a_token_says_who_asks_whoever_is_at_the_other_end(tmp_path: Path) -> None:
    world = World()
    world.users.add(user(groups=frozenset({"auditors"})))
    world.tokens.held["good"] = principal()
    async with visited(tmp_path, world=world) as peer:
        answer = await peer.ask(b'{"command": "whoami", "token": "good"}')
        assert answer["result"] == {"name": "user:emma", "roles": ["auditor"]}


@pytest.mark.parametrize(
    ("token", "code"),
    [
        (b'"bad"', "unauthenticated"),
        (b'""', "unauthenticated"),
        (b'"narrow"', "insufficient_scope"),
        (b"null", "bad_command"),
        (b"1", "bad_command"),
    ],
)
async def test_a_token_that_is_none_does_not_fall_back_to_the_peer(
    tmp_path: Path, token: bytes, code: str
) -> None:
    world = World()
    world.tokens.held["narrow"] = principal(scopes=frozenset())
    async with visited(tmp_path, world=world) as peer:
        answer = await peer.ask(b'{"command": "whoami", "token": %s}' % token)
        assert (answer["ok"], answer["code"]) == (False, code)
        assert (await peer.ask(b'{"command": "whoami"}'))["ok"] is True


@contextmanager
def wide_umask() -> Iterator[None]:
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


async def test_the_socket_is_closed_to_others_from_the_moment_it_is_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[int] = []
    bind = socket.socket.bind

    class Watched(socket.socket):
        def bind(self, address: Any) -> None:
            bind(self, address)
            modes.append(stat.S_IMODE(Path(address).stat().st_mode))

    with wide_umask():
        monkeypatch.setattr(socket, "socket", Watched)
        async with admin_door(
            tmp_path, Commands({}, forbidden=World().people.forbidden), World().people
        ) as path:
            monkeypatch.undo()
            assert path == tmp_path / "douane.sock"
            assert os.umask(0) == 0
    assert modes == [0o600]
    assert not path.exists()


async def test_a_dead_gateways_socket_is_replaced(tmp_path: Path) -> None:
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(tmp_path / "douane.sock"))
    dead.close()
    async with visited(tmp_path) as peer:
        assert (await peer.ask(b'{"command": "whoami"}'))["ok"] is True


async def test_a_file_in_the_way_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "douane.sock").write_text("precious")
    with pytest.raises(ConfigError, match="in the way"):
        async with admin_door(
            tmp_path, Commands({}, forbidden=World().people.forbidden), World().people
        ):
            pass
    assert (tmp_path / "douane.sock").read_text() == "precious"


async def test_a_path_too_long_for_a_socket_and_a_missing_folder_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="too long"):
        async with admin_door(
            tmp_path / ("x" * 100), Commands({}, forbidden=World().people.forbidden), World().people
        ):
            pass
    with pytest.raises(ConfigError, match="cannot be made"):
        async with admin_door(
            tmp_path / "x", Commands({}, forbidden=World().people.forbidden), World().people
        ):
            pass


async def test_a_refusal_comes_with_its_code_and_reasons_and_the_door_stays_open(
    tmp_path: Path,
) -> None:
    async with visited(tmp_path) as peer:
        assert await peer.ask(b'{"command": "whoami", "arguments": {"shout": true}}') == {
            "ok": False,
            "code": "denied",
            "message": "not so loud",
            "reasons": [{"code": "loud", "message": "it is late"}],
        }
        assert (await peer.ask(b'{"command": "whoami"}'))["ok"] is True


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"nonsense",
        b"[]",
        b'{"command": 1}',
        b'{"arguments": {}}',
        b'{"command": "whoami", "arguments": []}',
        b'{"command": "whoami", "person": "root"}',
        b'{"command": "whoami", "arguments": {"person": "root"}}',
        b'{"command": "unknown"}',
        b'{"command": "count"}',
    ],
)
async def test_what_is_no_request_is_a_bad_command_and_on_record(
    tmp_path: Path, line: bytes
) -> None:
    world = World()
    async with visited(tmp_path, world=world) as peer:
        answer = await peer.ask(line)
        assert (answer["ok"], answer["code"]) == (False, "bad_command")
    me = person_of(os.getuid(), tmp_path, world.people)
    (record,) = world.written
    assert (record["principal"], record["verdict"], record["code"]) == (
        me.name,
        "deny",
        "bad_command",
    )


async def test_what_is_no_request_and_cannot_be_recorded_says_so(tmp_path: Path) -> None:
    world = World()
    world.log.failure = "full"
    async with visited(tmp_path, world=world) as peer:
        assert (await peer.ask(b"nonsense"))["code"] == "audit_unavailable"


async def test_a_request_without_end_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "LARGEST_REQUEST_BYTES", 1024)
    world = World()
    async with visited(tmp_path, world=world) as peer:
        answer = await peer.ask(b"x" * 4000)
        assert (answer["ok"], answer["message"]) == (False, "the request is too large")
        assert await peer.answer() is None
    assert [one["code"] for one in world.written] == ["bad_command"]


async def test_a_stream_says_more_until_its_last_line(tmp_path: Path) -> None:
    async with visited(tmp_path) as peer:
        answers = [await peer.ask(b'{"command": "count", "arguments": {"to": 2}}')]
        answers += [await peer.answer(), await peer.answer()]
        assert answers == [
            {"ok": True, "more": True, "result": 0},
            {"ok": True, "more": True, "result": 1},
            {"ok": True, "result": None},
        ]
        assert (await peer.ask(b'{"command": "whoami"}'))["ok"] is True


async def test_a_quiet_stream_ends_when_its_listener_hangs_up(tmp_path: Path) -> None:
    desk = Desk()
    async with visited(tmp_path, desk) as peer:
        assert (await peer.ask(b'{"command": "count", "arguments": {"to": 3}}'))["result"] == 0
        assert [(await peer.answer())["result"] for _ in range(2)] == [1, 2]
        await peer.hang_up()
        await desk.ended.wait()


async def test_closing_the_door_ends_streams(tmp_path: Path) -> None:
    desk = Desk()
    async with visited(tmp_path, desk) as peer:
        await peer.ask(b'{"command": "count", "arguments": {"to": 3}}')
        assert [(await peer.answer())["result"] for _ in range(2)] == [1, 2]
    await desk.ended.wait()
