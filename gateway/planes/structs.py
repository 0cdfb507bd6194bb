"""What planes tell beside messages: JSON as protobuf has it, and headers."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct, Value

_MOST_OCTETS: Final = 64 * 1024
"""Of what is told of a token, and of headers: as much as a head has room for. It is read on the loop."""
_MOST_VALUES: Final = 2_000
_MOST_HEADERS: Final = 256


class Unexpected(Exception):
    """What a plane sends is not what it sends as it has to be configured."""


def dict_of(struct: Struct) -> Mapping[str, Any]:
    """Return a Struct's members; its numbers are doubles.

    Raises:
        Unexpected: It has more than 64 KiB, or 2,000 values.

    """
    if struct.ByteSize() > _MOST_OCTETS or not _has_few(struct):
        raise Unexpected("what is told of the token has more than 64 KiB, or 2,000 values")
    found: Mapping[str, Any] = MessageToDict(struct)
    return found


def require_few(headers: Sequence[Message]) -> None:
    """Return if `headers` are so many as a head has room for.

    Raises:
        Unexpected: They are more than 256, or have more than 64 KiB.

    """
    if len(headers) > _MOST_HEADERS or sum(one.ByteSize() for one in headers) > _MOST_OCTETS:
        raise Unexpected("there are more than 256 headers, or they have more than 64 KiB")


def _has_few(struct: Struct) -> bool:
    seen = 0
    waiting: list[Iterable[Value]] = [struct.fields.values()]
    while waiting:
        for one in waiting.pop():
            seen += 1
            if seen > _MOST_VALUES:
                return False
            kind = one.WhichOneof("kind")
            if kind == "list_value":
                waiting.append(one.list_value.values)
            elif kind == "struct_value":
                waiting.append(one.struct_value.fields.values())
    return True
