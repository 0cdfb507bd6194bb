"""The door for people on this machine: a unix socket on which the operating system says who asks.

A request is one line of JSON, `{"command", "arguments"}`, and perhaps a `token` of `douane login`,
which then says who asks instead; the answer is one line, `{"ok": true,
"result"}` or `{"ok": false, "code", "message", "reasons"}`. A command that streams answers with any
number of lines that also hold `"more": true` before the last.
"""

import asyncio
import os
import pwd
import socket
import stat
import struct
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import Any

import orjson

from gateway.admin.commands import Commands
from gateway.admin.people import People
from gateway.admin.person import Person
from gateway.domain._value import value
from gateway.errors import AuditUnavailable, BadCommand, ConfigError, GatewayError

SOCKET_NAME = "douane.sock"
LARGEST_REQUEST_BYTES = 32 << 20
"""A lock file with the definitions of some thousands of pins fits."""
_LONGEST_PATH_BYTES = 100
"""A little less than `sun_path` holds on any system (unix(7): 108, or 104 on macOS)."""
_ROOT = 0
_NO_REQUEST = "request"
"""How a record calls what names no command."""
_TURNS = 5
"""Turns of the event loop in which a connection that was just accepted becomes a visit, or one that
was just ended is closed."""


def person_of(uid: int | None, data_dir: Path, people: People) -> Person:
    """Return who the operating system's user `uid` is here; see `People.by_os_user`.

    A peer whose user is not known is nobody.
    """
    if uid is None:
        return people.by_os_user(None, owns_data=False)
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = str(uid)
    return people.by_os_user(name, owns_data=uid in {_ROOT, data_dir.stat().st_uid})


@asynccontextmanager
async def admin_door(data_dir: Path, commands: Commands, people: People) -> AsyncIterator[Path]:
    """Serve `commands` on the socket in `data_dir` while the context is open; gives its path.

    The caller holds the lock of `data_dir`, so a socket that is there already is a dead one's.

    Raises:
        ConfigError: The socket cannot be made.

    """
    path = data_dir / SOCKET_NAME
    door = _Door(data_dir, commands, people)
    server = await asyncio.start_unix_server(
        door.enter, sock=_listening(path), limit=LARGEST_REQUEST_BYTES
    )
    try:
        yield path
    finally:
        # Nobody finds the door any more; whoever stands in it goes in, before it is shut: a server
        # that is closed meanwhile loses the connection that it has just accepted.
        path.unlink(missing_ok=True)
        await _settle_connections()
        server.close()
        await door.close()
        await server.wait_closed()


def _listening(path: Path) -> socket.socket:
    if len(os.fsencode(path)) > _LONGEST_PATH_BYTES:
        raise ConfigError(
            "data_dir: its path is too long for a socket; choose a shorter one",
            problems=[f"{path} has more than {_LONGEST_PATH_BYTES} bytes"],
        )
    if path.exists() and not stat.S_ISSOCK(path.lstat().st_mode):
        raise ConfigError(f"{path} is in the way of the admin socket; remove it")
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # Bound under this mask the file is closed to others from its first moment on.
    before = os.umask(0o177)
    try:
        listener.bind(os.fspath(path))
    except OSError as error:
        listener.close()
        raise ConfigError(f"{path} cannot be made: {error.strerror}") from error
    finally:
        os.umask(before)
    return listener


@value
class _Request:
    command: str
    arguments: bytes
    """A JSON object."""
    token: str | None = field(repr=False)


