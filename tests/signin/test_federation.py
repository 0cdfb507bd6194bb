"""Signing in at an OpenID provider: nothing is believed that is not this sign-in's answer."""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from gateway.domain.grants import AuthorizationRequest, Transaction
from gateway.errors import IdentityUnavailable
from gateway.signin.code_exchange import ProviderSettings
from gateway.signin.errors import SignInRefused
from gateway.signin.federation import FederatedIdentity, OpenIdFederation
from gateway.signin.providers import transaction_of
from gateway.upstream.egress import EgressPolicy, GuardedFetcher
from tests.oauth.foreign import (
    ED,
    ELSEWHERE,
    ISSUER,
    JWKS_URL,
    METADATA_URL,
    OPENID_URL,
    OTHER_RSA,
    OUTAGE,
    RSA,
    TOKEN_URL,
    Foreign,
    public,
    sign,
)
from tests.oauth.world import NOW
from tests.upstream.outside import answer, web_server

AUTHORIZATION_URL = "https://idp.test/tenant/authorize"
PUBLIC_URL = "https://gateway.test"
CALLBACK = "https://gateway.test/sign-in/company/callback"
SETTINGS = ProviderSettings(
    issuer=ISSUER,
    client_id="douane",
    client_secret="a secret&more",
    groups={"Sales": frozenset({"users", "mail"}), "Admins": frozenset({"admins"})},
    everybody=frozenset({"staff"}),
)
OTHER = ProviderSettings(issuer="https://other.test", client_id="douane", groups={})
TRANSACTION = Transaction(
    id="ab" * 16, browser_hash="", purpose="account", created_at=NOW, expires_at=NOW + 600
)


class Dice:
    """Octets that are never the same twice."""

    def __init__(self) -> None:
        self._throws = 0

    def __call__(self, count: int) -> bytes:
        self._throws += 1
        return hashlib.shake_256(str(self._throws).encode()).digest(count)


class Provider:
    """A federation, its provider, and a browser between them."""

    def __init__(self, settings: ProviderSettings = SETTINGS, **metadata: Any) -> None:
        self.foreign = Foreign()
        self.web = self.foreign.web
        self.web.pages[METADATA_URL] |= {"authorization_endpoint": AUTHORIZATION_URL, **metadata}
        self.settings = settings
        self.dice = Dice()
        self.asked: dict[str, str] = {}
        self.secrets = b""

    @property
    def federation(self) -> OpenIdFederation:
        return OpenIdFederation(
            {"company": self.settings, "other": OTHER},
            public_url=PUBLIC_URL,
            fetcher=self.web,
            discovery=self.foreign.metadata,
            tokens=self.foreign.tokens,
            random=self.dice,
        )

    async def begin(self) -> str:
        departure = await self.federation.begin("company", TRANSACTION)
        self.secrets = departure.secrets
        self.asked = dict(parse_qsl(urlsplit(departure.url).query, strict_parsing=True))
        return departure.url

    def grant(self, *, answer: Mapping[str, Any] | None = None, **changes: Any) -> None:
        """Have the token endpoint give an ID token; a claim that is `None` is left out."""
        fields = {
            "iss": ISSUER,
            "sub": "0042",
            "aud": "douane",
            "iat": int(NOW),
            "exp": int(NOW) + 300,
            "nonce": self.asked["nonce"],
            "name": "Alice Example",
            "groups": ["Sales", "admins"],
            **changes,
        }
        claims = {name: claim for name, claim in fields.items() if claim is not None}
        text = sign(claims, header={"typ": "JWT"})
        self.web.pages[TOKEN_URL] = {"id_token": text, "token_type": "Bearer", **(answer or {})}

    async def finish(
        self, query: Mapping[str, str] | None = None, *, provider: str = "company"
    ) -> FederatedIdentity:
        fields = {"state": self.asked["state"], "code": "the code", **(query or {})}
        brought = {name: text for name, text in fields.items() if text}
        return await self.federation.finish(provider, TRANSACTION, self.secrets, brought)

    async def refuses(self, query: Mapping[str, str] | None = None, *, why: str) -> None:
        with pytest.raises(SignInRefused, match=why):
            await self.finish(query)


