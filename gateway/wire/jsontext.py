"""JSON text to values and back, without the ambiguities that let two readers see two messages.

What is refused here is what RFC 7493 (I-JSON) rules out: duplicate members, lone surrogates, numbers
that are not the same number everywhere; and what RFC 8259 never allowed but parsers accept: NaN,
Infinity, a byte order mark.
"""

import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from itertools import repeat
from typing import Any, NoReturn

import orjson

from gateway.domain._value import value
from gateway.domain.document import LARGEST_INTEGER
from gateway.domain.nodes import require_small

_INTEGER_CHARS = len(str(-LARGEST_INTEGER))
_NUMBER_CHARS = 64
"""No double needs more than 25; a longer literal only costs time."""

_FOREIGN_NUMBER_CHARS = 1024
"""What an upstream may write; no double has more than 309 digits before its point."""
_LONG_NUMBER = b"0" * 16
"""Digits in a row as `_ALIKE` has them: what may be an integer beyond 2^53-1, and is looked at one by one."""
_NOT_DIGITS = bytes(octet for octet in range(256) if octet not in b"0123456789")
_ALIKE = bytes(0x30 if octet in b"0123456789" else 0x20 for octet in range(256))
"""Every digit as `0`, and everything else as a blank."""
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_LEVELS = 200
"""What nests deeper is written by so many levels: orjson goes down no further than 254."""
_NON_ZERO = re.compile(r"-?[0.]*[1-9]")


@value
class WireLimits:
    """How large a message may be in ways that its length in bytes does not bound."""

    json_depth: int = 64
    """Nested arrays and objects, the outermost counted."""
    event_bytes: int = 4_194_304
    """One event of an SSE stream, its framing counted."""


def read_exact(body: bytes, depth: int) -> Any:
    """Return the value of `body`, in which every number is exactly what was written.

    An integer lies within +-(2^53-1); a number beyond is accepted only in the form in which a double
    is written (`6.022e23`), so that no reader of more precision sees another number.

    Raises:
        ValueError: It is not unambiguous JSON, nests deeper than `depth` or holds more than
            `nodes.MOST_NODES` values and names.

    """
    # Most texts have fewer digits altogether, and a search for a row of them takes longer than all else.
    is_plain = len(body.translate(None, _NOT_DIGITS)) < len(_LONG_NUMBER)
    is_plain = is_plain or _LONG_NUMBER not in body.translate(_ALIKE)
    return _read(_EXACT, body, depth, is_plain=is_plain)


def read_lenient(body: bytes, depth: int) -> Any:
    """Return the value of `body`; integers may be of any size, floats are rounded to doubles.

    Raises:
        ValueError: It is not unambiguous JSON, nests deeper than `depth` or holds more than
            `nodes.MOST_NODES` values and names.

    """
    return _read(_LENIENT, body, depth, is_plain=True)


def write(content: Any) -> str:
    """Return `content`, a value that was read here, as compact JSON text in one line.

    Raises:
        ValueError: A string holds half of a surrogate pair.

    """
    return write_octets(content).decode()


def write_octets(content: Any) -> bytes:
    """Return `content`, a value that was read here, as compact JSON text in UTF-8.

    Raises:
        ValueError: A string holds half of a surrogate pair.

    """
    try:
        return orjson.dumps(content)
    except TypeError:  # an integer beyond 64 bits, or deeper than it goes, or half a pair
        return orjson.dumps(_writable(content, _LEVELS), option=orjson.OPT_NON_STR_KEYS)


def written(text: str) -> Any:
    """Return what stands for `text`, which was written here, in a value that is to be written."""
    return orjson.Fragment(text)


def _writable(node: Any, levels: int) -> Any:
    """Return `node` with what is not written of it as it is in the place of that.

    The standard library's writer would do: in one call that nobody gets a turn in, for a double that
    is far from one takes it a thousand times what an integer does.
    """
    if isinstance(node, float):
        return node
    if isinstance(node, str):
        node.encode()  # raises for half a pair
    elif isinstance(node, int):
        return node if -(2**63) <= node < 2**64 else orjson.Fragment(str(node))
    elif isinstance(node, dict | list | tuple):
        if not levels:
            return orjson.Fragment(write_octets(node))
        if not isinstance(node, dict):
            return list(map(_writable, node, repeat(levels - 1)))
        names = map(_writable, node, repeat(0))
        return dict(zip(names, map(_writable, node.values(), repeat(levels - 1)), strict=True))
    return node


def _read(decode: Callable[[str], Any], body: bytes, depth: int, *, is_plain: bool) -> Any:
    """Return the value of `body` as `decode` reads it; where it `is_plain`, in one go if it can be."""
    require_small(body, depth)
    if is_plain:
        try:
            content = orjson.loads(body)
            written = orjson.dumps(content)
            # Written back it is the very same text: no member was lost, no number is another one.
            if written == body or _unspaced(written) == _unspaced(body):
                return content
        except (ValueError, TypeError):
            pass  # the other reader says why, or reads it: not all that JSON allows is refused there
    text = body.decode()
    try:
        content = decode(text)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    if "\\" in text and _SURROGATE_ESCAPE.search(text):
        _require_unicode(content)
    return content


def _unspaced(text: bytes) -> bytes:
    """Return `text`, which is JSON, without the space that many writers put behind `,` and `:`.

    In strings it is missed as well, and each stays one: texts that are the same by this have the same
    members, and the same numbers in the same places.
    """
    return text.replace(b", ", b",").replace(b": ", b":")


def _require_unicode(content: Any) -> None:
    try:
        write_octets(content)
    except UnicodeEncodeError as error:
        raise ValueError("a string holds half of a surrogate pair") from error


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("an object has two members of one name")
    return members


def _constant(literal: str) -> NoReturn:
    raise ValueError(f"{literal} is not JSON")


def _integer(literal: str) -> int:
    # The length first: converting a literal of a million digits is what must not happen.
    if len(literal) <= _INTEGER_CHARS:
        number = int(literal)
        if -LARGEST_INTEGER <= number <= LARGEST_INTEGER:
            return number
    raise ValueError("an integer is beyond 2^53-1")


def _float(literal: str) -> float:
    if len(literal) > _NUMBER_CHARS:
        raise ValueError(f"a number has more than {_NUMBER_CHARS} characters")
    number = _finite(literal)
    if number == 0:
        if _NON_ZERO.match(literal):
            raise ValueError("a number is too small for a double")
    elif abs(number) > LARGEST_INTEGER and Decimal(literal) != Decimal(repr(number)):
        raise ValueError("a number beyond 2^53-1 is not exactly a double")
    return number


def _any_integer(literal: str) -> int:
    if len(literal) > _FOREIGN_NUMBER_CHARS:
        raise ValueError(f"a number has more than {_FOREIGN_NUMBER_CHARS} characters")
    return int(literal)


def _any_float(literal: str) -> float:
    if len(literal) > _FOREIGN_NUMBER_CHARS:
        raise ValueError(f"a number has more than {_FOREIGN_NUMBER_CHARS} characters")
    return _finite(literal)


def _finite(literal: str) -> float:
    number = float(literal)
    if math.isinf(number):
        raise ValueError("a number is too large for a double")
    return number


_EXACT = json.JSONDecoder(
    object_pairs_hook=_members,
    parse_constant=_constant,
    parse_int=_integer,
    parse_float=_float,
).decode
_LENIENT = json.JSONDecoder(
    object_pairs_hook=_members,
    parse_constant=_constant,
    parse_int=_any_integer,
    parse_float=_any_float,
).decode
