"""The seam between what runs programs and what decides on their calls."""

from collections.abc import Mapping
from typing import Any, Protocol

from gateway.domain._value import value
from gateway.domain.programs import Program, ProgramResult, Redact


class ToolRefused(Exception):
    """A call ends without a result: the program gets an exception with `code` and `text` in it."""

    def __init__(
        self, code: str, text: str, *, reached: bool = False, unknown: bool = False
    ) -> None:
        """Say why, in words for the program's author.

        `reached`: it was sent, and its tool says that it failed (`isError`). `unknown`: it may have
        been carried out, and nobody can tell.
        """
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text
        self.reached = reached
        self.unknown = unknown


class NeedsApproval(Exception):
    """A call waits for a person; nothing was sent. `question` says for which answer."""

    def __init__(self, question: str) -> None:
        super().__init__(question)
        self.question = question


class Broker(Protocol):
    """Carries out a program's calls, each as an ordinary call that is judged by itself."""

    @property
    def who(self) -> str:
        """The person whose calls they are: what is large waits for their turn."""
        ...

    async def call(self, server: str, tool: str, arguments: Mapping[str, Any], *, seq: int) -> Any:
        """Return the result of one call, as JSON values.

        `arguments` are strict JSON within the limits: what policy judges is what is sent. A call
        that waited is made once more, under the same `seq`, when its program goes on. Cancelling
        it means that nobody waits for its result any more.

        Raises:
            ToolRefused: It has none.
            NeedsApproval: A person must answer first; the program is parked.

        """
        ...


@value
class Confinement:
    """What holds a program's interpreter besides the interpreter itself."""

    jailed: bool
    """Whether it has neither the network nor files of this machine, whatever it does."""
    reason: str = ""
    """Why not; empty where it is."""


class Engine(Protocol):
    """Runs programs of one language, each in a process of its own that can reach nothing.

    Its contract test is the list of attempts to escape (`tests/sandbox/escapes.py`).
    """

    @property
    def language(self) -> str:
        """Which: `python` or `typescript`."""
        ...

    @property
    def confinement(self) -> Confinement:
        """How its processes are held, for those who operate it."""
        ...

    @property
    def checks_types(self) -> bool:
        """Whether a program whose types are wrong is told so, and not run."""
        ...

    async def run(self, program: Program, broker: Broker, *, redact: Redact) -> ProgramResult:
        """Run a program to its end, or to where only people can let it go on.

        What its tools do is done when this returns: a call that is still under way has ended, or
        was cut off and is listed as unknown. Cancelling cuts off likewise.

        Raises:
            RateLimited: Too many programs run already.

        """
        ...

    async def resume(
        self,
        parked: bytes,
        program: Program,
        broker: Broker,
        *,
        refused: Mapping[int, ToolRefused],
        redact: Redact,
    ) -> ProgramResult:
        """Let a parked run go on, in whichever process; its calls and times count on.

        Each call that waited is made again, or raises in the program what `refused` says for its
        `seq`. `program` is the one that was parked, with the tools that are there for it now.
        `parked` must be what `run` returned: whoever kept it has verified its seal.

        Raises:
            ValueError: `parked` is of another program, or no parked run.
            RateLimited: Too many programs run already. Nothing was done; it can be resumed later.

        """
        ...