async def begun(settings: ProviderSettings = SETTINGS, **metadata: Any) -> Provider:
    provider = Provider(settings, **metadata)
    await provider.begin()
    provider.grant()
    return provider


async def test_the_browser_is_sent_with_state_nonce_and_challenge_and_no_resource():
    provider = Provider()
    url = await provider.begin()
    assert url.startswith(AUTHORIZATION_URL + "?")
    verifier = json.loads(provider.secrets)["verifier"]
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest())
    assert provider.asked == {
        "response_type": "code",
        "client_id": "douane",
        "redirect_uri": CALLBACK,
        "scope": "openid profile email",
        "state": provider.asked["state"],
        "nonce": provider.asked["nonce"],
        "code_challenge": challenge.rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    assert transaction_of(provider.asked["state"]) == TRANSACTION.id
    first = dict(provider.asked)
    await provider.begin()
    for name in ("state", "nonce", "code_challenge"):
        assert provider.asked[name] != first[name]
        assert len(provider.asked[name]) >= 43


async def test_whoever_wants_to_change_things_is_asked_anew_after_a_quarter_of_an_hour():
    departure = await Provider().federation.begin("company", replace(TRANSACTION, purpose="desk"))
    assert dict(parse_qsl(urlsplit(departure.url).query))["max_age"] == "900"
    assert "max_age" not in (await Provider().federation.begin("company", TRANSACTION)).url
    for endpoint, asked in (("/api/v1", True), ("/mcp/mail", False)):
        request = AuthorizationRequest(
            client_id="douane-desk",
            redirect_uri="https://desk.example/desk/entered",
            endpoint=endpoint,
            scopes=frozenset({"admin"}),
            code_challenge="x" * 43,
        )
        wanted = replace(TRANSACTION, purpose="authorize", request=request)
        departure = await Provider().federation.begin("company", wanted)
        assert ("max_age" in departure.url) is asked


@pytest.mark.parametrize(
    ("said", "believed"),
    [(int(NOW) - 5, NOW - 5), (None, 0), ("now", 0), (True, 0), (-1, 0), (1e300, 0)],
)
async def test_when_a_person_was_asked_is_the_providers_word_or_unknown(said, believed):
    provider = await begun()
    provider.grant(auth_time=said)
    assert (await provider.finish()).proven_at == believed


async def test_the_verifier_and_the_client_secret_are_not_shown():
    departure = await Provider().federation.begin("company", TRANSACTION)
    verifier = json.loads(departure.secrets)["verifier"]
    assert verifier not in repr(departure) + departure.url
    assert SETTINGS.client_secret not in repr(SETTINGS)


async def test_a_query_of_the_providers_own_is_kept():
    provider = Provider(authorization_endpoint=AUTHORIZATION_URL + "?tenant=1")
    assert (await provider.begin()).startswith(AUTHORIZATION_URL + "?tenant=1&response_type=code&")


@pytest.mark.parametrize(
    "endpoint",
    [
        None,
        7,
        "",
        "javascript:alert(1)",
        "data:text/html,x",
        "http://idp.test/authorize",
        "//idp.test/authorize",
        "https://idp.test/#x",
        "https://idp.test/a b",
        "https://idp.test/\r\nx",
        'https://idp.test/"x',
        "https://idp.test/\u00e9",
    ],
)
async def test_an_authorization_endpoint_that_is_no_https_url_is_not_used(endpoint):
    with pytest.raises(IdentityUnavailable):
        await Provider(authorization_endpoint=endpoint).begin()


async def test_a_person_is_who_the_provider_says_with_mapped_groups_alone():
    provider = await begun()
    assert await provider.finish() == FederatedIdentity(
        issuer=ISSUER,
        subject="0042",
        name="Alice Example",
        groups=frozenset({"users", "mail", "staff"}),
    )


@pytest.mark.parametrize(
    "said", [None, "Admins", {"Admins": 1}, [], ["admins", "admin", "ADMINS"], [["Admins"]]]
)
async def test_groups_that_are_not_mapped_give_nothing(said):
    provider = await begun()
    provider.grant(groups=said)
    assert (await provider.finish()).groups == {"staff"}


async def test_groups_and_names_come_from_the_configured_claims():
    provider = await begun(replace(SETTINGS, groups_claim="roles", name_claim="email"))
    provider.grant(roles=["Admins"], email="alice@idp.test")
    identity = await provider.finish()
    assert identity.groups == {"admins", "staff"}
    assert identity.name == "alice@idp.test"


@pytest.mark.parametrize("name", [None, "", 7, "a\nb", "evil\u202etxt.exe", "x" * 201])
async def test_a_person_without_a_readable_name_is_called_by_the_subject(name):
    provider = await begun()
    provider.grant(name=name)
    assert (await provider.finish()).name == "0042"


async def test_the_code_is_traded_with_the_verifier_and_our_proof():
    provider = await begun()
    await provider.finish()
    ((url, form, headers),) = provider.web.posts
    assert (url, dict(form)) == (
        TOKEN_URL,
        {
            "grant_type": "authorization_code",
            "code": "the code",
            "redirect_uri": CALLBACK,
            "code_verifier": json.loads(provider.secrets)["verifier"],
        },
    )
    # RFC 6749 section 2.3.1: both halves are form-encoded first.
    pair = base64.b64decode(headers["authorization"].removeprefix("Basic "))
    assert pair == b"douane:a+secret%26more"


@pytest.mark.parametrize(
    ("secret", "methods", "proof"),
    [
        ("word", ["client_secret_post"], {"client_id": "douane", "client_secret": "word"}),
        ("word", ["client_secret_post", "client_secret_basic"], {}),
        ("", ["none"], {"client_id": "douane"}),
        ("", ["client_secret_basic"], {"client_id": "douane"}),
    ],
)
async def test_we_prove_ourselves_as_the_provider_takes_it(secret, methods, proof):
    provider = await begun(
        replace(SETTINGS, client_secret=secret), token_endpoint_auth_methods_supported=methods
    )
    await provider.finish()
    ((_, form, headers),) = provider.web.posts
    sent = {name: form[name] for name in ("client_id", "client_secret") if name in form}
    assert (sent, "authorization" in headers) == (proof, not proof)


@pytest.mark.parametrize("methods", [["private_key_jwt"], [], "client_secret_basic", None])
async def test_a_secret_that_the_provider_does_not_take_is_not_sent(methods):
    provider = await begun(token_endpoint_auth_methods_supported=methods)
    with pytest.raises(IdentityUnavailable):
        await provider.finish()
    assert provider.web.posts == []


@pytest.mark.parametrize(
    "state", ["", "x", "ab" * 16, "ab" * 16 + ".", "ab" * 16 + "." + "A" * 43, "\udcff", "\u00e9"]
)
async def test_o05_an_answer_with_another_state_is_not_read(state):
    provider = await begun()
    await provider.refuses({"state": state}, why="state")
    assert provider.web.posts == []


async def test_o05_an_answer_of_another_transaction_is_not_read():
    provider = await begun()
    other = replace(TRANSACTION, id="cd" * 16)
    with pytest.raises(SignInRefused, match="state"):
        await provider.federation.finish(
            "company", other, provider.secrets, {"state": provider.asked["state"], "code": "c"}
        )


@pytest.mark.parametrize("iss", ["https://attacker.test", ISSUER + "/", ISSUER.upper(), "null"])
@pytest.mark.parametrize("rest", [{"code": "stolen"}, {"error": "access_denied", "code": ""}])
async def test_o09_11_an_answer_of_another_issuer_is_refused_before_code_or_error_is_read(
    iss, rest
):
    for announced in (False, True):
        provider = await begun(authorization_response_iss_parameter_supported=announced)
        await provider.refuses({"iss": iss, **rest}, why="another provider's")
        assert provider.web.posts == []


@pytest.mark.parametrize("rest", [{}, {"error": "access_denied", "code": ""}])
async def test_o09_11_an_answer_without_an_issuer_is_refused_where_one_is_announced(rest):
    provider = await begun(authorization_response_iss_parameter_supported=True)
    await provider.refuses(rest, why="does not say whose")
    assert provider.web.posts == []
    assert (await provider.finish({"iss": ISSUER})).subject == "0042"


async def test_an_answer_that_names_our_provider_is_read_although_nothing_is_announced():
    assert (await (await begun()).finish({"iss": ISSUER})).subject == "0042"


async def test_o09_an_answer_to_one_provider_is_not_taken_for_another():
    provider = await begun()
    with pytest.raises(SignInRefused, match="changed"):
        await provider.finish(provider="other")
    with pytest.raises(SignInRefused, match="no such"):
        await provider.finish(provider="none")
    provider.settings = replace(SETTINGS, issuer="https://moved.test")
    await provider.refuses(why="changed")


@pytest.mark.parametrize(
    ("error", "named"),
    [("access_denied", "access_denied"), ("<script>", "an unknown error"), ("x", "an unknown")],
)
async def test_a_providers_no_is_told_without_its_text(error, named):
    provider = await begun()
    with pytest.raises(SignInRefused) as refusal:
        await provider.finish({"error": error, "error_description": "scope=evil"})
    assert named in refusal.value.detail
    assert "<" not in str(refusal.value)
    assert "evil" not in str(refusal.value)
    assert provider.web.posts == []


async def test_an_answer_without_a_code_is_refused():
    await (await begun()).refuses({"code": ""}, why="no code")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"iss": "https://other.test"}, "another issuer"),
        ({"aud": "another"}, "another audience"),
        ({"aud": None}, "another audience"),
        ({"aud": ["another"]}, "another audience"),
        ({"aud": "douane2"}, "another audience"),
        ({"aud": ["douane", "another"]}, "several audiences"),
        ({"aud": ["douane", "another"], "azp": "another"}, "authorized party"),
        ({"azp": "another"}, "authorized party"),
        ({"azp": None, "aud": [["douane"]]}, "another audience"),
        ({"exp": int(NOW)}, "expired"),
        ({"exp": None}, "claim exp"),
        ({"iat": None}, "claim iat"),
        ({"iat": int(NOW) + 61}, "not yet valid"),
        ({"nonce": None}, "nonce"),
        ({"nonce": "x"}, "nonce"),
        ({"nonce": ["x"]}, "nonce"),
        ({"nonce": "\u00e9"}, "nonce"),
        ({"sub": None}, "claim sub"),
        ({"sub": ""}, "claim sub"),
        ({"sub": 42}, "claim sub"),
        ({"sub": "x" * 256}, "claim sub"),
        ({"sub": "a\x00b"}, "claim sub"),
        ({"at_hash": "x"}, "at_hash"),
    ],
)
async def test_an_id_token_that_is_not_this_sign_ins_is_refused(changes, why):
    provider = await begun()
    provider.grant(**changes)
    await provider.refuses(why=why)


