"""Metadata: exact documents, made from the public URL alone."""

import pytest

from gateway.errors import ConfigError
from gateway.oauth.metadata import Metadata
from gateway.oauth.resources import SCOPES, Resources
from tests.oauth.world import MAIL, MAIL_URI, PUBLIC_URL, RESOURCES

METADATA = Metadata(RESOURCES)
RELAY_SCOPES = ["tools:list", "tools:call", "tools:write", "prompts", "resources"]


def test_the_authorization_server_document_is_exact():
    assert METADATA.authorization_server == {
        "issuer": "http://127.0.0.1:8080",
        "authorization_endpoint": "http://127.0.0.1:8080/oauth/authorize",
        "token_endpoint": "http://127.0.0.1:8080/oauth/token",
        "jwks_uri": "http://127.0.0.1:8080/oauth/jwks.json",
        "scopes_supported": [*RELAY_SCOPES, "code:run", "servers:manage"],
        "response_types_supported": [],
        "grant_types_supported": ["client_credentials"],
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
    }


def test_a_relays_document_is_exact():
    assert METADATA.protected_resource(MAIL) == {
        "resource": MAIL_URI,
        "authorization_servers": [PUBLIC_URL],
        "scopes_supported": RELAY_SCOPES,
        "bearer_methods_supported": ["header"],
        "resource_name": "Douane: mail",
    }


@pytest.mark.parametrize("endpoint", ["/mcp", ""])
def test_the_aggregates_document_is_exact_and_stands_in_for_the_root(endpoint):
    assert METADATA.protected_resource(endpoint) == {
        "resource": PUBLIC_URL + "/mcp",
        "authorization_servers": [PUBLIC_URL],
        "scopes_supported": list(SCOPES),
        "bearer_methods_supported": ["header"],
        "resource_name": "Douane",
    }


@pytest.mark.parametrize("endpoint", ["/mcp/none", "/mcp/", "/", "/mcp/mail/", "mail"])
def test_there_is_no_document_of_an_unknown_endpoint(endpoint):
    assert METADATA.protected_resource(endpoint) is None


def test_a_challenge_names_the_endpoints_document_and_scopes():
    assert METADATA.challenge_for(MAIL) == (
        "http://127.0.0.1:8080/.well-known/oauth-protected-resource/mcp/mail",
        tuple(RELAY_SCOPES),
    )
    assert METADATA.challenge_for("/mcp") == (
        "http://127.0.0.1:8080/.well-known/oauth-protected-resource/mcp",
        SCOPES,
    )


@pytest.mark.parametrize(
    "public_url",
    [
        "",
        "gateway.example",
        "ftp://gateway.example",
        "https://",
        "https://gateway.example/",
        "https://gateway.example/mcp",
        "https://gateway.example?x",
        "https://gateway.example#x",
        "https://user@gateway.example",
        "https://Gateway.example",
        "HTTPS://gateway.example",
        "https://gateway.example:99999",
        "https://gateway.example:",
        "https://[::1",
        " https://gateway.example",
    ],
)
def test_a_public_url_that_is_no_plain_origin_is_refused(public_url):
    with pytest.raises(ConfigError):
        Resources.of(public_url=public_url, servers=[])


@pytest.mark.parametrize(
    "public_url", ["https://gateway.example", "http://127.0.0.1:8080", "http://[::1]:8080"]
)
def test_a_public_url_is_used_as_it_is_written(public_url):
    resources = Resources.of(public_url=public_url, servers=["mail"])
    assert resources.uris == {"/mcp": public_url + "/mcp", MAIL: public_url + MAIL}


@pytest.mark.parametrize("name", ["", "a/b", "../x", "a b", "é", ".", "a?b", "a#b", "a%2fb", "a\n"])
def test_a_server_name_that_is_no_path_segment_is_refused(name):
    with pytest.raises(ConfigError):
        Resources.of(public_url=PUBLIC_URL, servers=[name])


def test_a_uri_with_letters_that_only_look_alike_is_no_resource():
    resources = Resources.of(public_url="https://k.example", servers=[])
    assert resources.endpoint_of("https://K.example/mcp") == "/mcp"
    assert resources.endpoint_of("https://\u212a.example/mcp") is None


def test_a_uri_of_ours_that_is_no_endpoint_is_no_resource():
    assert RESOURCES.endpoint_of(MAIL_URI) == MAIL
    assert RESOURCES.endpoint_of(PUBLIC_URL + "/mcp/none") is None
    assert RESOURCES.endpoint_of(PUBLIC_URL) is None
