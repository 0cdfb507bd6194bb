"""JSON as protobuf has it."""

from collections.abc import Mapping
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct


def dict_of(struct: Struct) -> Mapping[str, Any]:
    """Return a Struct's members; its numbers are doubles."""
    found: Mapping[str, Any] = MessageToDict(struct)
    return found
