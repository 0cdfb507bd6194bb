"""Clients that an administrator adds, made by the configuration in force."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from gateway.config import Config
from gateway.domain.identity import AuthMethod, Client
from gateway.oauth.clients import ID_OCTETS, SECRET_OCTETS, new_client
from gateway.oauth.redirects import registrable
from gateway.oauth.resources import Resources
from gateway.wiring.foundation import now


def made_client(
    current: Callable[[], Config],
    *,
    name: str,
    grants: tuple[str, ...],
    resources: frozenset[str],
    scopes: frozenset[str],
    groups: frozenset[str],
    trusted_host: bool,
    redirect_uris: tuple[str, ...],
    auth_methods: frozenset[AuthMethod],
    jwks: Mapping[str, Any] | None,
    by: str,
) -> tuple[Client, str]:
    """Return a client as somebody asked for it, and its secret, which is kept nowhere.

    Raises:
        OAuthError: A redirect URI cannot be registered.

    """
    config = current()
    private = frozenset(config.auth.registration.redirect_uris)
    made = new_client(
        name=name,
        grants=grants,
        resources=resources,
        scopes=scopes,
        known=Resources.of(public_url=config.public_url, servers=config.servers),
        groups=groups,
        trusted_host=trusted_host,
        redirect_uris=registrable(list(redirect_uris), private) if redirect_uris else (),
        auth_methods=auth_methods,
        jwks=jwks,
        id_octets=os.urandom(ID_OCTETS),
        secret_octets=os.urandom(SECRET_OCTETS),
        now=now(),
        by=by,
    )
    return made.client, made.secret
