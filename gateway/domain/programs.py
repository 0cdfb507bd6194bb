"""A program that calls tools: its text, what it may use up, and what became of it."""

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from enum import StrEnum
from typing import Any, Final, TypeAlias

from gateway.domain._value import value
from gateway.domain.scripts import digest_of

Redact: TypeAlias = Callable[[str], str]
"""Takes out of a text what its reader must not see: secrets that we hold, and what looks like one."""

KIBIBYTE: Final = 1024
MEBIBYTE: Final = 1024 * KIBIBYTE


@value
class SandboxLimits:
    """What one run of a program may use. None of them can be switched off."""

    wall_s: float = 30.0
    """From its start to its end, with the time that its tools take, without that of people."""
    interpreter_s: float = 5.0
    """Of that, in the program's own text."""
    memory_bytes: int = 64 * MEBIBYTE
    """Of its values, all together."""
    calls: int = 50
    """Attempts to call a tool, those that were refused among them."""
    parallel: int = 8
    """Calls under way at once; further ones wait for their turn."""
    arguments_bytes: int = 256 * KIBIBYTE
    """Of one call, as JSON."""
    result_bytes: int = MEBIBYTE
    """Of one call, as JSON."""
    console_bytes: int = 64 * KIBIBYTE
    """Of what it prints; of more the middle is left out."""
    value_bytes: int = 256 * KIBIBYTE
    """Of its last value, as JSON."""
    code_bytes: int = 64 * KIBIBYTE
    """Of its text."""
    parked_bytes: int = 16 * MEBIBYTE
    """Of all that is kept while it waits for a person."""
    runs: int = 4
    """Of one principal at once."""

    def __post_init__(self) -> None:
        if min(getattr(self, one.name) for one in fields(self)) <= 0:
            raise ValueError("a limit is a positive number")


@value
class ProgramTool:
    """One tool that a program may try to call."""

    server: str
    name: str
    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=dict)
    output_schema: Mapping[str, Any] | None = None
    read_only: bool = False
    """Whether calling it is known to change nothing."""


class Language(StrEnum):
    """What a program is written in."""

    PYTHON = "python"
    TYPESCRIPT = "typescript"


@value
class Program:
    """A program's text, and the tools that are there for it."""

    code: str
    tools: tuple[ProgramTool, ...]
    language: Language = Language.PYTHON

    @property
    def sha256(self) -> str:
        """Of the text, in hexadecimal."""
        return digest_of(self.code)


class ProgramStatus(StrEnum):
    """How a run of a program ended."""

    OK = "ok"
    PARKED = "awaiting_approval"
    """It has not ended: it goes on once a person has answered."""
    SYNTAX = "syntax"
    """It is no program. Nothing of it was run."""
    TYPES = "typecheck"
    """It would call a tool in a way its schema forbids. Nothing of it was run."""
    ERROR = "error"
    """It raised an exception."""
    WALL = "timeout"
    INTERPRETER = "cpu"
    MEMORY = "memory"
    """By its own word: a program can raise `MemoryError` itself."""
    CALLS = "calls"
    """It wanted to call more tools than it may."""
    OUTPUT = "output"
    """It printed without end, or its value is too large or is no JSON."""
    CRASHED = "crashed"
    """Its interpreter died."""


class CallState(StrEnum):
    """What became of one call of a program's."""

    DONE = "done"
    FAILED = "failed"
    """The tool was called, and says that it failed."""
    REFUSED = "refused"
    """Nothing was sent."""
    WAITING = "awaiting_approval"
    UNKNOWN = "outcome_unknown"
    """It was cut off under way: it may have been carried out."""


@value
class ProgramCall:
    """One call that a program made."""

    seq: int
    """Counted from 1 in the order in which the program made its calls."""
    server: str
    tool: str
    state: CallState
    code: str = ""
    """Why it was refused or failed."""
    read_only: bool = False

    @property
    def may_have_acted(self) -> bool:
        """Whether it may have changed something that the end of its program does not undo."""
        reached = self.state in (CallState.DONE, CallState.FAILED, CallState.UNKNOWN)
        return reached and not self.read_only


@value
class ProgramResult:
    """What became of a program. All text in it is screened, and is still a stranger's."""

    status: ProgramStatus
    sha256: str
    value: Any = None
    """JSON: what its last line evaluates to."""
    console: str = ""
    error: str = ""
    """For its author: what to mend, with the line."""
    calls: tuple[ProgramCall, ...] = ()
    parked: bytes = field(default=b"", repr=False)
    """The run as it stands where it is `PARKED`. Whoever keeps it seals it first: an engine trusts
    what it is told to resume."""
    waits_for: tuple[str, ...] = ()
    """The questions to people that it waits for, by what `NeedsApproval` said."""

    @property
    def side_effects(self) -> tuple[ProgramCall, ...]:
        """What may have been changed, also where the program failed."""
        return tuple(call for call in self.calls if call.may_have_acted)
