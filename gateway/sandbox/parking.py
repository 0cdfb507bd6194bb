"""A run that waits for a person, as bytes: what its interpreter holds, and what was counted."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final, Self

from gateway.domain._value import value
from gateway.domain.programs import CallState, ProgramCall
from gateway.sandbox.gate import WaitingCall

_MAGIC: Final = b"douane program 1\n"
_LENGTH_BYTES: Final = 4


@value
class ParkedRun:
    """Everything that a run needs to go on. Whoever can write one can do what its program could."""

    engine: str
    """Which, with its version: another one reads no snapshot of this one's."""
    sha256: str
    """Of the program's text."""
    calls: tuple[ProgramCall, ...]
    waiting: Mapping[int, WaitingCall]
    """By the interpreter's own number of the call."""
    console: tuple[str, str, int]
    wall_s: float
    """Used up."""
    interpreter_s: float
    """Used up."""
    snapshot: bytes
    """The interpreter's."""

    def encoded(self) -> bytes:
        """Return it as bytes."""
        header = {
            "engine": self.engine,
            "sha256": self.sha256,
            "calls": [asdict(call) for call in self.calls],
            "waiting": {str(number): asdict(call) for number, call in self.waiting.items()},
            "console": self.console,
            "wall_s": self.wall_s,
            "interpreter_s": self.interpreter_s,
        }
        text = json.dumps(header).encode()
        return _MAGIC + len(text).to_bytes(_LENGTH_BYTES) + text + self.snapshot

    @classmethod
    def decoded(cls, octets: bytes) -> Self:
        """Return what `encoded` made bytes of.

        Raises:
            ValueError: It is no parked run.

        """
        if not octets.startswith(_MAGIC):
            raise ValueError("this is no parked program")
        begin = len(_MAGIC) + _LENGTH_BYTES
        end = begin + int.from_bytes(octets[len(_MAGIC) : begin])
        try:
            return cls(**_members(json.loads(octets[begin:end])), snapshot=octets[end:])
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError("this is no parked program") from error


def _members(header: Mapping[str, Any]) -> dict[str, Any]:
    head, tail, missing = header["console"]
    return {
        "engine": str(header["engine"]),
        "sha256": str(header["sha256"]),
        "calls": tuple(
            ProgramCall(**{**call, "state": CallState(call["state"])}) for call in header["calls"]
        ),
        "waiting": {int(number): WaitingCall(**one) for number, one in header["waiting"].items()},
        "console": (str(head), str(tail), int(missing)),
        "wall_s": float(header["wall_s"]),
        "interpreter_s": float(header["interpreter_s"]),
    }
