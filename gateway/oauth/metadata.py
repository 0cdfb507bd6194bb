"""What the gateway says about itself so that clients find their way (RFC 8414, RFC 9728)."""

from collections.abc import Mapping
from typing import Any

from gateway.domain._value import value
from gateway.domain.calls import AGGREGATE
from gateway.domain.identity import AuthMethod
from gateway.oauth.client_keys import ALGORITHMS
from gateway.oauth.clients import GRANT_TYPES, JWT_BEARER
from gateway.oauth.grants.token_exchange import TOKEN_EXCHANGE
from gateway.oauth.possession import NO_PROOFS, ProofRules
from gateway.oauth.proofs import ALGORITHMS as PROOF_ALGORITHMS
from gateway.oauth.resources import ADMIN_API, SCOPES, Resources
from gateway.oauth.run_details import TYPE as RUN

AUTHORIZATION_SERVER_PATH = "/.well-known/oauth-authorization-server"
PROTECTED_RESOURCE_PATH = "/.well-known/oauth-protected-resource"
AUTHORIZE_PATH = "/oauth/authorize"
TOKEN_PATH = "/oauth/token"  # noqa: S105 - a path
REGISTER_PATH = "/oauth/register"
REVOKE_PATH = "/oauth/revoke"
DEVICE_PATH = "/oauth/device_authorization"
JWKS_PATH = "/oauth/jwks.json"
CLIENT_METADATA_PATH = "/oauth/client-metadata.json"
"""Where the gateway describes itself to the authorization servers of upstreams."""

ID_JAG_PROFILE = "urn:ietf:params:oauth:grant-profile:id-jag"
"""Identity Assertion Authorization Grant: a token for an identity provider's word."""


@value
class Offers:
    """What of the authorization server is in use: the section `auth` of the configuration."""

    registration: bool = True
    """Whether clients may register themselves, with an initial access token or without."""
    documents: bool = True
    """Whether clients may name themselves by the URL of their metadata document."""
    enterprise: bool = False
    """Whether there are identity providers whose assertions clients may trade."""
    external_issuer: str = ""
    """The other authorization server whose tokens count here, if it is not ours."""


class Metadata:
    """Every document, made once. Each URI derives from the public URL, none from a request."""

    def __init__(
        self, resources: Resources, offers: Offers, proofs: ProofRules = NO_PROOFS
    ) -> None:
        self._resources = resources
        self._proofs = proofs
        issuer = offers.external_issuer or resources.public_url
        self.authorization_server: Mapping[str, Any] | None = (
            None if offers.external_issuer else _authorization_server(issuer, offers, proofs)
        )
        """RFC 8414 section 2; nothing where another server issues the tokens."""
        self._protected_resources = {
            endpoint: _protected_resource(resources, endpoint, issuer, proofs)
            for endpoint in resources.uris
        }

    def protected_resource(self, endpoint: str) -> Mapping[str, Any] | None:
        """Return the RFC 9728 document of `endpoint`, or nothing where there is no such endpoint.

        The path without an endpoint gives the aggregate's: a client that finds no document for its
        own path looks there, and must see one that it can get a token for.
        """
        return self._protected_resources.get(endpoint or AGGREGATE)

    def challenge_for(self, endpoint: str) -> tuple[str, tuple[str, ...]]:
        """Return `resource_metadata` and `scope` of a 401 at `endpoint` (RFC 9728 section 5.1).

        The scopes are those to begin with; what an operation needs beyond them, its 403 says. A
        client gets no more of them than it is registered for.
        """
        url = f"{self._resources.public_url}{PROTECTED_RESOURCE_PATH}{endpoint}"
        return url, self._resources.first_scopes_of(endpoint)

    def proofs_for(self, endpoint: str) -> tuple[str, ...]:
        """Return `algs` of a 401 at `endpoint` (RFC 9449 section 7.1); none where no token is bound."""
        return self._proofs.algorithms(endpoint)


def _authorization_server(issuer: str, offers: Offers, proofs: ProofRules) -> dict[str, Any]:
    methods = [method.value for method in AuthMethod]
    document = {
        "issuer": issuer,
        "authorization_endpoint": issuer + AUTHORIZE_PATH,
        "token_endpoint": issuer + TOKEN_PATH,
        "revocation_endpoint": issuer + REVOKE_PATH,
        "device_authorization_endpoint": issuer + DEVICE_PATH,
        "jwks_uri": issuer + JWKS_PATH,
        # Without `offline_access`: clients that see it ask for it, and for consent every time; a
        # refresh token needs no scope here.
        "scopes_supported": list(SCOPES),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": [
            *(grant for grant in GRANT_TYPES if grant != JWT_BEARER or offers.enterprise),
            TOKEN_EXCHANGE,
        ],
        "authorization_details_types_supported": [RUN],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": methods,
        "token_endpoint_auth_signing_alg_values_supported": list(ALGORITHMS),
        "revocation_endpoint_auth_methods_supported": methods,
        "revocation_endpoint_auth_signing_alg_values_supported": list(ALGORITHMS),
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": offers.documents,
    }
    if offers.registration:
        document["registration_endpoint"] = issuer + REGISTER_PATH
    if offers.enterprise:
        document["authorization_grant_profiles_supported"] = [ID_JAG_PROFILE]
    if proofs.taken:
        document["dpop_signing_alg_values_supported"] = list(PROOF_ALGORITHMS)
    return document


def _protected_resource(
    resources: Resources, endpoint: str, issuer: str, proofs: ProofRules
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "resource": resources.uris[endpoint],
        "authorization_servers": [issuer],
        # Those to begin with: clients ask for all that they find here.
        "scopes_supported": list(resources.first_scopes_of(endpoint)),
        "bearer_methods_supported": ["header"],
        "resource_name": _name(endpoint),
    }
    if endpoint in proofs.taken:
        document["dpop_signing_alg_values_supported"] = list(proofs.algorithms(endpoint))
        document["dpop_bound_access_tokens_required"] = endpoint in proofs.required
    return document


def _name(endpoint: str) -> str:
    if endpoint == ADMIN_API:
        return "Douane: administration"
    server = endpoint.removeprefix(AGGREGATE).removeprefix("/")
    return f"Douane: {server}" if server else "Douane"
