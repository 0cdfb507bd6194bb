"""Every command by its name, for the doors: its arguments are checked, and it runs as a person."""

import inspect
import typing
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from gateway.admin.person import Person
from gateway.domain._value import value
from gateway.errors import BadCommand

Answer = Awaitable[Any] | AsyncGenerator[Any, None]
_Act = Callable[..., Answer]


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
                hints[parameter.name],
                ... if parameter.default is parameter.empty else parameter.default,
            )
            for parameter in inspect.signature(act).parameters.values()
            if parameter.kind is parameter.KEYWORD_ONLY
        }
        config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)
        return cls(act=act, arguments=create_model(name, __config__=config, **fields))


class Commands:
    """The one table of commands."""

    def __init__(self, table: Mapping[str, _Act]) -> None:
        self._table = {name: Command.of(name, act) for name, act in table.items()}

    def run(self, person: Person, command: str, arguments: bytes) -> Answer:
        """Begin `command` as `person`; `arguments` is a JSON object.

        Returns what to await, or, for a command that streams, what to iterate over.

        Raises:
            BadCommand: There is no such command, or it does not take these arguments.

        """
        found = self._table.get(command)
        if found is None:
            raise BadCommand(f"no such command; there are: {', '.join(sorted(self._table))}")
        try:
            parsed = found.arguments.model_validate_json(arguments)
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, details['loc']))}: {details['msg']}"
                for details in error.errors(include_url=False, include_context=False)
            )
            raise BadCommand(f"{command}: {problems}") from error
        return found.act(
            person, **{name: getattr(parsed, name) for name in parsed.model_fields_set}
        )
