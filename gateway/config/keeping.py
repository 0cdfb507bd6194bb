"""How the record is kept: when it is signed, where it goes in need, and for how long."""

from pydantic import Field, ValidationInfo, field_validator

from gateway.config.exports import Headers
from gateway.config.section import Section, written
from gateway.config.values import Duration, LocalPath, TrustedEndpoint
from gateway.config.witnesses import OneEach


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
