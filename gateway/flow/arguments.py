"""Which arguments of a tool say who or what is affected, and which carry content."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

from gateway.domain._value import value
from gateway.domain.labels import Effect
from gateway.flow.schemas import Kinds, kinds_of
from gateway.flow.words import (
    ADDRESS_FORMATS,
    ADDRESSES,
    COMMANDS,
    ID_FORMATS,
    OF_SOMEBODY,
    OPTIONS,
    ORIGINS,
    PEOPLE,
    PERSONAL_NAMES,
    STATEMENTS,
    TEXT,
    WHAT,
    WHO,
    singular,
    words_of,
)

MOST_ARGUMENTS = 128
_LONGEST_NAME = 512
"""The longest that the configuration takes."""


@value
class Argument:
    """A top-level argument, and what its name and schema say of it."""

    name: str
    last: str
    """The last word of its name, in the singular."""
    who: bool
    """It says who is reached."""
    address: bool
    """It says where on a network."""
    what: bool
    """It says which thing is affected."""
    text: bool
    option: bool
    """It chooses between a few values, or shapes the answer."""


def arguments_of(schema: Any) -> tuple[Argument, ...]:
    """Return the top-level arguments that `schema`, of a tool's input, declares."""
    named = (item for item in _properties(schema).items() if 0 < len(item[0]) <= _LONGEST_NAME)
    declared = islice(named, MOST_ARGUMENTS)
    return tuple(_argument(name, inner, schema) for name, inner in declared)


def is_address(name: str, schema: Any) -> bool:
    """Tell whether the argument `name` says where on a network, by its name or by `schema`, of the input."""
    called, declared = is_called_an_address(name), _properties(schema).get(name)
    if declared is None:
        return called
    kinds = kinds_of(declared, schema)
    return _holds_text(kinds) and (called or not ADDRESS_FORMATS.isdisjoint(kinds.formats))


@lru_cache(maxsize=256)
def is_called_an_address(name: str) -> bool:
    """Tell whether `name`, of an argument or a path to one, has for its last word one for an address."""
    words = [word for word in words_of(name) if not word.isdigit()]
    return bool(words) and singular(words[-1]) in ADDRESSES


def _holds_text(kinds: Kinds) -> bool:
    return not kinds.types or not kinds.types.isdisjoint(("string", "array", "object"))


def _properties(schema: Any) -> Mapping[str, Any]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return properties if isinstance(properties, dict) else {}


def _argument(name: str, schema: Any, root: Mapping[str, Any]) -> Argument:
    words = [singular(word) for word in words_of(name) if not word.isdigit()] or [""]
    last = words[-1]
    kinds = kinds_of(schema, root)
    holds_text = _holds_text(kinds)
    spelled = holds_text or "integer" in kinds.types
    titled = last == "name" and not PERSONAL_NAMES.intersection(words)
    date = bool(kinds.formats & {"date", "date-time", "time", "duration"})
    called = words[-2] if last in OF_SOMEBODY and len(words) > 1 else last
    reached = called in WHO and words[0] not in ORIGINS
    who = spelled and not date and (reached or bool(kinds.formats & ID_FORMATS - {"uuid"}))
    flag = "boolean" in kinds.types and not holds_text
    shapes = last in OPTIONS and len(words) == 1
    return Argument(
        name=name,
        last=last,
        who=who and not kinds.fixed,
        address=holds_text and (last in ADDRESSES or bool(kinds.formats & ADDRESS_FORMATS)),
        what=spelled and not kinds.fixed and (last in WHAT or titled or "uuid" in kinds.formats),
        text=last in TEXT or date or (shapes and holds_text),
        option=kinds.fixed or flag or (shapes and not holds_text),
    )


def effects_of_arguments(arguments: Sequence[Argument], *, reads: bool) -> Mapping[Effect, str]:
    """Return what the arguments alone show that a tool does, and the one that shows it.

    Of a tool that says it only `reads`, a statement in a query language is believed to do so.
    """
    found: dict[Effect, str] = {}
    run = COMMANDS if reads else COMMANDS | STATEMENTS
    for argument in arguments:
        if argument.name.lower() in run:
            found.setdefault(Effect.EXECUTE, argument.name)
        if argument.last in PEOPLE and not argument.option:
            found.setdefault(Effect.EGRESS, argument.name)
        if argument.last == "amount" and any(other.who for other in arguments):
            found.setdefault(Effect.PAY, argument.name)
    return found


def destination_of(effect: Effect, arguments: Sequence[Argument]) -> tuple[str, ...]:
    """Return the names of the arguments that say who or what a tool of `effect` affects.

    Who is reached says more than which thing it is about, and a thing that is deleted is as good
    as reached. Where neither is named, what is changed is the user's own: then every plain value is
    what is affected, so that nothing of it comes from nowhere.
    """
    if effect is Effect.READ:
        return tuple(argument.name for argument in arguments if argument.address)
    who = [argument.name for argument in arguments if argument.who]
    what = [argument.name for argument in arguments if argument.what]
    if effect is Effect.DESTROY:
        return tuple(argument.name for argument in arguments if argument.who or argument.what)
    plain = [each.name for each in arguments if not (each.text or each.option)]
    return tuple(who or what or plain)


def payload_of(
    effect: Effect, arguments: Sequence[Argument], destination: Sequence[str]
) -> tuple[str, ...]:
    """Return the names of the arguments that carry content where a tool of `effect` acts."""
    if effect is Effect.DESTROY or (effect is Effect.READ and not destination):
        return ()
    return tuple(
        argument.name
        for argument in arguments
        if argument.name not in destination and not argument.option
    )
