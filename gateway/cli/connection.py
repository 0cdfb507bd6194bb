"""How a command reaches the gateway: over its socket, or, when none runs, into its files."""

import asyncio
import json
import os
import socket
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, Any, Protocol

from gateway.admin.commands import Commands
from gateway.admin.person import Person
from gateway.cli.failure import NO, Failed
from gateway.cli.tokens import current_token
from gateway.config import Config
from gateway.errors import BadCommand, DirectoryInUse, GatewayError
from gateway.web.door import SOCKET_NAME, person_of

_PATIENCE_S = 15.0
_PAUSE_S = 0.2

_END = object()


class Connection(Protocol):
    def call(self, command: str, **arguments: Any) -> Any:
        """Run a command and return its result.

        Raises:
            Failed: It was refused.

        """
        ...

    def stream(self, command: str, **arguments: Any) -> Iterator[Any]:
        """Run a command that gives its results one by one.

        Raises:
            Failed: It was refused, or broke off.

        """
        ...


@contextmanager
def connect(config: Config) -> Iterator[Connection]:
    """Give a connection to the gateway of `config`: the running one, else its files.

    Raises:
        Failed: Neither can be reached.

    """
    with ExitStack() as stack:
        yield _reached(config, stack)


def _reached(config: Config, stack: ExitStack) -> Connection:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        channel = _dial(config)
        if channel is not None:
            stack.enter_context(channel)
            answers = stack.enter_context(channel.makefile("rb"))
            return _Remote(channel, answers, current_token(config.public_url))
        try:
            return stack.enter_context(_opened(config))
        except DirectoryInUse as error:
            # A gateway that is starting has its data directory before it has its socket.
            if time.monotonic() > deadline:
                raise Failed.of(error) from error
        time.sleep(_PAUSE_S)


def _dial(config: Config) -> socket.socket | None:
    path = config.data_dir / SOCKET_NAME
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        channel.connect(os.fspath(path))
    except (FileNotFoundError, ConnectionRefusedError):
        channel.close()
        return None
    except PermissionError as error:
        channel.close()
        raise Failed(
            f"{path} belongs to another user; run this as the user that runs the gateway",
            exit_code=NO,
        ) from error
    except OSError as error:
        channel.close()
        raise Failed(f"{path} cannot be reached: {error}", exit_code=NO) from error
    return channel


class _Remote:
    def __init__(self, channel: socket.socket, answers: IO[bytes], token: str | None) -> None:
        self._channel = channel
        self._lines = answers
        # Whoever has signed in is that person, also where their system's user would be somebody.
        self._identity = {} if token is None else {"token": token}

    def call(self, command: str, **arguments: Any) -> Any:
        return next(self._answers(command, arguments))["result"]

    def stream(self, command: str, **arguments: Any) -> Iterator[Any]:
        for answer in self._answers(command, arguments):
            if not answer.get("more"):
                return
            yield answer["result"]

    def _answers(self, command: str, arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
        request = json.dumps({"command": command, "arguments": arguments, **self._identity})
        try:
            self._channel.sendall(request.encode() + b"\n")
            while line := self._lines.readline():
                answer = json.loads(line)
                if not answer["ok"]:
                    raise Failed.from_answer(answer)
                yield answer
        except OSError as error:
            raise Failed(f"the gateway broke off: {error}", exit_code=NO) from error
        raise Failed("the gateway stopped before it answered; look at its log", exit_code=NO)


@contextmanager
def _opened(config: Config) -> Iterator["_Local"]:
    from gateway.wiring import open_admin  # noqa: PLC0415 - it brings every adapter with it

    with asyncio.Runner() as runner:
        opening = open_admin(config)
        try:
            admin = runner.run(opening.__aenter__())
        except DirectoryInUse:
            raise
        except GatewayError as error:
            raise Failed.of(error) from error
        try:
            # No token here: a sign-in is one at a running gateway.
            person = person_of(os.getuid(), config.data_dir, admin.people)
            yield _Local(runner, admin.commands, person)
        finally:
            runner.run(opening.__aexit__(None, None, None))


class _Local:
    def __init__(self, runner: asyncio.Runner, commands: Commands, person: Person) -> None:
        self._runner = runner
        self._commands = commands
        self._person = person

    def call(self, command: str, **arguments: Any) -> Any:
        async def run() -> Any:
            answer = self._begin(command, arguments)
            if isinstance(answer, AsyncGenerator):
                raise BadCommand(f"{command} streams")
            return await answer

        return self._run(run())

    def stream(self, command: str, **arguments: Any) -> Iterator[Any]:
        items: AsyncGenerator[Any, None] | None = None

        async def following() -> Any:
            nonlocal items
            if items is None:
                begun = self._begin(command, arguments)
                if not isinstance(begun, AsyncGenerator):
                    raise BadCommand(f"{command} does not stream")
                items = begun
            return await anext(items, _END)

        while (item := self._run(following())) is not _END:
            yield item

    def _begin(self, command: str, arguments: dict[str, Any]) -> Any:
        return self._commands.run(self._person, command, json.dumps(arguments).encode())

    def _run(self, work: Any) -> Any:
        try:
            return self._runner.run(work)
        except GatewayError as error:
            raise Failed.of(error) from error
