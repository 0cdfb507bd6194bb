"""How a command fails: one line on standard error, and an exit status that says why."""

from typing import IO, Any

import click

from gateway.cli.pasted import same_place
from gateway.errors import (
    BadCommand,
    ConfigError,
    GatewayError,
    InsufficientScope,
    Unauthenticated,
)

NO = 1
"""Exit status: it worked, and the answer is no."""
WRONG_USE = 2
"""Exit status: the command, its arguments or the configuration cannot be used."""

_SIGN_IN = {Unauthenticated.code, InsufficientScope.code}


def seen(text: str) -> str:
    """Return `text` with all that no terminal shows spelled out: others may have written parts of it."""
    return "".join(c if c == "\n" or c.isprintable() else f"\\u{{{ord(c):x}}}" for c in text)


class Failed(click.ClickException):
    """A command that ends with one line on standard error."""

    def __init__(self, message: str, *, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click reads the instance's
        self.told = same_place(message)  # while the command runs of which this is about

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message, with the commands that it names as they can be pasted."""
        click.echo(f"douane: {seen(self.told)}", file=file, err=file is None)

    @classmethod
    def of(cls, error: GatewayError) -> "Failed":
        """Say an error of ours to a person; the problems of a file are a line each."""
        if isinstance(error, ConfigError):
            lines = [f"{error.public}:", *error.problems] if error.problems else [error.public]
            return cls("\n".join(lines), exit_code=WRONG_USE)
        reasons = [message for _, message in error.reasons]
        return cls._refused(error.code, error.public, reasons)

    @classmethod
    def from_answer(cls, answer: dict[str, Any]) -> "Failed":
        """Say what a running gateway answered."""
        reasons = [str(reason.get("message", "")) for reason in answer.get("reasons", [])]
        if answer.get("code") in _SIGN_IN:
            reasons.append("sign in with `douane login`, or forget the sign-in: `douane logout`")
        return cls._refused(str(answer.get("code")), str(answer.get("message")), reasons)

    @classmethod
    def _refused(cls, code: str, text: str, reasons: list[str]) -> "Failed":
        exit_code = WRONG_USE if code in {BadCommand.code, ConfigError.code} else NO
        return cls("; ".join([text, *reasons]), exit_code=exit_code)
