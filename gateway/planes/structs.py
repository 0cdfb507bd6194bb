"""What planes tell beside messages: JSON as protobuf has it, and headers."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct

_MOST_OCTETS: Final = 64 * 1024
"""Of what is told of a token, and of headers: as much as a head has room for. It is read on the loop."""
_MOST_HEADERS: Final = 256


class Unexpected(Exception):
    """What a plane sends is not what it sends as it has to be configured."""


def dict_of(struct: Struct) -> Mapping[str, Any]:
    """Return a Struct's members; its numbers are doubles.

    Raises:
        Unexpected: It has more than 64 KiB.

    """
    if struct.ByteSize() > _MOST_OCTETS:
        raise Unexpected("what is told of the token has more than 64 KiB")
    found: Mapping[str, Any] = MessageToDict(struct)
    return found


def require_few(headers: Sequence[Message]) -> None:
    """Return if `headers` are so many as a head has room for.

    Raises:
        Unexpected: They are more than 256, or have more than 64 KiB.

    """
    if len(headers) > _MOST_HEADERS or sum(one.ByteSize() for one in headers) > _MOST_OCTETS:
        raise Unexpected("there are more than 256 headers, or they have more than 64 KiB")
