"""Running the OPA binary: one bounded process a question."""

import contextlib
import os
import resource
import subprocess
from collections.abc import Sequence
from pathlib import Path

from gateway.domain._value import value
from gateway.errors import ConfigError
from gateway.processes import end_now

MEMORY_BYTES = 2 * 1024**3
"""Address space of one run. A build that wants more is not a policy but a mistake."""

CPU_SECONDS = 60
WALL_SECONDS = 90.0


@value
class Ran:
    """How one run ended."""

    ok: bool
    out: str
    err: str

    @property
    def lines(self) -> tuple[str, ...]:
        """What it had to say, whichever way it said it, without blank lines."""
        return tuple(line for line in (self.err + "\n" + self.out).splitlines() if line.strip())


class Opa:
    """A binary that was found and checked (`gateway.policy.toolchain`)."""

    def __init__(self, binary: Path) -> None:
        self.binary = binary

    def run(self, *arguments: str, cwd: Path | None = None, stdin: str = "") -> Ran:
        """Run it to its end. It reads no configuration of its own and none of our environment.

        Raises:
            ConfigError: It could not be started, or did not end within the limits.

        """
        command = [str(self.binary), *arguments]
        try:
            with subprocess.Popen(  # noqa: S603 - a checked binary, no shell
                command,
                cwd=cwd,
                env=environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
            ) as process:
                confine(process.pid, cpu_seconds=CPU_SECONDS)
                try:
                    out, err = process.communicate(stdin, timeout=WALL_SECONDS)
                except subprocess.TimeoutExpired as error:
                    end_now(process)
                    raise ConfigError(
                        f"`opa {arguments[0]}` did not end within {WALL_SECONDS:.0f} s"
                    ) from error
        except OSError as error:
            raise ConfigError(
                "the OPA binary could not be started", problems=[str(error)]
            ) from error
        return Ran(ok=process.returncode == 0, out=out, err=err)


def environment() -> dict[str, str]:
    """Return the little that OPA needs: its flags can also be set by `OPA_` variables."""
    return {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}


def confine(pid: int, *, cpu_seconds: int | None) -> None:
    """Bound the memory, and if given the processor time, of a process that has just started.

    Linux only; elsewhere the time limits hold alone.
    """
    if not hasattr(resource, "prlimit"):
        return
    with contextlib.suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        if cpu_seconds is not None:
            resource.prlimit(pid, resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))


def require(ran: Ran, what: str, *, hide: Sequence[str] = ()) -> str:
    """Return what a run printed.

    Raises:
        ConfigError: It failed; the problems are its own lines, without the `hide` prefixes.

    """
    if ran.ok:
        return ran.out
    problems = []
    for line in ran.lines:
        text = line
        for prefix in hide:
            text = text.replace(prefix, "")
        problems.append(text)
    raise ConfigError(what, problems=problems)
