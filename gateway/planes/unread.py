"""How much a message of a plane's tells, before anything is made of it."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from google.protobuf.message import DecodeError, Message

from gateway.planes.structs import Unexpected

MOST_BESIDE: Final = 1 << 18
"""Octets of a message beside the body that it carries: its headers, claims and attributes."""
_EACH: Final = 64
"""Octets that a field counts for beside its own, for it takes a step to look at."""
_NUMBER: Final = 10
"""Octets of the longest number."""
_GOES_ON: Final = 1 << 7
"""Of an octet of a number: another one follows."""
_LONG: Final = 2
"""The wire type of what says its length."""
_WIDTHS: Final = {0: 0, 1: 8, 5: 4}
"""Octets of what does not, behind the number that it is or has, by wire types."""
_NO_MESSAGE: Final = "what came is no message of the protocol"

Said = TypeVar("Said", bound=Message)


def reading(kind: type[Said], *bodies: str) -> Callable[[bytes], Said]:
    """Return what reads messages of a kind; `bodies` are the fields that a body stands in, as `a.b.c`.

    It raises `Unexpected` for what is no such message, or has more than `MOST_BESIDE` outside them, before
    it makes anything of it: messages are read on the loop, and read they take thirty times the memory.
    """
    paths = [tuple(_numbers(kind.DESCRIPTOR, path.split("."))) for path in bodies]

    def read(octets: bytes) -> Said:
        left = MOST_BESIDE
        for taken in _beside(octets, 0, len(octets), paths):
            left -= taken
            if left < 0:
                raise Unexpected("a message has more than 256 KiB beside its body")
        try:
            return kind.FromString(octets)
        except DecodeError as error:
            raise Unexpected(_NO_MESSAGE) from error

    return read


def _numbers(within: Any, names: Sequence[str]) -> Iterator[int]:
    for name in names:
        field = within.fields_by_name[name]
        yield field.number
        within = field.message_type


def _beside(octets: bytes, at: int, end: int, bodies: Sequence[Sequence[int]]) -> Iterator[int]:
    """Yield what each field counts for that stands from `at` to `end`, its part of `bodies` left out."""
    while at < end:
        tag, begin = _number(octets, at)
        found, width = tag >> 3, tag & 7
        length, begin = _number(octets, begin) if width in {0, _LONG} else (0, begin)
        within = [path[1:] for path in bodies if path[0] == found and width == _LONG]
        # What has no width that is known ends nowhere: it is of no message here.
        at = begin + (length if width == _LONG else _WIDTHS.get(width, end + 1))
        if at > end:
            raise Unexpected(_NO_MESSAGE)
        yield _EACH if within else _EACH + at - begin
        if within and all(within):
            yield from _beside(octets, begin, at, within)


def _number(octets: bytes, at: int) -> tuple[int, int]:
    """Return the number that stands at a place, and where it ends."""
    found = 0
    for place, octet in enumerate(octets[at : at + _NUMBER]):
        found |= (octet & ~_GOES_ON) << 7 * place
        if not octet & _GOES_ON:
            return found, at + place + 1
    raise Unexpected(_NO_MESSAGE)
