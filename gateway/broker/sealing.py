"""What is kept sealed of a person's connection, and of our registrations."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import orjson

from gateway.domain._value import value
from gateway.errors import Unsealable
from gateway.ports.secrets import Sealer


@value
class OurClient:
    """What we are to one authorization server."""

    id: str
    secret: str = field(default="", repr=False)
    method: str = "none"
    """How we prove it at the token endpoint (RFC 7591 section 2)."""

    @property
    def content(self) -> dict[str, Any]:
        return {"id": self.id, "secret": self.secret, "method": self.method}


@value
class Secrets:
    """One person's tokens for one upstream, and how to get the next ones."""

    access_token: str = field(repr=False)
    refresh_token: str = field(default="", repr=False)
    url: str
    """The upstream's endpoint that they are for, and that alone sees them."""
    token_endpoint: str
    resource: str
    """What to send as `resource`; empty to send none."""
    client: OurClient
    key: str = field(default="", repr=False)
    """To which the tokens are bound; empty if they are to none."""

    def sealed(self, sealer: Sealer, user_id: str, server: str) -> str:
        """Return this, sealed for the person's connection to `server` and no other."""
        content = {
            "access_token": self.access_token,
            "refresh_token": self.refresh_token,
            "url": self.url,
            "token_endpoint": self.token_endpoint,
            "resource": self.resource,
            "client": self.client.content,
            **({"key": self.key} if self.key else {}),
        }
        return seal(sealer, content, _row(user_id, server))

    @classmethod
    def opened(cls, sealer: Sealer, sealed: str, user_id: str, server: str) -> "Secrets":
        """Return what `sealed` gave.

        Raises:
            Unsealable: It was sealed for somebody else, another server, or by another key.

        """
        content = unseal(sealer, sealed, _row(user_id, server))
        return cls(**{**content, "client": OurClient(**content["client"])})


def seal(sealer: Sealer, content: Mapping[str, Any], row: str) -> str:
    return sealer.seal(orjson.dumps(content), row)


def unseal(sealer: Sealer, sealed: str, row: str) -> dict[str, Any]:
    """Return the content that was sealed for `row`.

    Raises:
        Unsealable: It was sealed for another row, or by another key.

    """
    content = orjson.loads(sealer.open(sealed, row))
    if not isinstance(content, dict):
        raise Unsealable("a stored secret cannot be used", detail=row)
    return content


def _row(user_id: str, server: str) -> str:
    return f"connections:{user_id}:{server}"
