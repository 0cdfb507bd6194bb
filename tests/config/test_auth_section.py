"""The section `auth` is refused where it would let anybody in whom the operator did not mean."""

from pathlib import Path

import pytest

from gateway.config import Config, SecretRef, parse
from gateway.errors import ConfigError

FILE = Path("/etc/douane/douane.yaml")
HEAD = "version: 1\npublic_url: http://127.0.0.1:8080\n"
COMPANY = "company: {issuer: 'https://login.example', client_id: douane}"


def config(text: str, environ: dict[str, str] | None = None) -> Config:
    return parse(HEAD + text, file=FILE, environ=environ)


def problems(text: str, environ: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        config(text, environ)
    return [problem.removeprefix(f"{FILE}:3: ") for problem in caught.value.problems]


def federated(*providers: str) -> str:
    return f"auth: {{mode: federated, providers: {{{', '.join(providers)}}}}}"


def provider(**changes: str) -> str:
    keys = {"issuer": "'https://login.example'", "client_id": "douane"} | changes
    return f"company: {{{', '.join(f'{key}: {text}' for key, text in keys.items())}}}"


def test_without_a_word_people_have_passwords_here_and_clients_may_register() -> None:
    auth = config("").auth
    assert (auth.mode, auth.registration.mode, auth.registration.documents) == (
        "embedded",
        "open",
        True,
    )
    assert (auth.token_lifetime, auth.refresh_lifetime, auth.refresh_grace) == (600, 2592000, 120)
    assert (auth.refresh_lost, auth.refresh_reuse) == (86400, None)
    assert (auth.providers, auth.external, auth.enterprise) == ({}, None, {})
    assert auth.issuers == frozenset()


def test_a_provider_needs_two_keys_and_gives_no_group_by_itself() -> None:
    found = config(federated(COMPANY)).auth
    assert found.providers["company"].model_dump() == {
        "issuer": "https://login.example",
        "client_id": "douane",
        "client_secret": None,
        "scopes": ("openid", "profile", "email"),
        "algorithm": "RS256",
        "groups_claim": "groups",
        "groups": {},
        "everybody": (),
        "name_claim": "name",
    }
    assert found.issuers == {"https://login.example"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "auth: {mode: federated}",
            (
                "auth.providers: `mode: federated` needs at least one; write "
                "`NAME: {issuer: ..., client_id: ...}`"
            ),
        ),
        (
            f"auth: {{providers: {{{COMPANY}}}}}",
            "auth.providers: is for `mode: federated` only; remove it or change the mode",
        ),
        (
            federated(provider(issuer="'http://login.example'")),
            "auth.providers.company.issuer: must be https; http is for loopback hosts only",
        ),
        (
            federated(provider(issuer="'https://login.example?tenant=a'")),
            (
                "auth.providers.company.issuer: an issuer has no query and no fragment; write it as its "
                "metadata does"
            ),
        ),
        (
            federated(provider(issuer="'https://login.example#'")),
            (
                "auth.providers.company.issuer: an issuer has no query and no fragment; write it as its "
                "metadata does"
            ),
        ),
        (
            federated(provider(algorithm="none")),
            "auth.providers.company.algorithm: write `RS256`, `PS256`, `ES256` or `EdDSA`",
        ),
        (
            federated(provider(algorithm="HS256")),
            "auth.providers.company.algorithm: write `RS256`, `PS256`, `ES256` or `EdDSA`",
        ),
        (
            federated(provider(scopes="[profile]")),
            (
                "auth.providers.company.scopes: without `openid` a provider says nothing about people; "
                "add it"
            ),
        ),
        (
            federated(provider(client_secret="hunter2")),
            (
                "auth.providers.company.client_secret: secrets come by reference only: write "
                "`env:NAME` or `file:PATH`"
            ),
        ),
        (
            federated(COMPANY, COMPANY.replace("company", "other")),
            "auth.providers: two of them have the same `issuer`; keep one of them",
        ),
        (
            federated(COMPANY.replace("company", "a/b")),
            (
                "auth.providers.a/b: a provider's name is 1 to 32 of a-z, 0-9, `-`, and begins with no "
                "`-`"
            ),
        ),
    ],
)
def test_a_provider_that_cannot_be_trusted_is_refused(text: str, told: str) -> None:
    assert problems(text) == [told]


