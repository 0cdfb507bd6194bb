"""How the record is kept: when it is signed, where it goes in need, and for how long."""

import re
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    Field,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from gateway.audit.cosignature import WitnessKey
from gateway.config.exports import Headers
from gateway.config.section import Section, written
from gateway.config.values import Duration, LocalPath, TrustedEndpoint

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}", re.ASCII)


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(
            "a witness's name is 1 to 32 of a-z, 0-9, `_`, `-`, and begins with a-z or 0-9"
        )
    return text


def _key(text: Any) -> str:
    return str(WitnessKey.parse(text if isinstance(text, str) else ""))


def _prefix(url: str) -> str:
    if "?" in url:
        raise ValueError("a witness's submission prefix has no query")
    return url


def _one_each(witnesses: "Witnesses") -> "Witnesses":
    if len({one.key for one in witnesses.values()}) < len(witnesses):
        raise ValueError("two witnesses have the same key; name each one once")
    return witnesses


class Witness(Section):
    """A witness as C2SP tlog-witness says."""

    url: Annotated[TrustedEndpoint, AfterValidator(_prefix)]
    """Its submission prefix."""
    key: Annotated[str, PlainValidator(_key), WithJsonSchema({"type": "string"})]
    """Its public key, as C2SP tlog-cosignature spells it."""
    every: Duration = written("1m")
    """It is asked at most so often."""


Witnesses = dict[Annotated[str, AfterValidator(_name)], Witness]
OneEach = Annotated[Witnesses, AfterValidator(_one_each)]


class Checkpoints(Section):
    """When what was recorded is signed: whichever comes first. And where that is kept, too."""

    every: Duration = written("1s")
    records: int = Field(default=5_000, ge=1, le=1_000_000)
    file: LocalPath | None = None
    """Every checkpoint is appended there; best on another volume, that others cannot write."""
    url: TrustedEndpoint | None = None
    """Every checkpoint is posted there."""
    headers: Headers = written({})
    """What to send along to `url`."""
    witnesses: OneEach = written({})
    """Who cosigns the newest one."""

    @field_validator("headers")
    @classmethod
    def _of_a_url(cls, headers: Headers, info: ValidationInfo) -> Headers:
        if headers and info.data.get("url") is None:
            raise ValueError("is for a `url` only")
        return headers


class SpoolSection(Section):
    """Where records go that the database does not take."""

    path: LocalPath | None = None
    """`None` is `spool` in `data_dir`."""
    bytes: int = Field(default=64 << 20, ge=64 << 10, le=1 << 30)
    """Taken from the disk at the start."""


class Retention(Section):
    """What is archived, where, and what is then removed."""

    keep: Duration | None = None
    """What is older is archived and removed by itself; `None`: nothing is."""
    archive: LocalPath | None = None
    """`None` is `archive` in `data_dir`."""
