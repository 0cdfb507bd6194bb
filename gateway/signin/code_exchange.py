"""Trading a provider's authorization code for its tokens (RFC 6749 section 4.1.3, RFC 7636)."""

import base64
from collections.abc import Mapping
from dataclasses import field
from http import HTTPStatus
from typing import Any
from urllib.parse import quote_plus

from gateway.domain._value import value
from gateway.errors import EgressRefused, IdentityUnavailable, UpstreamFailed
from gateway.ports.egress import Fetched, Fetcher
from gateway.signin.errors import SignInRefused

_BASIC, _POST = "client_secret_basic", "client_secret_post"


@value
class ProviderSettings:
    """What the operator says of one provider."""

    issuer: str
    """As its metadata and its tokens write it, byte for byte."""
    client_id: str
    client_secret: str = field(default="", repr=False)
    """Empty for a public client."""
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    algorithm: str = "RS256"
    """With which it signs ID tokens; never what its metadata or a token says."""
    groups_claim: str = "groups"
    groups: Mapping[str, frozenset[str]]
    """Its group -> ours; another gives nothing."""
    everybody: frozenset[str] = frozenset()
    name_claim: str = "name"


async def exchange_code(
    fetcher: Fetcher,
    settings: ProviderSettings,
    metadata: Mapping[str, Any],
    *,
    code: str,
    verifier: str,
    redirect_uri: str,
) -> Mapping[str, Any]:
    """Return the token endpoint's answer, its tokens unverified.

    Raises:
        SignInRefused: The provider does not know the code.
        IdentityUnavailable: It gave no usable answer.

    """
    endpoint = metadata.get("token_endpoint")
    if not isinstance(endpoint, str):
        raise unavailable("the metadata names no token endpoint")
    headers, proof = _proof(settings, metadata)
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect_uri,
        "code_verifier": verifier,
        **proof,
    }
    try:
        return _tokens(await fetcher.post(endpoint, form=form, headers=headers))
    except (EgressRefused, UpstreamFailed) as fault:
        raise unavailable(f"token endpoint: {fault.detail}") from fault


def unavailable(detail: str) -> IdentityUnavailable:
    return IdentityUnavailable(
        "The identity provider cannot be used now. Try again later.", detail=detail
    )


def _proof(
    settings: ProviderSettings, metadata: Mapping[str, Any]
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the headers and the parameters that prove who we are (RFC 6749 section 2.3.1)."""
    if not settings.client_secret:
        return {}, {"client_id": settings.client_id}
    # RFC 8414 section 2: what it takes if it does not say.
    taken = metadata.get("token_endpoint_auth_methods_supported", [_BASIC])
    if isinstance(taken, list) and _BASIC in taken:
        pair = f"{quote_plus(settings.client_id)}:{quote_plus(settings.client_secret)}"
        return {"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}, {}
    if isinstance(taken, list) and _POST in taken:
        return {}, {"client_id": settings.client_id, "client_secret": settings.client_secret}
    raise unavailable("the provider takes no client secret")


def _tokens(answer: Fetched) -> Mapping[str, Any]:
    if answer.status == HTTPStatus.OK:
        return answer.json()
    if answer.status == HTTPStatus.BAD_REQUEST and answer.json().get("error") == "invalid_grant":
        raise SignInRefused(
            "The answer of the identity provider is not valid. Begin again.",
            detail="the provider does not know the code",
        )
    raise unavailable(f"token endpoint: status {answer.status}")
