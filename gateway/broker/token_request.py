"""One request to a token endpoint, and what it gave (RFC 6749 sections 3.2, 5)."""

import base64
import re
from collections.abc import Mapping
from dataclasses import field
from functools import partial
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote_plus

from gateway.broker.challenge import scopes_in
from gateway.broker.possession import Holds
from gateway.broker.sealing import OurClient
from gateway.domain._value import value
from gateway.errors import EgressRefused, UpstreamFailed
from gateway.ports.egress import Fetched, Fetcher

_PUBLIC: Final = "The upstream's authorization server gave no usable answer."
_BEARER: Final = re.compile(r"[A-Za-z0-9\-._~+/]{1,16384}=*")
"""RFC 6750 section 2.1; nothing else can stand in a header."""
_OPAQUE: Final = re.compile(r"[\x20-\x7e]{0,16384}")
_ERROR: Final = re.compile(r"[a-z_]{1,40}")
_REFUSED: Final = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_LONGEST_LIFE_S: Final = 10 * 366 * 86_400.0


class TokenRefused(UpstreamFailed):
    """The authorization server said no; `error` is why (RFC 6749 section 5.2)."""

    def __init__(self, error: str) -> None:
        super().__init__(_PUBLIC, detail=f"the token endpoint refused: {error}")
        self.error = error


@value
class Tokens:
    """What a token endpoint gave."""

    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    """Empty if there is none, or no new one."""
    scopes: tuple[str, ...]
    """Empty if they are those that were asked for."""
    lifetime_s: float | None


async def request_tokens(
    fetcher: Fetcher,
    endpoint: str,
    client: OurClient,
    form: Mapping[str, str],
    *,
    who: str,
    holds: Holds | None = None,
) -> Tokens:
    """Ask `endpoint` for tokens as `client`, once; bound to the key that it `holds`, if to one.

    It was named on the word of the upstream `who`.
    Who wants a nonce in the proof has done nothing else, and is asked once more with it.

    Raises:
        TokenRefused: It says no.
        UpstreamFailed: It says nothing of use, or is where the gateway must not go.

    """
    ask = partial(_asked, fetcher, endpoint, client, form, holds, who=who)
    answer = await ask()
    if holds is not None and holds.is_asked_again(endpoint, answer) and answer.status in _REFUSED:
        answer = await ask()
    if answer.status in _REFUSED:
        said = str(answer.json().get("error"))
        raise TokenRefused(said if _ERROR.fullmatch(said) else "an unknown error")
    if answer.status != HTTPStatus.OK:
        raise UpstreamFailed(_PUBLIC, detail=f"the token endpoint: status {answer.status}")
    return _tokens(answer.json(), "bearer" if holds is None else "dpop")


async def _asked(
    fetcher: Fetcher,
    endpoint: str,
    client: OurClient,
    form: Mapping[str, str],
    holds: Holds | None,
    *,
    who: str,
) -> Fetched:
    proof, headers = _proof(client)
    held = {} if holds is None else holds.header(endpoint)
    try:
        return await fetcher.post(
            endpoint,
            form={**form, **proof},
            headers={"accept": "application/json", **headers, **held},
            who=who,
        )
    except EgressRefused as error:
        raise UpstreamFailed(_PUBLIC, detail=str(error)) from error


def _proof(client: OurClient) -> tuple[dict[str, str], dict[str, str]]:
    """Return the form fields and header fields that prove who we are (RFC 6749 section 2.3.1)."""
    if client.method == "client_secret_basic":
        pair = f"{quote_plus(client.id)}:{quote_plus(client.secret)}".encode()
        return {}, {"authorization": f"Basic {base64.b64encode(pair).decode()}"}
    if client.method == "client_secret_post":
        return {"client_id": client.id, "client_secret": client.secret}, {}
    return {"client_id": client.id}, {}


def _tokens(said: Mapping[str, Any], wanted: str) -> Tokens:
    access, refresh = said.get("access_token"), said.get("refresh_token")
    kind, scope = said.get("token_type"), said.get("scope")
    if not isinstance(access, str) or not _BEARER.fullmatch(access):
        raise UpstreamFailed(_PUBLIC, detail="the token endpoint gave no bearer token")
    if not isinstance(kind, str) or kind.lower() != wanted:
        # RFC 6749 section 7.1: a token of a type that we do not know must not be used. Nor one that
        # is good for whoever has it where it was to be bound.
        raise UpstreamFailed(_PUBLIC, detail="the token endpoint gave a token of another type")
    return Tokens(
        access_token=access,
        refresh_token=refresh if isinstance(refresh, str) and _OPAQUE.fullmatch(refresh) else "",
        scopes=scopes_in(scope.split()) if isinstance(scope, str) else (),
        lifetime_s=_lifetime_s(said.get("expires_in")),
    )


def _lifetime_s(said: object) -> float | None:
    if isinstance(said, str) and said.isascii() and said.isdigit():
        said = int(said[:12])  # some servers write a string
    if isinstance(said, bool) or not isinstance(said, int | float):
        return None
    return float(min(max(said, 0), _LONGEST_LIFE_S))  # JSON has integers beyond a double
