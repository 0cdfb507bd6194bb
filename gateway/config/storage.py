"""Where everything is kept that a gateway does not read from its configuration."""

from typing import Literal

from pydantic import ValidationInfo, field_validator

from gateway.config.section import Section
from gateway.config.values import SecretReference


class Storage(Section):
    kind: Literal["sqlite", "postgres"] = "sqlite"
    """`sqlite`: files in `data_dir`, of one gateway; `postgres`: a database that many share."""
    url: SecretReference | None = None
    """Of `postgres`: how it is reached, as libpq takes it."""
    durability: Literal["replicated", "power", "process"] = "power"
    """Of `postgres`: what a record survives before anything it records happens: `power` is a crash of
    the server's machine, `replicated` the loss of that machine, and `process` the end of the gateway."""

    @field_validator("url")
    @classmethod
    def _where_it_is_used(
        cls, url: SecretReference | None, info: ValidationInfo
    ) -> SecretReference | None:
        shared = info.data.get("kind") == "postgres"
        if shared and url is None:
            raise ValueError("say by reference where it is: `env:NAME` or `file:PATH`")
        if url is not None and not shared:
            raise ValueError("is for `kind: postgres` only")
        return url

    @field_validator("durability")
    @classmethod
    def _of_a_server(cls, durability: str, info: ValidationInfo) -> str:
        if durability != "power" and info.data.get("kind") != "postgres":
            raise ValueError("is for `kind: postgres` only; with SQLite write `audit.durability`")
        return durability
