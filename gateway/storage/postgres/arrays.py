"""Arrays as PostgreSQL takes them in its own form: a whole batch is a few of these.

psycopg spells lists itself, but as text or as the narrowest of the number types, so each batch would
be another statement to the server. These are always of one type.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from psycopg.adapt import AdaptersMap, Dumper
from psycopg.pq import Format

_HEAD: Final = struct.Struct(">iiI")
_SIZE: Final = struct.Struct(">ii")
_LENGTH: Final = struct.Struct(">i")
_NULL: Final = _LENGTH.pack(-1)


class Array(tuple[Any, ...]):
    """One argument: what each record of a batch has of a thing, or `None`."""

    __slots__ = ()


class Texts(Array):
    """Of `text`."""


class Numbers(Array):
    """Of `bigint`."""


class Levels(Array):
    """Of `smallint`."""


class Flags(Array):
    """Of `boolean`."""


class Octets(Array):
    """Of `bytea`."""


def spelled(element: int, octets: Sequence[bytes | None]) -> bytes:
    """Return an array of elements of that type, in the form of the wire."""
    parts = [_HEAD.pack(1 if octets else 0, None in octets, element)]
    if octets:
        parts.append(_SIZE.pack(len(octets), 1))
    for one in octets:
        parts += (_NULL,) if one is None else (_LENGTH.pack(len(one)), one)
    return b"".join(parts)


def _dumper(array: int, element: int, written: Callable[[Any], bytes]) -> type[Dumper]:
    """Return what sends an array of that type, whose elements are of that one."""

    class Spelling(Dumper):
        format = Format.BINARY
        oid = array

        def dump(self, obj: Array) -> bytes:
            return spelled(element, [None if one is None else written(one) for one in obj])

    return Spelling


# The types' numbers are the same in every PostgreSQL.
_DUMPERS: Final[Mapping[type[Array], type[Dumper]]] = {
    Texts: _dumper(1009, 25, str.encode),
    Numbers: _dumper(1016, 20, struct.Struct(">q").pack),
    Levels: _dumper(1005, 21, struct.Struct(">h").pack),
    Flags: _dumper(1000, 16, struct.Struct(">?").pack),
    Octets: _dumper(1001, 17, bytes),
}


def use_arrays(adapters: AdaptersMap) -> None:
    """Have a connection with these `adapters` send arrays so."""
    for kind, dumper in _DUMPERS.items():
        adapters.register_dumper(kind, dumper)
