"""The way to an authorization server and back, as two query strings (RFC 6749 section 4.1)."""

import base64
import hashlib
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl

from gateway.broker.discovery import Found
from gateway.broker.urls import with_query
from gateway.errors import Forbidden, UpstreamFailed

NOT_BEGUN_HERE: Final = "This connection was not begun in this browser, or it has ended already."
ANOTHERS: Final = "The answer does not come from the authorization server that was asked."
OFFLINE: Final = "offline_access"
"""OpenID Connect Core 1.0 section 11: asks for a refresh token."""

_MOST_QUERY: Final = 8192


def authorization_url(
    endpoint: str, parameters: Mapping[str, str], *, scopes: tuple[str, ...], verifier: str
) -> str:
    """Return where the browser goes: `parameters` that are empty are left out.

    Raises:
        UpstreamFailed: The endpoint's own query chooses one of them for us.

    """
    challenge = hashlib.sha256(verifier.encode()).digest()
    asked = {
        "response_type": "code",
        **parameters,
        "code_challenge": base64.urlsafe_b64encode(challenge).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
        "scope": " ".join(scopes),
        # Without it the scope is ignored (OpenID Connect Core 1.0 section 11).
        "prompt": "consent" if OFFLINE in scopes else "",
    }
    try:
        return with_query(endpoint, {name: text for name, text in asked.items() if text})
    except ValueError as error:
        raise UpstreamFailed(
            "The upstream's authorization server cannot be used.", detail=str(error)
        ) from error


def wanted_scopes(found: Found, extra: tuple[str, ...], held: tuple[str, ...]) -> tuple[str, ...]:
    """Return what to ask for: what there is already and what is wanted now.

    A wider connection keeps what the narrower one had (MCP 2026-07-28, scope challenge handling).
    """
    wanted = (*held, *extra) if extra else found.scopes
    if wanted and OFFLINE in found.server.scopes:
        wanted = (*wanted, OFFLINE)
    return tuple(dict.fromkeys(wanted))


def read_answer(query: bytes) -> dict[str, str]:
    """Return an authorization response's parameters, each present once (RFC 6749 section 3.1).

    Raises:
        Forbidden: It is none of ours.

    """
    try:
        pairs = parse_qsl(query[: _MOST_QUERY + 1].decode("ascii"), keep_blank_values=True)
    except ValueError:
        pairs = []
    answer = dict(pairs)
    if len(query) > _MOST_QUERY or len(answer) != len(pairs) or not answer.get("state"):
        raise Forbidden(NOT_BEGUN_HERE, detail="a malformed answer")
    return answer


def require_issuer(answer: Mapping[str, str], issuer: str, *, names_itself: bool) -> None:
    """Return if `answer` comes from the authorization server that was asked (RFC 9207 section 2.4).

    Compared byte for byte, and before the code or an error is looked at.

    Raises:
        Forbidden: It comes from another, or does not say so though it always does.

    """
    said = answer.get("iss")
    if names_itself if said is None else said != issuer:
        raise Forbidden(ANOTHERS, detail="iss is missing" if said is None else "iss is another's")
