"""The keys of `servers.NAME` for a server that the gateway starts itself."""

import re
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from gateway.config.section import Section, Words, written
from gateway.config.values import LocalPath, SecretReference
from gateway.upstream.reach import PROXIES, Destination

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


def _destination(text: Any) -> Destination:
    return Destination.of(text if isinstance(text, str) else "")


ListedDestination = Annotated[
    Destination, PlainValidator(_destination), WithJsonSchema({"type": "string"})
]
"""`api.example.com:443`, `*.example.com:443`, `10.0.0.7:5432`."""
Variable = Annotated[str, AfterValidator(_variable)]


def _one_program(words: tuple[str, ...]) -> tuple[str, ...]:
    if any("\0" in word for word in words):
        raise ValueError("a word of a command holds no NUL")
    return words


class Files(Section):
    """What of this machine a jail shows, beside the system and the program itself."""

    read: tuple[LocalPath, ...] = ()
    write: tuple[LocalPath, ...] = ()


def _as_read(given: Any) -> Any:
    # What a validator of a whole section has seen is no JSON any more, in which a list is a tuple.
    return tuple(given) if isinstance(given, list) else given


class Network(Section):
    """What a jailed server may reach, through the gateway's proxy and in no other way.

    `none` is written for a list without any.
    """

    allow: Annotated[tuple[ListedDestination, ...], BeforeValidator(_as_read)] = ()

    @model_validator(mode="before")
    @classmethod
    def _or_none(cls, given: Any) -> Any:
        if given == "none":
            return {}
        if not isinstance(given, dict):
            raise ValueError("write `none`, or list what it reaches under `allow`")  # noqa: TRY004 - pydantic collects ValueError
        return given


def _also_none(schema: dict[str, Any]) -> None:
    schema["anyOf"].insert(0, {"const": "none"})


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
    network: Network | None = Field(default=None, json_schema_extra=_also_none)
    """Without it a jail has none, and without a jail nothing keeps a server from it."""

    @field_validator("jail", "environment", "files", "network")
    @classmethod
    def _of_a_command(cls, given: T, info: ValidationInfo) -> T:
        if _says_something(given) and not info.data.get("command", True):
            raise ValueError("is for a server with a `command`; remove it")
        return given

    @field_validator("network")
    @classmethod
    def _told_once(cls, network: Network | None, info: ValidationInfo) -> Network | None:
        ours = sorted(PROXIES.intersection(info.data.get("environment", {})))
        if network is not None and network.allow and ours:
            raise ValueError(f"the gateway sets `{ours[0]}` itself; remove it from `environment`")
        return network

    @field_validator("files", "network")
    @classmethod
    def _kept_by_a_jail(cls, given: T, info: ValidationInfo) -> T:
        if info.data.get("jail") == "none" and _says_something(given):
            raise ValueError("nothing keeps to it without a jail; remove it, or `jail: none`")
        return given


def _says_something(given: object) -> bool:
    return given not in (None, "auto", {}, Files())
