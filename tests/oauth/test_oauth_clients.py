"""OAuth clients: how one is made, and how one proves itself."""

import base64
import hmac
from typing import Any
from urllib.parse import quote_plus

import pytest

from gateway.oauth.clients import (
    ClientCredentials,
    new_client,
    read_credentials,
    secret_hash,
    sign_in,
)
from gateway.oauth.errors import ErrorCode, OAuthError
from gateway.storage.memory import MemoryClientStore
from tests.oauth.world import MAIL, NOW, RESOURCES, client


def basic(client_id: str, secret: str) -> str:
    return "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()


def test_a_new_client_has_a_random_secret_of_which_only_a_hash_is_kept():
    new = client()
    assert new.secret == base64.urlsafe_b64encode(b"\x01" * 32).rstrip(b"=").decode()
    assert new.client.id == "01" * 16
    assert new.client.secret_hash == secret_hash(new.secret)
    assert new.client.grants == ("client_credentials",)
    assert (new.client.created_at, new.client.created_by) == (NOW, "alice")
    assert new.secret not in repr(new)
    assert new.client.secret_hash not in repr(new)


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
        {"scopes": frozenset({"tools:call", "admin"})},
        {"id_octets": b"\x01" * 15},
        {"secret_octets": b"\x01" * 31},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_client_that_makes_no_sense_is_not_made(wrong):
    right: dict[str, Any] = {
        "name": "agent",
        "resources": frozenset({MAIL}),
        "scopes": frozenset({"tools:call"}),
        "known": RESOURCES,
        "id_octets": b"\x01" * 16,
        "secret_octets": b"\x01" * 32,
        "now": NOW,
        "by": "alice",
    }
    assert new_client(**right).client.name == "agent"
    with pytest.raises(ValueError, match="client"):
        new_client(**{**right, **wrong})


@pytest.mark.parametrize("scheme", ["Basic", "basic", "BASIC"])
def test_basic_credentials_are_form_decoded(scheme):
    text = basic(quote_plus("a:b c"), quote_plus("p%2B+:&é"))
    found = read_credentials(scheme + text.removeprefix("Basic"), {})
    assert found == ClientCredentials(client_id="a:b c", secret="p%2B+:&é")


def test_credentials_may_stand_in_the_form():
    found = read_credentials(None, {"client_id": "a", "client_secret": "b"})
    assert found == ClientCredentials(client_id="a", secret="b")
    assert repr(found) == "ClientCredentials(client_id='a')"


@pytest.mark.parametrize(
    ("authorization", "form", "error"),
    [
        (None, {}, ErrorCode.INVALID_CLIENT),
        (None, {"client_id": "a"}, ErrorCode.INVALID_CLIENT),
        (None, {"client_secret": "b"}, ErrorCode.INVALID_CLIENT),
        (None, {"client_id": "a", "client_assertion": "j"}, ErrorCode.INVALID_CLIENT),
        ("", {"client_id": "a", "client_secret": "b"}, ErrorCode.INVALID_CLIENT),
        ("Basic", {}, ErrorCode.INVALID_CLIENT),
        ("Basic !!!", {}, ErrorCode.INVALID_CLIENT),
        ("Basic YTp", {}, ErrorCode.INVALID_CLIENT),
        ("Basic Y!Tpi", {}, ErrorCode.INVALID_CLIENT),
        ("Basic " + base64.b64encode(b"no-colon").decode(), {}, ErrorCode.INVALID_CLIENT),
        ("Basic " + base64.b64encode(b"\xff:b").decode(), {}, ErrorCode.INVALID_CLIENT),
        (basic("a", "%ff"), {}, ErrorCode.INVALID_CLIENT),
        (basic("a", "b").replace("Basic", "Bearer"), {}, ErrorCode.INVALID_CLIENT),
        (basic("a", "b"), {"client_secret": "b"}, ErrorCode.INVALID_REQUEST),
        (basic("a", "b"), {"client_id": "a", "client_secret": "b"}, ErrorCode.INVALID_REQUEST),
        (basic("a", "b"), {"client_assertion": "j"}, ErrorCode.INVALID_REQUEST),
        (basic("a", "b"), {"client_id": "c"}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_missing_unreadable_and_double_credentials_are_refused(authorization, form, error):
    with pytest.raises(OAuthError) as refused:
        read_credentials(authorization, form)
    assert refused.value.error is error


def test_the_client_id_may_stand_beside_basic_credentials():
    assert read_credentials(basic("a", "b"), {"client_id": "a"}).client_id == "a"


def test_the_right_secret_signs_in():
    new = client()
    credentials = ClientCredentials(client_id=new.client.id, secret=new.secret)
    assert sign_in(credentials, MemoryClientStore([new.client]).find) == new.client


@pytest.mark.parametrize(
    ("client_id", "secret", "known"),
    [
        ("01" * 16, "wrong", "01" * 16),
        ("01" * 16, "", "01" * 16),
        ("01" * 16, "\udcff", "01" * 16),
        ("01" * 16, client().client.secret_hash, "01" * 16),
        ("nobody", client().secret, ""),
        ("", "", ""),
    ],
)
def test_an_unknown_client_and_a_wrong_secret_are_told_alike(client_id, secret, known):
    store = MemoryClientStore([client().client])
    with pytest.raises(OAuthError) as refused:
        sign_in(ClientCredentials(client_id=client_id, secret=secret), store.find)
    assert refused.value.error is ErrorCode.INVALID_CLIENT
    assert refused.value.public == "unknown client or wrong secret"
    assert refused.value.client_id == known


def test_an_unknown_client_costs_one_comparison_like_a_known_one(monkeypatch):
    compared: list[tuple[bytes, bytes]] = []
    real = hmac.compare_digest

    def counted(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return real(one, other)

    monkeypatch.setattr(hmac, "compare_digest", counted)
    with pytest.raises(OAuthError):
        sign_in(ClientCredentials(client_id="nobody", secret="x"), MemoryClientStore().find)
    assert compared == [(secret_hash("x").encode(), b"sha256:" + b"0" * 64)]
