"""JSON that can be compared, hashed and pinned: documents and their digests."""

import hashlib
import json
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final, NoReturn, Self

import orjson
import rfc8785

from gateway.domain._value import value

LARGEST_INTEGER = 2**53 - 1
"""Beyond it an integer is not the same number everywhere (RFC 7493 section 2.2)."""

DEEPEST = 128
"""How many objects and arrays may stand inside each other."""


def canonical(content: Any) -> bytes:
    """Return the RFC 8785 form of `content`, a value that `json.loads` could have made.

    Raises:
        ValueError: `content` has no such form: an integer beyond 2^53-1, a lone surrogate, NaN, a
            key that is no string. Or it is nested deeper than `DEEPEST`.

    """
    # For ASCII keys the order of code points is that of UTF-16 code units (section 3.2.3), and
    # strings and integers are spelled alike, so there orjson's output is the RFC's, thirty times
    # faster. Floats are not spelled alike (section 3.2.2.3). What is not known to be the same
    # takes the careful way.
    try:
        if _is_plain(content, DEEPEST):
            return orjson.dumps(content, option=orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER)
        return rfc8785.dumps(content)
    except (ValueError, TypeError) as error:
        raise ValueError(f"no canonical form: {error}") from error


def _is_plain(content: Any, levels: int) -> bool:
    """Tell whether orjson spells `content` as RFC 8785 does. Visits all of it that is a container."""
    kind = type(content)
    if kind is str or kind is int or kind is bool or content is None:
        return True
    if isinstance(content, dict):
        inner = list(content.values())
        plain = kind is dict and all(type(key) is str and key.isascii() for key in content)
    elif isinstance(content, list | tuple):
        inner = list(content)
        plain = kind is list
    else:
        return False
    if levels == 0:
        raise ValueError(f"nested deeper than {DEEPEST} levels")
    for item in inner:
        # No short cut: the depth of what follows must be judged as well.
        plain = _is_plain(item, levels - 1) and plain
    return plain


_PLAIN = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def plain(content: Any) -> bytes:
    """Return a spelling of what has no `canonical` form, whatever the order of its members.

    Others have their turns meanwhile: in one call of `json.dumps` they have none, and to spell a double
    that is far from one takes it a thousand times what an integer does.
    """
    return "".join(_PLAIN.iterencode(content)).encode()


def equal(one: Any, other: Any) -> bool:
    """Tell whether two values that `json.loads` could have made are the same JSON: `canonical` spells
    them alike. It is told where they first differ, and goes through no more than the smaller one.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    # What is true is no 1, but 1.0 is.
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


is_plain_name: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]{0,63}", re.ASCII).fullmatch
"""Matches a name that is an identifier, as those are that definitions give to members.

What is none may be data itself, such as an address that maps to something.
"""

_LONGEST_PATH = 512
_LONGEST_NAME = 256
_CUT = "\u2026"
"""Paths do not grow on: each of many leaves has one, and names can be as long as the document."""


def member_path(path: str, name: str) -> str:
    """Return the path of member `name` of what is at `path`: `$.a`, or `$['a b']`.

    Long names are cut, and so are paths: the ellipsis stands for all that follows.
    """
    if len(path) > _LONGEST_PATH:
        return path if path.endswith(_CUT) else path + _CUT
    if is_plain_name(name):
        return f"{path}.{name}"
    if len(name) > _LONGEST_NAME:
        name = name[:_LONGEST_NAME] + _CUT
    return path + quoted_name(name)


def quoted_name(name: str) -> str:
    """Return a name that may be data as texts about a call have it: `['a b']`.

    A record keeps such a name by the level of the call's arguments.
    """
    quoted = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"['{quoted}']"


def item_path(path: str, index: int) -> str:
    """Return the path of an item of the array at `path`: `$[0]`. Cut like `member_path`."""
    if len(path) > _LONGEST_PATH:
        return path if path.endswith(_CUT) else path + _CUT
    return f"{path}[{index}]"


def leaves(content: Any, path: str = "$") -> Iterator[tuple[str, Any]]:
    """Yield the path and the value of everything in `content` that is no container, in order.

    A member name that is no plain identifier may be data itself, such as an address that maps to
    something: it is yielded as well, as a string at its member's path.
    """
    # Iterators rather than lists: whoever stops early has not paid for the rest.
    open_containers: list[Iterator[tuple[str, Any]]] = [iter([(path, content)])]
    while open_containers:
        for at, node in open_containers[-1]:
            if isinstance(node, dict | list):
                open_containers.append(_members_of(at, node))
                break
            yield at, node
        else:
            open_containers.pop()


def _members_of(path: str, node: dict[str, Any] | list[Any]) -> Iterator[tuple[str, Any]]:
    if isinstance(node, list):
        for i, item in enumerate(node):
            yield item_path(path, i), item
        return
    for name, member in node.items():
        at = member_path(path, name)
        if not is_plain_name(name):
            yield at, name
        yield at, member


@value
class Digest:
    """A hash that names its algorithm, so that a stored one can outlive it."""

    algorithm: str
    octets: bytes

    @classmethod
    def of(cls, data: bytes) -> Self:
        """SHA-256 of `data`."""
        return cls(algorithm="sha256", octets=hashlib.sha256(data).digest())

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the digest that `str` has spelled as `text`."""
        algorithm, _, octets = text.partition(":")
        return cls(algorithm=algorithm, octets=bytes.fromhex(octets))

    def __str__(self) -> str:
        return f"{self.algorithm}:{self.octets.hex()}"


class Document:
    """A JSON object as it was received, compared and hashed by its RFC 8785 form.

    `text` keeps the upstream's members and their order; two documents are equal when their
    canonical bytes are.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    @classmethod
    def of(cls, content: dict[str, Any]) -> Self:
        """Make a document of a parsed object.

        Raises:
            ValueError: It has no canonical form.

        """
        form = canonical(content)  # first, so that what is spelled next is known to be sound
        document = cls(orjson.dumps(content).decode())
        document.__dict__["canonical"] = form
        return document

    @cached_property
    def content(self) -> dict[str, Any]:
        """The object. Read only: whoever needs to change it makes a copy.

        Raises:
            ValueError: `text` is no JSON object, or means different things to different readers: a
                member twice (RFC 8259 section 4), NaN.

        """
        try:
            loaded = json.loads(
                self.text, object_pairs_hook=_members, parse_constant=_refuse_constant
            )
        except RecursionError as error:
            raise ValueError("nested too deeply to be read") from error
        if not isinstance(loaded, dict):
            raise ValueError("not a JSON object")  # noqa: TRY004 - a bad text, not a bad type
        return loaded

    @cached_property
    def canonical(self) -> bytes:
        """The RFC 8785 form."""
        return canonical(self.content)

    @cached_property
    def digest(self) -> Digest:
        """SHA-256 of the canonical form."""
        return Digest.of(self.canonical)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Document) and self.canonical == other.canonical

    def __hash__(self) -> int:
        return hash(self.canonical)

    def __repr__(self) -> str:
        return f"Document({self.digest})"


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member stands twice in an object")
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
