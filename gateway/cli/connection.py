"""How a command reaches the gateway: over its socket, or, when none runs, into its files."""

import asyncio
import json
import os
import socket
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, Any, Protocol

import click

from gateway.admin.commands import Commands
from gateway.admin.person import Person
from gateway.config import Config
from gateway.errors import BadCommand, ConfigError, DirectoryInUse, GatewayError
from gateway.web.door import SOCKET_NAME, person_of

NO = 1
"""Exit status: it worked, and the answer is no."""
WRONG_USE = 2
"""Exit status: the command, its arguments or the configuration cannot be used."""

_PATIENCE_S = 15.0
_PAUSE_S = 0.2

_END = object()


class Failed(click.ClickException):
    """A command that ends with one line on standard error."""

    def __init__(self, message: str, *, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click reads the instance's

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message."""
        click.echo(f"douane: {self.message}", file=file, err=file is None)

    @classmethod
    def of(cls, error: GatewayError) -> "Failed":
        """Say an error of ours to a person; the problems of a file are a line each."""
        if isinstance(error, ConfigError):
            lines = [f"{error.public}:", *error.problems] if error.problems else [error.public]
            return cls("\n".join(lines), exit_code=WRONG_USE)
        reasons = [message for _, message in error.reasons]
        return cls._refused(error.code, error.public, reasons)

    @classmethod
    def from_answer(cls, answer: dict[str, Any]) -> "Failed":
        """Say what a running gateway answered."""
        reasons = [str(reason.get("message", "")) for reason in answer.get("reasons", [])]
        return cls._refused(str(answer.get("code")), str(answer.get("message")), reasons)

    @classmethod
    def _refused(cls, code: str, text: str, reasons: list[str]) -> "Failed":
        exit_code = WRONG_USE if code in {BadCommand.code, ConfigError.code} else NO
        return cls("; ".join([text, *reasons]), exit_code=exit_code)


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
            return _Remote(channel, stack.enter_context(channel.makefile("rb")))
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
    def __init__(self, channel: socket.socket, answers: IO[bytes]) -> None:
        self._channel = channel
        self._lines = answers

    def call(self, command: str, **arguments: Any) -> Any:
        return next(self._answers(command, arguments))["result"]

    def stream(self, command: str, **arguments: Any) -> Iterator[Any]:
        for answer in self._answers(command, arguments):
            if not answer.get("more"):
                return
            yield answer["result"]

    def _answers(self, command: str, arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
        request = json.dumps({"command": command, "arguments": arguments})
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
            person = person_of(os.getuid(), config.data_dir)
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
