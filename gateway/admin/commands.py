"""Every command by its name, for the doors: its arguments are checked, and it runs as a person."""

import functools
import inspect
import operator
import types
import typing
from collections import abc
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from gateway.admin.person import Person
from gateway.domain._value import value
from gateway.errors import BadCommand, Forbidden

_MOST_PROBLEMS = 10
_QUICK = 1_000
"""Problems with arguments that may be listed: the list is made in one step, which holds the interpreter."""
_LONGEST_NAME = 64
_MOST_MEMBERS = 10_000
"""Of a list or a mapping that is an argument: more than a server has definitions to approve."""

Answer = Awaitable[Any] | AsyncGenerator[Any, None]
_Act = Callable[..., Answer]
Begin = Callable[[Person], Answer]
"""Begins a command whose arguments have been read."""
Tell = Callable[[Person, str, Forbidden], Awaitable[None]]
"""Records that a person may not give a command."""


@value
class Command:
    """One use case with the model of its arguments."""

    act: _Act
    arguments: type[BaseModel]

    @classmethod
    def of(cls, name: str, act: _Act) -> "Command":
        """Make a command of a use case: a method that takes a person, then keywords only."""
        hints = typing.get_type_hints(act, include_extras=True)
        fields: dict[str, Any] = {
            parameter.name: (
                _bounded(hints[parameter.name]),
                ... if parameter.default is parameter.empty else parameter.default,
            )
            for parameter in inspect.signature(act).parameters.values()
            if parameter.kind is parameter.KEYWORD_ONLY
        }
        config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)
        return cls(act=act, arguments=create_model(name, __config__=config, **fields))

    def begin(self, person: Person, parsed: BaseModel) -> Answer:
        """Begin the use case as `person`."""
        return self.act(person, **{name: getattr(parsed, name) for name in parsed.model_fields_set})


class Commands:
    """The one table of commands."""

    def __init__(
        self, table: Mapping[str, _Act], *, forbidden: Tell, reads: Iterable[str] = ()
    ) -> None:
        """Take the use cases; `reads` change nothing, and their arguments are single words.

        `forbidden` records who was refused which of them for want of a role.
        """
        self._acts = dict(table)
        self._made: dict[str, Command] = {}
        self._reads = frozenset(reads)
        self._forbidden = forbidden

    def reads(self, command: str) -> bool | None:
        """Whether `command` only reads; `None` if there is no such command."""
        return command in self._reads if command in self._acts else None

    def run(self, person: Person, command: str, arguments: bytes) -> Answer:
        """Begin `command` as `person`; `arguments` is a JSON object.

        Returns what to await, or, for a command that streams, what to iterate over.

        Raises:
            BadCommand: There is no such command, or it does not take these arguments.

        """
        return self.read(command, arguments)(person)

    def read(self, command: str, arguments: bytes) -> Begin:
        """Return what begins `command`, as `run` does, for whoever is known only later who asks.

        Raises:
            BadCommand: There is no such command, or it does not take these arguments.

        """
        found = self._named(command)
        try:
            parsed = found.arguments.model_validate_json(arguments)
        except ValidationError as error:
            raise _bad(command, error) from error
        return lambda person: self._begun(person, command, found, parsed)

    def run_query(self, person: Person, command: str, pairs: Iterable[tuple[str, str]]) -> Answer:
        """Begin a command that reads, its arguments being the `pairs` of a URL's query.

        Raises:
            BadCommand: As `run`; or an argument is given twice.

        """
        found = self._named(command)
        arguments: dict[str, str] = {}
        for name, text in pairs:
            if name in arguments:
                raise BadCommand(f"{command}: an argument is given twice")
            arguments[name] = text
        try:
            parsed = found.arguments.model_validate_strings(arguments)
        except ValidationError as error:
            raise _bad(command, error) from error
        return self._begun(person, command, found, parsed)

    def _begun(self, person: Person, command: str, found: Command, parsed: BaseModel) -> Answer:
        answer = found.begin(person, parsed)
        if isinstance(answer, AsyncGenerator):
            return self._streamed(person, command, answer)
        return self._awaited(person, command, answer)

    async def _awaited(self, person: Person, command: str, answer: Awaitable[Any]) -> Any:
        try:
            return await answer
        except Forbidden as error:
            await self._forbidden(person, command, error)
            raise

    async def _streamed(
        self, person: Person, command: str, answer: AsyncGenerator[Any, None]
    ) -> AsyncGenerator[Any, None]:
        async with aclosing(answer):
            try:
                async for item in answer:
                    yield item
            except Forbidden as error:
                await self._forbidden(person, command, error)
                raise

    def _named(self, command: str) -> Command:
        act = self._acts.get(command)
        if act is None:
            raise BadCommand(f"no such command; there are: {', '.join(sorted(self._acts))}")
        if command not in self._made:
            self._made[command] = Command.of(command, act)
        return self._made[command]


def _bounded(hint: Any) -> Any:
    """Return `hint` with so many members at most, of which a list is read to the first that is wrong.

    Arguments are read, and all that is wrong with them told, in one step, which holds the interpreter.
    """
    kind, inside = typing.get_origin(hint), typing.get_args(hint)
    if kind in {types.UnionType, typing.Union}:
        return functools.reduce(operator.or_, map(_bounded, inside))
    if kind is abc.Sequence:
        alike = types.GenericAlias(list, inside)
        return typing.Annotated[alike, Field(max_length=_MOST_MEMBERS, fail_fast=True)]
    if kind in {abc.Mapping, dict}:
        return typing.Annotated[hint, Field(max_length=_MOST_MEMBERS)]
    return hint


def _bad(command: str, error: ValidationError) -> BadCommand:
    count = error.error_count()
    found = error.errors(include_url=False, include_context=False) if count <= _QUICK else []
    told = [
        f"{'.'.join(map(_step, details['loc']))}: {details['msg']}"
        for details in found[:_MOST_PROBLEMS]
    ]
    if count > len(told):
        told.append(f"{count} problems in all")
    return BadCommand(f"{command}: {'; '.join(told)}")


def _step(step: str | int) -> str:
    """Return a name or a place as it is; of a longer name nothing, for a part of a secret looks like none."""
    name = str(step)
    return name if len(name) <= _LONGEST_NAME else "\u2026"
