"""What the gateway says about itself so that clients find their way (RFC 8414, RFC 9728)."""

from collections.abc import Mapping
from typing import Any

from gateway.oauth.clients import AUTH_METHODS
from gateway.oauth.resources import AGGREGATE, SCOPES, Resources
from gateway.oauth.token_endpoint import GRANT_TYPES

AUTHORIZATION_SERVER_PATH = "/.well-known/oauth-authorization-server"
PROTECTED_RESOURCE_PATH = "/.well-known/oauth-protected-resource"
AUTHORIZE_PATH = "/oauth/authorize"
TOKEN_PATH = "/oauth/token"  # noqa: S105 - a path
JWKS_PATH = "/oauth/jwks.json"


class Metadata:
    """Every document, made once. Each URI derives from the public URL, none from a request."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self.authorization_server: Mapping[str, Any] = _authorization_server(resources.public_url)
        """RFC 8414 section 2."""
        self._protected_resources = {
            endpoint: _protected_resource(resources, endpoint) for endpoint in resources.uris
        }

    def protected_resource(self, endpoint: str) -> Mapping[str, Any] | None:
        """Return the RFC 9728 document of `endpoint`, or nothing where there is no such endpoint.

        The path without an endpoint gives the aggregate's: a client that finds no document for its
        own path looks there, and must see one that it can get a token for.
        """
        return self._protected_resources.get(endpoint or AGGREGATE)

    def challenge_for(self, endpoint: str) -> tuple[str, tuple[str, ...]]:
        """Return `resource_metadata` and `scope` of a 401 at `endpoint` (RFC 9728 section 5.1).

        The scopes are all that the endpoint ever needs, so that one sign-in suffices; a client gets
        no more of them than it is registered for.
        """
        url = f"{self._resources.public_url}{PROTECTED_RESOURCE_PATH}{endpoint}"
        return url, self._resources.scopes_of(endpoint)


def _authorization_server(issuer: str) -> dict[str, Any]:
    # Clients of the MCP SDK read no document without an `authorization_endpoint`, also when they
    # never go there. It supports no response type yet, hence no `code_challenge_methods_supported`.
    return {
        "issuer": issuer,
        "authorization_endpoint": issuer + AUTHORIZE_PATH,
        "token_endpoint": issuer + TOKEN_PATH,
        "jwks_uri": issuer + JWKS_PATH,
        "scopes_supported": list(SCOPES),
        "response_types_supported": [],
        "grant_types_supported": list(GRANT_TYPES),
        "token_endpoint_auth_methods_supported": list(AUTH_METHODS),
    }


def _protected_resource(resources: Resources, endpoint: str) -> dict[str, Any]:
    server = endpoint.removeprefix(AGGREGATE).removeprefix("/")
    return {
        "resource": resources.uris[endpoint],
        "authorization_servers": [resources.public_url],
        "scopes_supported": list(resources.scopes_of(endpoint)),
        "bearer_methods_supported": ["header"],
        "resource_name": f"Douane: {server}" if server else "Douane",
    }
