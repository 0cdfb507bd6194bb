"""OAuth clients: how one is made, and the one that is built in."""

import base64
from typing import Any

import pytest

from gateway.domain.identity import AuthMethod, ClientKind
from gateway.oauth.builtin import (
    AUTHORIZATION_CODE,
    COMMAND_LINE,
    DEVICE_CODE,
    REFRESH_TOKEN,
    with_builtin,
)
from gateway.oauth.clients import CLIENT_CREDENTIALS, JWT_BEARER, new_client, secret_hash
from gateway.storage.identity.store import IdentityStores
from tests.oauth.assertions import EC_KEY, public
from tests.oauth.world import MAIL, NOW, RESOURCES, Hand, client

JWKS = {"keys": [public(EC_KEY, kid="k1")]}
CALLBACK = "http://127.0.0.1/callback"
RIGHT: dict[str, Any] = {
    "name": "agent",
    "resources": frozenset({MAIL}),
    "scopes": frozenset({"tools:call"}),
    "known": RESOURCES,
    "id_octets": b"\x01" * 16,
    "secret_octets": b"\x01" * 32,
    "now": NOW,
    "by": "alice",
}
NONE = frozenset({AuthMethod.NONE})
BY_KEY = frozenset({AuthMethod.PRIVATE_KEY_JWT})


def test_a_new_client_has_a_random_secret_of_which_only_a_hash_is_kept():
    new = client()
    assert new.secret == base64.urlsafe_b64encode(b"\x01" * 32).rstrip(b"=").decode()
    assert new.client.id == "01" * 16
    assert new.client.secret_hash == secret_hash(new.secret)
    assert new.client.kind is ClientKind.REGISTERED
    assert new.client.grants == ("client_credentials",)
    assert new.client.auth_methods == {AuthMethod.BASIC, AuthMethod.POST}
    assert (new.client.created_at, new.client.created_by) == (NOW, "alice")
    assert new.secret not in repr(new)
    assert new.client.secret_hash not in repr(new)


def test_a_public_client_has_no_secret():
    new = new_client(
        **RIGHT,
        auth_methods=NONE,
        grants=(AUTHORIZATION_CODE, REFRESH_TOKEN),
        redirect_uris=(CALLBACK,),
    )
    assert (new.secret, new.client.secret_hash) == ("", "")
    assert new.client.is_public
    assert new.client.redirect_uris == (CALLBACK,)


def test_a_client_with_a_key_has_no_secret_and_only_its_public_half_is_kept():
    new = new_client(**RIGHT, auth_methods=BY_KEY, jwks=JWKS)
    assert (new.secret, new.client.secret_hash) == ("", "")
    assert '"kid":"k1"' in new.client.jwks


def test_a_client_may_have_a_secret_and_a_key():
    new = new_client(**RIGHT, auth_methods=BY_KEY | {AuthMethod.BASIC}, jwks=JWKS)
    assert new.client.secret_hash == secret_hash(new.secret)


@pytest.mark.parametrize(
    "grants",
    [
        (CLIENT_CREDENTIALS,),
        (DEVICE_CODE, REFRESH_TOKEN),
        (JWT_BEARER,),
        (CLIENT_CREDENTIALS, JWT_BEARER),
    ],
)
def test_a_client_may_have_any_grant_that_needs_no_browser(grants):
    assert new_client(**RIGHT, grants=grants).client.grants == grants


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": " agent"},
        {"name": "a\nb"},
        {"name": "a\u202eb"},
        {"name": "x" * 81},
        {"resources": frozenset()},
        {"resources": frozenset({"/mcp/none"})},
        {"resources": frozenset({MAIL, "/"})},
        {"scopes": frozenset()},
        {"scopes": frozenset({"tools:call", "everything"})},
        {"id_octets": b"\x01" * 15},
        {"secret_octets": b"\x01" * 31},
        {"grants": ()},
        {"grants": ("password",)},
        {"grants": (CLIENT_CREDENTIALS, CLIENT_CREDENTIALS)},
        {"grants": (REFRESH_TOKEN,)},
        {"grants": (AUTHORIZATION_CODE,)},
        {"redirect_uris": (CALLBACK,)},
        {"auth_methods": frozenset()},
        {"auth_methods": NONE},
        {"auth_methods": NONE, "grants": (JWT_BEARER,)},
        {"auth_methods": NONE | {AuthMethod.BASIC}},
        {"auth_methods": BY_KEY},
        {"jwks": JWKS},
        {"auth_methods": BY_KEY, "jwks": {"keys": []}},
        {"auth_methods": BY_KEY, "jwks": {"keys": [EC_KEY.as_dict(private=True)]}},
        {"auth_methods": BY_KEY, "jwks": {"keys": [{"kty": "oct", "k": "AAAA"}]}},
        {"auth_methods": BY_KEY, "jwks": "x"},
    ],
)
def test_a_client_that_makes_no_sense_is_not_made(wrong):
    assert new_client(**RIGHT).client.name == "agent"
    with pytest.raises(ValueError, match="client"):
        new_client(**{**RIGHT, **wrong})


def test_the_command_line_is_a_public_client_of_the_admin_api_alone():
    assert COMMAND_LINE.id == "douane-cli"
    assert COMMAND_LINE.name == "Douane command line"
    assert COMMAND_LINE.is_public
    assert COMMAND_LINE.kind is ClientKind.REGISTERED
    assert COMMAND_LINE.redirect_uris == ("http://127.0.0.1/callback",)
    assert COMMAND_LINE.grants == (AUTHORIZATION_CODE, REFRESH_TOKEN, DEVICE_CODE)
    assert COMMAND_LINE.resources == frozenset({"/api/v1"})
    assert COMMAND_LINE.scopes == frozenset({"admin"})


def test_the_command_line_is_found_like_any_client_and_stored_nowhere(tmp_path):
    stores = IdentityStores.open(tmp_path, clock=Hand())
    new = client()
    stores.clients.add(new.client)
    find = with_builtin(stores.clients)
    assert find("douane-cli") is COMMAND_LINE
    assert find(new.client.id) == new.client
    assert find("nobody") is None
    assert stores.clients.find("douane-cli") is None
    stores.close()