@pytest.mark.parametrize(
    "text",
    [
        federated(provider(issuer="'http://127.0.0.1:8080'")),
        "auth: {mode: external, external: {issuer: 'http://127.0.0.1:8080'}}",
        "auth: {enterprise: {company: {issuer: 'http://127.0.0.1:8080'}}}",
    ],
)
def test_nobody_else_speaks_of_the_people_that_have_a_password_here(text: str) -> None:
    assert problems(text) == [
        "auth: an `issuer` in it is `public_url`; name the other server instead"
    ]


def test_an_identity_provider_on_this_machine_may_speak_plain_http() -> None:
    found = config(federated(provider(issuer="'http://127.0.0.1:9400'"))).auth
    assert found.providers["company"].issuer == "http://127.0.0.1:9400"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "auth: {mode: external}",
            "auth.external: `mode: external` needs it; write `external: {issuer: ...}`",
        ),
        (
            "auth: {external: {issuer: 'https://as.example'}}",
            "auth.external: is for `mode: external` only; remove it or change the mode",
        ),
        (
            "auth: {enterprise: {a: {issuer: 'https://a.example', jwks_url: 'http://a.example'}}}",
            "auth.enterprise.a.jwks_url: must be https; http is for loopback hosts only",
        ),
    ],
)
def test_another_authorization_server_is_named_where_it_is_meant(text: str, told: str) -> None:
    assert problems(text) == [told]


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ("mode: token", "token: `mode: token` needs it; write `env:NAME` or `file:PATH`"),
        ("token: 'env:T'", "token: is for `mode: token` only; remove it or change the mode"),
        ("mode: closed, token: 'env:T'",
         "token: is for `mode: token` only; remove it or change the mode"),
        ("most_clients: 0", "most_clients: write at least 1"),
    ],
)  # fmt: skip
def test_registration_is_whole(keys: str, told: str) -> None:
    assert problems(f"auth: {{registration: {{{keys}}}}}") == [f"auth.registration.{told}"]


WHOLE = "write a whole URI with a private scheme, such as `cursor://host/path`"
EXACT = "is compared as it stands; write it without `*`, `#`, quotes or `..`"


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("https://app.example/cb", f"`https` is no private scheme; {WHOLE}"),
        ("http://127.0.0.1/cb", f"`http` is no private scheme; {WHOLE}"),
        ("javascript://x/alert(1)", f"`javascript` is no private scheme; {WHOLE}"),
        ("data://x/y", f"`data` is no private scheme; {WHOLE}"),
        ("file:///etc/passwd", WHOLE),
        ("cursor", WHOLE),
        ("cursor:", WHOLE),
        ("*://host/path", WHOLE),
        ("cursor://*/path", WHOLE),
        ("cursor://user@host/path", WHOLE),
        ("Cursor://host/path", WHOLE),
        ("cursor://host/a b", WHOLE),
        ("cursor://host/*", EXACT),
        ("cursor://host/cb#", EXACT),
        ("cursor://host/../cb", EXACT),
        ('cursor://host/"', EXACT),
    ],
)
def test_a_redirect_uri_is_exact_and_private(uri: str, told: str) -> None:
    text = f"auth: {{registration: {{redirect_uris: ['{uri}']}}}}"
    assert problems(text) == [f"auth.registration.redirect_uris[0]: {told}"]


@pytest.mark.parametrize("uri", ["cursor://a.b/cb", "com.example.app:/cb", "vscode://a/b?x=1"])
def test_a_private_redirect_uri_is_taken_as_it_is(uri: str) -> None:
    found = config(f"auth: {{registration: {{redirect_uris: ['{uri}']}}}}")
    assert found.auth.registration.redirect_uris == (uri,)


def test_a_lost_answer_is_given_again_no_longer_than_it_is_good() -> None:
    found = config("auth: {refresh_lifetime: 2h, refresh_lost: 2h, refresh_reuse: revoke}").auth
    assert (found.refresh_lost, found.refresh_reuse) == (7200, "revoke")
    assert problems("auth: {refresh_lifetime: 2h, refresh_lost: 3h}") == [
        "auth.refresh_lost: write at most `refresh_lifetime`; its successor waits no longer"
    ]


def test_the_grace_of_a_used_refresh_token_is_short() -> None:
    assert config("auth: {refresh_grace: 10m}").auth.refresh_grace == 600
    assert problems("auth: {refresh_grace: 601s}") == [
        "auth.refresh_grace: write at most `10m`; meanwhile a stolen refresh token goes unnoticed"
    ]


def test_a_signing_key_lives_longer_than_it_waits() -> None:
    assert config("auth: {key_lifetime: 2h}").auth.key_lifetime == 7200
    assert problems("auth: {key_lifetime: 119m}") == [
        "auth.key_lifetime: write at least `2h`; a key is published an hour before it signs"
    ]


