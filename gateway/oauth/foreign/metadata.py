"""What another authorization server says of itself (RFC 8414, OpenID Connect Discovery 1.0)."""

from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from gateway.errors import EgressRefused, UpstreamFailed
from gateway.oauth.foreign.kept import Kept
from gateway.ports import Clock
from gateway.ports.egress import Fetcher

_OAUTH = "/.well-known/oauth-authorization-server"
_OPENID = "/.well-known/openid-configuration"


class RemoteMetadata:
    """The metadata of issuers that the operator named."""

    def __init__(self, fetcher: Fetcher, *, clock: Clock) -> None:
        self._fetcher = fetcher
        self._clock = clock
        self._kept: dict[str, Kept[Mapping[str, Any]]] = {}

    async def of(self, issuer: str) -> Mapping[str, Any]:
        """Return the metadata of `issuer`, which says of itself that it is `issuer`'s.

        Raises:
            IdentityUnavailable: There is none to be had.

        """
        kept = self._kept.get(issuer)
        if kept is None:
            kept = Kept(partial(self._fetch, issuer), clock=self._clock)
            self._kept[issuer] = kept
        return await kept.current()

    async def _fetch(self, issuer: str) -> Mapping[str, Any]:
        """Return the first document that can be had and is the issuer's.

        Raises:
            UpstreamFailed: None.

        """
        faults = []
        for place in places_of(issuer):
            try:
                answer = await self._fetcher.get(place)
                document = answer.json() if answer.status == HTTPStatus.OK else None
            except (EgressRefused, UpstreamFailed) as fault:
                faults.append(fault.detail)
                continue
            if document is None:
                faults.append(f"status {answer.status}")
            elif document.get("issuer") != issuer:
                # RFC 8414 section 3.3, byte for byte: one server must not speak for another.
                faults.append("another issuer's metadata")
            else:
                return document
        raise UpstreamFailed(
            "The server gave no usable answer.",
            detail=f"{issuer}: {', '.join(dict.fromkeys(faults))}",
        )


def places_of(issuer: str) -> tuple[str, ...]:
    """Return where its metadata may be: RFC 8414 section 3.1, then OpenID Connect Discovery 4.1."""
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    origin = f"{parts.scheme}://{parts.netloc}"
    return f"{origin}{_OAUTH}{path}", f"{origin}{path}{_OPENID}"