async def test_an_id_token_for_several_is_ours_if_it_says_that_we_asked():
    provider = await begun()
    provider.grant(aud=["another", "douane"], azp="douane")
    assert (await provider.finish()).subject == "0042"


def hash_of(token: str, name: str = "sha256") -> str:
    digest = hashlib.new(name, token.encode()).digest()
    return base64.urlsafe_b64encode(digest[: len(digest) // 2]).rstrip(b"=").decode()


async def test_the_access_token_is_the_one_that_the_id_token_was_made_with():
    provider = await begun()
    provider.grant(at_hash=hash_of("token"), answer={"access_token": "token"})
    assert (await provider.finish()).subject == "0042"
    for other in ("token2", "", 7, None):
        provider.grant(at_hash=hash_of("token"), answer={"access_token": other})
        await provider.refuses(why="access token")
    for malformed in (7, "", "\u00e9", ["x"]):
        provider.grant(at_hash=malformed, answer={"access_token": "token"})
        await provider.refuses(why="access token")


async def test_the_hash_of_an_access_token_follows_the_algorithm():
    provider = await begun(replace(SETTINGS, algorithm="EdDSA"))
    claims = {
        "iss": ISSUER,
        "sub": "0042",
        "aud": "douane",
        "iat": int(NOW),
        "exp": int(NOW) + 300,
        "nonce": provider.asked["nonce"],
    }
    for name, accepted in (("sha512", True), ("sha256", False)):
        claims["at_hash"] = hash_of("token", name)
        text = sign(claims, key=ED, algorithm="EdDSA", header={"typ": None})
        provider.web.pages[TOKEN_URL] = {"id_token": text, "access_token": "token"}
        if accepted:
            assert (await provider.finish()).name == "0042"
        else:
            await provider.refuses(why="another access token")


async def test_o14_an_id_token_with_a_foreign_signature_algorithm_or_type_is_refused():
    provider = await begun()
    claims = {
        "iss": ISSUER,
        "sub": "1",
        "aud": "douane",
        "nonce": provider.asked["nonce"],
        "iat": int(NOW),
        "exp": int(NOW) + 300,
    }
    for text in (
        sign(claims, algorithm="none", header={"typ": "JWT"}),
        sign(claims, key=OTHER_RSA, header={"typ": "JWT", "kid": "rsa"}),
        sign(claims, key=ED, algorithm="EdDSA", header={"typ": "JWT"}),
        sign(claims, algorithm="PS256", header={"typ": "JWT"}),
        sign(claims, header={"typ": "at+jwt"}),
        sign(claims, header={"typ": "JWT", "jwk": public(RSA)}),
        "text",
    ):
        provider.web.pages[TOKEN_URL] = {"id_token": text}
        await provider.refuses(why="ID token")


async def test_a_code_that_the_provider_does_not_know_is_a_refusal():
    provider = await begun()
    provider.web.pages[TOKEN_URL] = (400, {"error": "invalid_grant"})
    await provider.refuses(why="does not know the code")


@pytest.mark.parametrize(
    "page",
    [
        OUTAGE,
        ELSEWHERE,
        500,
        302,
        (400, {"error": "invalid_client"}),
        (401, {"error": "invalid_client"}),
        {},
        {"id_token": None},
        {"id_token": ["x"]},
    ],
)
async def test_a_provider_without_a_usable_answer_is_a_fault(page):
    provider = await begun()
    provider.web.pages[TOKEN_URL] = page
    with pytest.raises(IdentityUnavailable):
        await provider.finish()


async def test_a_provider_whose_keys_or_metadata_cannot_be_had_is_a_fault():
    provider = await begun()
    provider.web.pages[JWKS_URL] = OUTAGE
    with pytest.raises(IdentityUnavailable):
        await provider.finish()
    nothing = Provider()
    nothing.web.pages = {METADATA_URL: OUTAGE, OPENID_URL: {"issuer": ISSUER + "/"}}
    with pytest.raises(IdentityUnavailable):
        await nothing.begin()
    with pytest.raises(SignInRefused):
        await nothing.federation.begin("none", TRANSACTION)


async def test_metadata_without_a_token_endpoint_is_a_fault():
    provider = await begun(token_endpoint=None)
    with pytest.raises(IdentityUnavailable):
        await provider.finish()


async def test_a_provider_on_this_machine_is_reached_over_http_if_the_operator_allows_it():
    fetcher = GuardedFetcher(EgressPolicy.of(["127.0.0.1"]))
    async with web_server() as server:
        url = f"http://127.0.0.1:{server.port}"
        foreign = Foreign(fetcher=fetcher)
        federation = OpenIdFederation(
            {"company": replace(SETTINGS, issuer=url)},
            public_url=PUBLIC_URL,
            fetcher=fetcher,
            discovery=foreign.metadata,
            tokens=foreign.tokens,
            random=Dice(),
        )
        document: dict[str, Any] = {
            "issuer": url,
            "authorization_endpoint": f"{url}/authorize",
            "token_endpoint": f"{url}/token",
            "jwks_uri": f"{url}/jwks",
            "keys": [public(RSA)],
        }
        server.answer = answer(json.dumps(document).encode())
        departure = await federation.begin("company", TRANSACTION)
        asked = dict(parse_qsl(urlsplit(departure.url).query))
        claims = {
            "iss": url,
            "sub": "1",
            "aud": "douane",
            "nonce": asked["nonce"],
            "iat": int(NOW),
            "exp": int(NOW) + 300,
        }
        document["id_token"] = sign(claims, header={"typ": "JWT"})
        server.answer = answer(json.dumps(document).encode())
        identity = await federation.finish(
            "company", TRANSACTION, departure.secrets, {"state": asked["state"], "code": "c"}
        )
    assert (identity.issuer, identity.subject) == (url, "1")