@pytest.mark.parametrize("text", ["short", "A" * 42, "A" * 44, "A+" + "A" * 41, "*" * 43])
def test_a_key_that_cannot_wrap_is_told_when_it_is_tried(text: str) -> None:
    written = "auth: {key_encryption_key: 'env:KEK'}"
    assert config(written).auth.key_encryption_key == SecretRef(kind="env", name="KEK")
    assert problems(written, {"KEK": text}) == [
        "auth.key_encryption_key: `env:KEK` must be 32 octets in base64url; make a new one"
    ]


@pytest.mark.parametrize("text", ["A" * 43, "A" * 43 + "=", "-_" * 21 + "A"])
def test_a_key_that_can_wrap_is_taken(text: str) -> None:
    found = config("auth: {key_encryption_key: 'env:KEK'}", {"KEK": text}).auth
    assert found.key_encryption_key == SecretRef(kind="env", name="KEK")


@pytest.mark.parametrize("network", ["0.0.0.0/0", "0.0.0.0/1", "::/0", "fc00::/6"])
def test_no_key_opens_the_way_out_to_everything(network: str) -> None:
    assert problems(f"egress: {{allow: ['{network}']}}") == [
        f"egress.allow: `{network}` is nearly everything; name the networks you need"
    ]


def test_private_networks_may_be_named() -> None:
    found = config("egress: {allow: [10.0.0.0/8, 'fc00::/7', 127.0.0.1]}").egress
    assert found.allow == ("10.0.0.0/8", "fc00::/7", "127.0.0.1/32")


def test_every_secret_of_the_file_is_found() -> None:
    found = config(
        "auth: {mode: federated, key_encryption_key: 'file:kek',"
        " providers: {a: {issuer: 'https://a.example', client_id: b, client_secret: 'env:B'}}}\n"
        "servers: {c: {url: 'https://c.example/mcp', credential: {kind: header, value: 'env:C'}}}"
    )
    assert sorted(str(ref) for ref in found.references) == [
        "env:B",
        "env:C",
        "file:/etc/douane/kek",
    ]


_EXCHANGE = (
    "{kind: exchange, token_url: 'https://as.example/token', client_id: us, "
    "client_secret: 'env:SECRET'}"
)


@pytest.mark.parametrize("credential", ["{kind: oauth}", _EXCHANGE])
def test_nobody_who_signs_in_elsewhere_has_a_connection_here(credential: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(
            "auth: {mode: external, external: {issuer: 'https://as.example'}}\n"
            f"servers:\n  a: {{url: 'https://a.example/mcp', credential: {credential}}}"
        )
    (problem,) = caught.value.problems
    assert "`a` wants a credential of each person" in problem


def test_without_a_word_no_token_is_bound_to_a_key() -> None:
    assert (config("").auth.dpop, config("").auth.dpop_window) == ("off", 60)


@pytest.mark.parametrize("said", ["off", "offered", "required"])
def test_tokens_are_bound_as_it_is_said_and_servers_may_say_otherwise(said: str) -> None:
    servers = f"servers: {{mail: {{url: 'http://127.0.0.1:9001/mcp', dpop: {said}}}}}"
    found = config(f"auth: {{dpop: {said}, dpop_window: 5m}}\n{servers}")
    assert (found.auth.dpop, found.auth.dpop_window) == (said, 300)
    assert found.servers["mail"].dpop == said


@pytest.mark.parametrize("window", ["301s", "6m"])
def test_a_proof_is_not_good_for_long(window: str) -> None:
    assert problems(f"auth: {{dpop_window: {window}}}") == [
        "auth.dpop_window: write at most `5m`; so long a proof that was overheard is new elsewhere"
    ]


def test_tokens_of_others_are_not_bound_here() -> None:
    external = "mode: external, external: {issuer: 'https://as.example'}"
    assert problems(f"auth: {{{external}, dpop: offered}}") == [
        "auth.dpop: is for tokens that the gateway issues; remove it or change the mode"
    ]
    servers = "servers: {mail: {url: 'http://127.0.0.1:9001/mcp', dpop: required}}"
    with pytest.raises(ConfigError) as caught:
        config(f"auth: {{{external}}}\n{servers}")
    assert "`mail` wants tokens bound to a key" in caught.value.problems[0]
    assert config(f"auth: {{{external}, dpop: off}}").auth.dpop == "off"
