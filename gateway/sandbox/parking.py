"""A run that waits for a person, as bytes: what its interpreter holds, and what was counted."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, Self

import orjson

from gateway.domain._value import value
from gateway.domain.programs import CallState, ProgramCall
from gateway.sandbox.gate import WaitingCall

_MAGIC: Final = b"douane program 2\n"
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

    def encoded(self, most: int) -> bytes | None:
        """Return it as bytes; nothing if it were more than `most`, and then not all is written out."""
        left = most - len(_MAGIC) - _LENGTH_BYTES - len(self.snapshot)
        lines = []
        for line in self._lines():
            left -= len(line)
            if left < 0:
                return None
            lines.append(line)
        length = sum(map(len, lines)).to_bytes(_LENGTH_BYTES)
        return b"".join((_MAGIC, length, *lines, self.snapshot))

    def _lines(self) -> Iterator[bytes]:
        """Yield its members, and each call that waits by itself.

        Who writes or reads one lets nobody else have the interpreter meanwhile, in whatever thread.
        """
        yield _line(
            {
                "engine": self.engine,
                "sha256": self.sha256,
                "calls": [*map(_members, self.calls)],
                "waiting": [*self.waiting],
                "console": self.console,
                "wall_s": self.wall_s,
                "interpreter_s": self.interpreter_s,
            }
        )
        for call in self.waiting.values():
            yield _line(_members(call))

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
            header, *waiting = map(orjson.loads, octets[begin:end].splitlines())
            return cls(**_read(header, waiting), snapshot=octets[end:])
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError("this is no parked program") from error


def _line(content: Mapping[str, Any]) -> bytes:
    return orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE)


def _members(call: ProgramCall | WaitingCall) -> dict[str, Any]:
    # Not `asdict`: that copies all that is in the arguments, value by value.
    return {one.name: getattr(call, one.name) for one in fields(call)}


def _read(header: Mapping[str, Any], waiting: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    head, tail, missing = header["console"]
    return {
        "engine": str(header["engine"]),
        "sha256": str(header["sha256"]),
        "calls": tuple(
            ProgramCall(**{**call, "state": CallState(call["state"])}) for call in header["calls"]
        ),
        "waiting": {
            int(number): WaitingCall(**one)
            for number, one in zip(header["waiting"], waiting, strict=True)
        },
        "console": (str(head), str(tail), int(missing)),
        "wall_s": float(header["wall_s"]),
        "interpreter_s": float(header["interpreter_s"]),
    }
