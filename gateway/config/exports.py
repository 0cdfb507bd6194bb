"""Where the record goes from here, as it grows: files and collectors."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from gateway.config.section import Section, written
from gateway.config.values import Duration, LocalPath, SecretReference, TrustedEndpoint

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}", re.ASCII)
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}", re.ASCII)
_OURS = frozenset(
    {
        "accept",
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(
            "an export's name is 1 to 32 of a-z, 0-9, `_`, `-`, and begins with a-z or 0-9"
        )
    return text


def _header(name: str) -> str:
    if not _HEADER.fullmatch(name) or name.lower() in _OURS:
        raise ValueError(f"`{name}` is no header that can be added")
    return name


Headers = dict[Annotated[str, AfterValidator(_header)], SecretReference]
"""Header fields to send along; their values are secrets."""


class Export(Section):
    """One place that every record goes to, from the first one on."""

    format: Literal["jsonl", "csv", "ocsf", "cef", "otlp", "otlp-traces"]
    file: LocalPath | None = None
    url: TrustedEndpoint | None = Field(default=None, validate_default=True)
    headers: Headers = written({})
    batch: int = Field(default=500, ge=1, le=5_000)
    """How many records are handed on at once, at most."""
    timeout: Duration = written("10s")
    """Over HTTP: from looking the name up to the answer's end."""
    rotate: int = Field(default=100 << 20, ge=1 << 10)
    """Bytes from which on a file is renamed, and a new one begun."""

    @field_validator("url")
    @classmethod
    def _one_of_two(cls, url: str | None, info: ValidationInfo) -> str | None:
        if (info.data.get("file") is None) is (url is None):
            raise ValueError("give either `file` or `url`")
        return url

    @field_validator("headers")
    @classmethod
    def _of_a_url(cls, headers: Headers, info: ValidationInfo) -> Headers:
        if headers and info.data.get("url") is None:
            raise ValueError("is for a `url` only")
        return headers


Exports = dict[Annotated[str, AfterValidator(_name)], Export]
