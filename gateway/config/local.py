"""The keys of `servers.NAME` for a server that the gateway starts itself."""

import re
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, ValidationInfo, field_validator

from gateway.config.section import Section, Words, written
from gateway.config.values import LocalPath, SecretReference

T = TypeVar("T")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_OURS = frozenset({"PATH", "HOME", "LANG"})


def _variable(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError("a variable's name is of A-Z, a-z, 0-9 and `_`, and begins with no digit")
    if name in _OURS:
        raise ValueError(f"the gateway sets `{name}` itself; remove it")
    if name.startswith("LD_"):
        # What starts the jail would heed it, outside.
        raise ValueError("says what the system's own programs load; remove it")
    return name


Variable = Annotated[str, AfterValidator(_variable)]


def _one_program(words: tuple[str, ...]) -> tuple[str, ...]:
    if any("\0" in word for word in words):
        raise ValueError("a word of a command holds no NUL")
    return words


class Files(Section):
    """What of this machine a jail shows, beside the system and the program itself."""

    read: tuple[LocalPath, ...] = ()
    write: tuple[LocalPath, ...] = ()


class LocalServer(Section):
    """How a server is started, if the gateway starts it."""

    command: Annotated[Words, AfterValidator(_one_program)] = ()
    """The program and its arguments; no shell reads them."""
    folder: LocalPath = written(".")
    """Where it starts."""
    jail: Literal["auto", "none"] = "auto"
    """`auto`: in a jail, or not at all; `none`: as the gateway's own user, with all that it may."""
    environment: dict[Variable, SecretReference] = written({})
    """All that it finds in its environment beside `PATH`, `LANG` and, in a jail, `HOME`."""
    files: Files = written({})
    network: Literal["none"] | None = None
    """A jail has none; without a jail nothing keeps a server from it."""

    @field_validator("jail", "environment", "files", "network")
    @classmethod
    def _of_a_command(cls, given: T, info: ValidationInfo) -> T:
        if _says_something(given) and not info.data.get("command", True):
            raise ValueError("is for a server with a `command`; remove it")
        return given

    @field_validator("files", "network")
    @classmethod
    def _kept_by_a_jail(cls, given: T, info: ValidationInfo) -> T:
        if info.data.get("jail") == "none" and _says_something(given):
            raise ValueError("nothing keeps to it without a jail; remove it, or `jail: none`")
        return given


def _says_something(given: object) -> bool:
    return given not in (None, "auto", {}, Files())
