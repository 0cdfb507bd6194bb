"""Metadata: exact documents, made from the public URL alone."""

import pytest
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata

from gateway.errors import ConfigError
from gateway.oauth.metadata import Metadata, Offers
from gateway.oauth.possession import ProofRules
from gateway.oauth.resources import SCOPES, Resources
from tests.oauth.world import MAIL, MAIL_URI, PUBLIC_URL, RESOURCES

METADATA = Metadata(RESOURCES, Offers())
RELAY_SCOPES = ["tools:list", "tools:call", "tools:write", "prompts", "resources"]
AGGREGATE_SCOPES = [*RELAY_SCOPES, "code:run", "servers:manage"]
FIRST_SCOPES = ["tools:list", "tools:call", "prompts", "resources"]
"""What changes nothing; for the rest a client asks when it needs it."""
METHODS = ["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]
ALGORITHMS = ["ES256", "RS256", "PS256", "EdDSA"]


def test_the_authorization_server_document_is_exact():
    assert METADATA.authorization_server == {
        "issuer": "http://127.0.0.1:8080",
        "authorization_endpoint": "http://127.0.0.1:8080/oauth/authorize",
        "token_endpoint": "http://127.0.0.1:8080/oauth/token",
        "registration_endpoint": "http://127.0.0.1:8080/oauth/register",
        "revocation_endpoint": "http://127.0.0.1:8080/oauth/revoke",
        "device_authorization_endpoint": "http://127.0.0.1:8080/oauth/device_authorization",
        "jwks_uri": "http://127.0.0.1:8080/oauth/jwks.json",
        "scopes_supported": [*AGGREGATE_SCOPES, "admin"],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": [
            "authorization_code",
            "refresh_token",
            "client_credentials",
            "urn:ietf:params:oauth:grant-type:device_code",
            "urn:ietf:params:oauth:grant-type:token-exchange",
        ],
        "authorization_details_types_supported": ["mcp_script_run"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": METHODS,
        "token_endpoint_auth_signing_alg_values_supported": ALGORITHMS,
        "revocation_endpoint_auth_methods_supported": METHODS,
        "revocation_endpoint_auth_signing_alg_values_supported": ALGORITHMS,
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": True,
    }


def test_the_authorization_server_document_is_valid():
    """By another reading of RFC 8414, which wants https."""
    resources = Resources.of(public_url="https://gateway.example", servers=["mail"])
    document = Metadata(resources, Offers(enterprise=True)).authorization_server
    AuthorizationServerMetadata(document).validate()


def changed(offers: Offers) -> dict[str, object]:
    """Return what of the document differs from the usual one; absent is `None`."""
    document, usual = Metadata(RESOURCES, offers).authorization_server, METADATA
    assert document is not None
    assert usual.authorization_server is not None
    names = document.keys() | usual.authorization_server.keys()
    return {
        name: document.get(name)
        for name in names
        if document.get(name) != usual.authorization_server.get(name)
    }


def test_what_is_switched_off_is_not_advertised():
    assert changed(Offers(registration=False)) == {"registration_endpoint": None}
    assert changed(Offers(documents=False)) == {"client_id_metadata_document_supported": False}


def test_assertions_are_advertised_where_some_issuer_is_trusted():
    assert changed(Offers(enterprise=True)) == {
        "grant_types_supported": [
            "authorization_code",
            "refresh_token",
            "client_credentials",
            "urn:ietf:params:oauth:grant-type:device_code",
            "urn:ietf:params:oauth:grant-type:jwt-bearer",
            "urn:ietf:params:oauth:grant-type:token-exchange",
        ],
        "authorization_grant_profiles_supported": ["urn:ietf:params:oauth:grant-profile:id-jag"],
    }


def test_where_another_server_issues_the_tokens_every_resource_names_it_and_ours_is_gone():
    metadata = Metadata(RESOURCES, Offers(external_issuer="https://login.example/x"))
    assert metadata.authorization_server is None
    for endpoint in RESOURCES.uris:
        document = metadata.protected_resource(endpoint)
        assert document is not None
        assert document["authorization_servers"] == ["https://login.example/x"]
        assert document["resource"] == PUBLIC_URL + endpoint


@pytest.mark.parametrize("endpoint", ["/mcp", MAIL, "/api/v1"])
def test_no_document_lists_what_is_no_resources_scope(endpoint):
    document = METADATA.protected_resource(endpoint)
    assert document is not None
    assert "offline_access" not in document["scopes_supported"]
    assert "offline_access" not in METADATA.challenge_for(endpoint)[1]
    assert METADATA.authorization_server is not None
    assert "offline_access" not in METADATA.authorization_server["scopes_supported"]


def test_the_admin_apis_document_is_exact():
    assert METADATA.protected_resource("/api/v1") == {
        "resource": PUBLIC_URL + "/api/v1",
        "authorization_servers": [PUBLIC_URL],
        "scopes_supported": ["admin"],
        "bearer_methods_supported": ["header"],
        "resource_name": "Douane: administration",
    }


def test_a_relays_document_is_exact():
    assert METADATA.protected_resource(MAIL) == {
        "resource": MAIL_URI,
        "authorization_servers": [PUBLIC_URL],
        "scopes_supported": FIRST_SCOPES,
        "bearer_methods_supported": ["header"],
        "resource_name": "Douane: mail",
    }


@pytest.mark.parametrize("endpoint", ["/mcp", ""])
def test_the_aggregates_document_is_exact_and_stands_in_for_the_root(endpoint):
    assert METADATA.protected_resource(endpoint) == {
        "resource": PUBLIC_URL + "/mcp",
        "authorization_servers": [PUBLIC_URL],
        "scopes_supported": FIRST_SCOPES,
        "bearer_methods_supported": ["header"],
        "resource_name": "Douane",
    }


@pytest.mark.parametrize("endpoint", ["/mcp/none", "/mcp/", "/", "/mcp/mail/", "mail"])
def test_there_is_no_document_of_an_unknown_endpoint(endpoint):
    assert METADATA.protected_resource(endpoint) is None


def test_a_challenge_names_the_endpoints_document_and_the_scopes_to_begin_with():
    assert METADATA.challenge_for(MAIL) == (
        "http://127.0.0.1:8080/.well-known/oauth-protected-resource/mcp/mail",
        tuple(FIRST_SCOPES),
    )
    assert METADATA.challenge_for("/mcp") == (
        "http://127.0.0.1:8080/.well-known/oauth-protected-resource/mcp",
        tuple(FIRST_SCOPES),
    )
    assert METADATA.challenge_for("/api/v1") == (
        "http://127.0.0.1:8080/.well-known/oauth-protected-resource/api/v1",
        ("admin",),
    )


def test_every_scope_is_some_endpoints():
    assert {scope for path in RESOURCES.uris for scope in RESOURCES.scopes_of(path)} == set(SCOPES)


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
    assert resources.uris == {path: public_url + path for path in ("/mcp", MAIL, "/api/v1")}


@pytest.mark.parametrize("name", ["", "a/b", "../x", "a b", "é", ".", "a?b", "a#b", "a%2fb", "a\n"])
def test_a_server_name_that_is_no_path_segment_is_refused(name):
    with pytest.raises(ConfigError):
        Resources.of(public_url=PUBLIC_URL, servers=[name])


def test_a_uri_with_letters_that_only_look_alike_is_no_resource():
    resources = Resources.of(public_url="https://k.example", servers=[])
    assert resources.endpoint_of("https://K.example/mcp") == "/mcp"
    assert resources.endpoint_of("https://\u212a.example/mcp") is None


def test_a_slash_more_is_of_a_request_and_of_no_token():
    assert RESOURCES.asked_for(MAIL_URI + "/") == MAIL
    assert RESOURCES.asked_for(MAIL_URI + "//") is None
    assert RESOURCES.endpoint_of(MAIL_URI + "/") is None


def test_a_uri_of_ours_that_is_no_endpoint_is_no_resource():
    assert RESOURCES.endpoint_of(MAIL_URI) == MAIL
    assert RESOURCES.endpoint_of(PUBLIC_URL + "/mcp/none") is None
    assert RESOURCES.endpoint_of(PUBLIC_URL) is None


def test_where_bound_tokens_are_taken_it_is_said():
    rules = ProofRules(taken=frozenset({MAIL, "/mcp"}), required=frozenset({MAIL}))
    metadata = Metadata(RESOURCES, Offers(), rules)
    algorithms = ["ES256", "EdDSA", "Ed25519"]
    document = metadata.authorization_server
    assert document is not None
    assert document["dpop_signing_alg_values_supported"] == algorithms
    for endpoint, required in ((MAIL, True), ("/mcp", False), ("/mcp/web", None)):
        found = metadata.protected_resource(endpoint)
        assert found is not None
        assert found.get("dpop_bound_access_tokens_required") is required
        said = found.get("dpop_signing_alg_values_supported")
        assert said == (None if required is None else algorithms)
        assert metadata.proofs_for(endpoint) == (() if required is None else tuple(algorithms))