class _Door:
    def __init__(self, data_dir: Path, commands: Commands, people: People) -> None:
        self._data_dir = data_dir
        self._commands = commands
        self._people = people
        self._visits: set[asyncio.Task[None]] = set()

    def enter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection, until it ends or the door closes."""
        visit = asyncio.create_task(self._visit(reader, writer))
        self._visits.add(visit)
        visit.add_done_callback(self._visits.discard)
        # Not in the visit itself: one that is cancelled before its first step never gets there.
        visit.add_done_callback(lambda _: writer.close())

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The peer goes away, or the gateway stops: there is nobody to tell.
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await self._answer_all(reader, writer)

    async def close(self) -> None:
        """Break off what is still being answered: streams have no end of their own."""
        visits = tuple(self._visits)
        for task in visits:
            task.cancel()
        await asyncio.gather(*visits, return_exceptions=True)
        await _settle_connections()

    async def _answer_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        uid = _peer_uid(writer)
        while True:
            try:
                line = await reader.readuntil(b"\n")
            except asyncio.LimitOverrunError:
                too_large = await self._unread(uid, BadCommand("the request is too large"))
                await _send(writer, _refusal(too_large))
                return
            try:
                await self._answer(uid, line, reader, writer)
            except GatewayError as error:
                await _send(writer, _refusal(error))

    async def _answer(
        self,
        uid: int | None,
        line: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        try:
            request = _request(line)
        except BadCommand as error:
            raise await self._unread(uid, error) from error
        # Asked anew for each request: a person's roles may have changed meanwhile.
        if request.token is None:
            person = person_of(uid, self._data_dir, self._people)
        else:
            person = await self._people.by_token(request.token)
        try:
            await self._obey(person, request, reader, writer)
        except GatewayError as error:
            await self._people.refused(person, request.command, error)
            raise

    async def _unread(self, uid: int | None, error: BadCommand) -> GatewayError:
        """Return the refusal of what is no request, once it is on record who said it."""
        peer = person_of(uid, self._data_dir, self._people)
        try:
            await self._people.refused(peer, _NO_REQUEST, error)
        except AuditUnavailable as fault:
            return fault
        return error

    async def _obey(
        self,
        person: Person,
        request: _Request,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        answer = self._commands.run(person, request.command, request.arguments)
        if not isinstance(answer, AsyncGenerator):
            await _send(writer, {"ok": True, "result": await answer})
            return
        async with aclosing(answer):
            await _relay(answer, reader, writer)
        await _send(writer, {"ok": True, "result": None})


async def _settle_connections() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)


async def _relay(
    items: AsyncGenerator[Any, None], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Send `items` as they come, until they end or the peer hangs up, which a quiet stream must
    notice; so a peer that sends anything meanwhile ends it as well.
    """
    gone = asyncio.ensure_future(reader.read(1))
    try:
        while True:
            coming = asyncio.ensure_future(anext(items, _END))
            try:
                await asyncio.wait({coming, gone}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await _settle(coming)
            if coming.cancelled() or (item := coming.result()) is _END:
                return
            await _send(writer, {"ok": True, "more": True, "result": item})
    finally:
        await _settle(gone)


async def _settle(task: "asyncio.Future[Any]") -> None:
    """Cancel `task` unless it is done, and return once it is."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


_END = object()


def _request(line: bytes) -> _Request:
    wrong = BadCommand('a request is one line: {"command": "...", "arguments": {...}}')
    try:
        request = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise wrong from error
    if not isinstance(request, dict) or not request.keys() <= {"command", "arguments", "token"}:
        raise wrong
    command, arguments = request.get("command"), request.get("arguments", {})
    token = request.get("token")
    if not isinstance(command, str) or not isinstance(arguments, dict):
        raise wrong
    # A token that is no text is not the same as none: that would be somebody else.
    if "token" in request and not isinstance(token, str):
        raise wrong
    return _Request(command=command, arguments=orjson.dumps(arguments), token=token)


async def _send(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    writer.write(orjson.dumps(message) + b"\n")
    await writer.drain()


def _refusal(error: GatewayError) -> dict[str, Any]:
    reasons = [{"code": code, "message": message} for code, message in error.reasons]
    return {"ok": False, "code": error.code, "message": error.public, "reasons": reasons}


def _peer_uid(writer: asyncio.StreamWriter) -> int | None:
    """Return the user at the other end, by the kernel's word (unix(7)); elsewhere than on Linux
    nobody is known.
    """
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    connection = writer.get_extra_info("socket")
    credentials = connection.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", credentials)
    return int(uid)
