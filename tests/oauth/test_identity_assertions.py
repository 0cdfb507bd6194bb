"""Identity assertions (ID-JAG): a trusted provider's word for a person, traded once for one token."""

from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from joserfc.jwk import ECKey, Key

from gateway.domain.identity import AuthMethod, Client, ClientKind
from gateway.errors import IdentityUnavailable, Unauthenticated
from gateway.oauth.clients import JWT_BEARER
from gateway.oauth.token_endpoint import TrustedIssuer
from tests.oauth.assertions import EC_KEY, RSA_KEY, public, signed
from tests.oauth.issuing import ALICE, Issuer
from tests.oauth.world import MAIL, MAIL_URI, NOW, PUBLIC_URL, client

IDP = "https://idp.example"
NEW = client(seed=5)
AGENT = replace(NEW.client, grants=(JWT_BEARER,))
CAROL = replace(ALICE, id="ca401", issuer=IDP, subject="00u1", name="Carol")
PROVEN = {"client_id": AGENT.id, "client_secret": NEW.secret}
CLAIMS: dict[str, Any] = {
    "iss": IDP,
    "sub": "00u1",
    "aud": PUBLIC_URL,
    "client_id": AGENT.id,
    "resource": MAIL_URI,
    "scope": "tools:list tools:call",
    "jti": "assertion-1",
    "iat": int(NOW),
    "exp": int(NOW) + 300,
}


class Published:
    """The keys of one provider."""

    def __init__(self, key: Key = EC_KEY) -> None:
        self.key_of_k1 = key
        self.asked: list[tuple[str, str, str, str]] = []
        self.down = False

    async def key(self, issuer: str, kid: str, algorithm: str, *, jwks_url: str = "") -> Key:
        self.asked.append((issuer, kid, algorithm, jwks_url))
        if self.down:
            raise IdentityUnavailable("sign-in is not available", detail="no answer")
        if kid != "k1":
            raise Unauthenticated("the token is not valid here")
        return self.key_of_k1


def issuer_of(folder: Any, *clients: Client, keys: Published | None = None) -> Issuer:
    issuer = Issuer(
        folder,
        *(clients or (AGENT,)),
        trusted=[TrustedIssuer(issuer=IDP, algorithm="ES256", jwks_url=IDP + "/keys")],
        issuer_keys=keys or Published(),
    )
    issuer.stores.users.add(CAROL)
    return issuer


@pytest.fixture
def trusting(tmp_path):
    issuer = issuer_of(tmp_path)
    yield issuer
    issuer.stores.close()


def id_jag(key: Any = EC_KEY, header: dict[str, Any] | None = None, **claims: Any) -> str:
    """Return an assertion about Carol, changed as told; a claim of `None` is left out."""
    content = {name: each for name, each in {**CLAIMS, **claims}.items() if each is not None}
    return signed(content, key, **{"typ": "oauth-id-jag+jwt", **(header or {})})


def form_of(assertion: str, **more: str) -> dict[str, str]:
    return {"grant_type": JWT_BEARER, "assertion": assertion, **PROVEN, **more}


async def test_an_assertion_becomes_one_access_token_of_its_person(trusting):
    status, body = await trusting.answer(**form_of(id_jag()))
    assert status == 200
    assert {**body, "access_token": ""} == {
        "access_token": "",
        "token_type": "Bearer",
        "expires_in": 900,
        "scope": "tools:list tools:call",
    }
    principal = await trusting.admit(body)
    assert (principal.issuer, principal.subject, principal.user_id) == (IDP, "00u1", CAROL.id)
    assert principal.client_id == AGENT.id


async def test_its_token_ends_with_the_person_and_by_revocation(trusting):
    _, one = await trusting.answer(**form_of(id_jag()))
    _, two = await trusting.answer(**form_of(id_jag(jti="assertion-2")))
    await trusting.revoke(one["access_token"], **PROVEN)
    with pytest.raises(Unauthenticated, match="revoked"):
        await trusting.admit(one)
    await trusting.admit(two)
    trusting.stores.users.change(CAROL.id, disabled=True, at=NOW)
    with pytest.raises(Unauthenticated):
        await trusting.admit(two)


async def test_the_key_is_the_issuers_by_the_pinned_algorithm(tmp_path):
    keys = Published()
    issuer = issuer_of(tmp_path, keys=keys)
    await issuer.answer(**form_of(id_jag()))
    assert keys.asked == [(IDP, "k1", "ES256", IDP + "/keys")]
    issuer.stores.close()


async def test_an_issuer_signs_by_the_pinned_algorithm_also_where_its_key_could_do_another(
    tmp_path,
):
    issuer = Issuer(
        tmp_path,
        AGENT,
        trusted=[TrustedIssuer(issuer=IDP, algorithm="RS256")],
        issuer_keys=Published(RSA_KEY),
    )
    issuer.stores.users.add(CAROL)
    for algorithm, expected in (("PS256", 400), ("RS256", 200)):
        assertion = id_jag(RSA_KEY, {"alg": algorithm}, jti=algorithm)
        assert (await issuer.answer(**form_of(assertion)))[0] == expected
    issuer.stores.close()


async def test_nobodys_keys_are_asked_for_but_a_trusted_issuers(tmp_path):
    published = Published()
    issuer = issuer_of(tmp_path, keys=published)
    for stranger in ("https://other.example", IDP + "/"):
        await issuer.answer(**form_of(id_jag(iss=stranger)))
    assert published.asked == []
    await issuer.answer(**form_of(id_jag()))
    assert published.asked == [(IDP, "k1", "ES256", IDP + "/keys")]
    issuer.stores.close()


async def test_an_assertion_counts_once(trusting):
    assert (await trusting.answer(**form_of(id_jag())))[0] == 200
    status, body = await trusting.answer(**form_of(id_jag()))
    assert (status, body["error"]) == (400, "invalid_grant")


async def test_a_stolen_assertion_is_not_used_up_by_another_client(tmp_path):
    thief = client(seed=6)
    issuer = issuer_of(tmp_path, AGENT, replace(thief.client, grants=(JWT_BEARER,)))
    stolen = form_of(id_jag(), client_id=thief.client.id, client_secret=thief.secret)
    status, body = await issuer.answer(**stolen)
    assert (status, body["error"]) == (400, "invalid_grant")
    assert (await issuer.answer(**form_of(id_jag())))[0] == 200
    issuer.stores.close()


STRANGER = ECKey.import_key(ec.generate_private_key(ec.SECP256R1()))


@pytest.mark.parametrize(
    "assertion",
    [
        pytest.param(id_jag(header={"typ": "JWT"}), id="typ: an ID token's"),
        pytest.param(id_jag(header={"typ": "at+jwt"}), id="typ: an access token's"),
        pytest.param(id_jag(header={"typ": None}), id="no typ"),
        pytest.param(id_jag(header={"typ": 'a"\\\u00e9'}), id="typ: odd letters"),
        pytest.param(id_jag(header={"typ": ["oauth-id-jag+jwt"]}), id="typ: a list"),
        pytest.param(id_jag(header={"kid": "k2"}), id="an unknown kid"),
        pytest.param(id_jag(header={"kid": None}), id="no kid"),
        pytest.param(id_jag(header={"crit": ["x"]}), id="crit"),
        pytest.param(id_jag(STRANGER, {"jwk": public(STRANGER)}), id="jwk"),
        pytest.param(id_jag(STRANGER), id="another's key"),
        pytest.param(id_jag(RSA_KEY, {"alg": "RS256"}), id="another algorithm"),
        pytest.param(id_jag(iss="https://other.example"), id="iss: not trusted"),
        pytest.param(id_jag(iss=IDP + "/"), id="iss: a slash more"),
        pytest.param(id_jag(iss=None), id="no iss"),
        pytest.param(id_jag(iss=7), id="iss: a number"),
        pytest.param(id_jag(aud=PUBLIC_URL + "/oauth/token"), id="aud: the token endpoint"),
        pytest.param(id_jag(aud=[PUBLIC_URL, "https://other.example"]), id="aud: two"),
        pytest.param(id_jag(aud=None), id="no aud"),
        pytest.param(id_jag(sub=None), id="no sub"),
        pytest.param(id_jag(sub=7), id="sub: a number"),
        pytest.param(id_jag(sub="stranger"), id="sub: unknown"),
        pytest.param(id_jag(sub="alice"), id="sub: known by another issuer"),
        pytest.param(id_jag(client_id="other"), id="client_id: another"),
        pytest.param(id_jag(client_id=None), id="no client_id"),
        pytest.param(id_jag(client_id=[AGENT.id]), id="client_id: a list"),
        pytest.param(id_jag(jti=None), id="no jti"),
        pytest.param(id_jag(jti=1), id="jti: a number"),
        pytest.param(id_jag(iat=None), id="no iat"),
        pytest.param(id_jag(iat=int(NOW) + 61), id="iat: of the future"),
        pytest.param(id_jag(exp=None), id="no exp"),
        pytest.param(id_jag(exp=int(NOW)), id="exp: now"),
        pytest.param(id_jag(exp=int(NOW) + 961), id="exp: too far ahead"),
        pytest.param(id_jag(cnf={"jkt": "x"}), id="bound to a key"),
        pytest.param(id_jag(scope=["tools:call"]), id="scope: a list"),
        pytest.param("x", id="a letter"),
        pytest.param(id_jag()[:-4] + "AAAA", id="a wrong signature"),
    ],
)
async def test_an_assertion_that_is_wrong_in_something_gives_no_token(trusting, assertion):
    status, body = await trusting.answer(**form_of(assertion))
    assert (status, body["error"]) == (400, "invalid_grant")
    assert trusting.families() == 0


@pytest.mark.parametrize(
    ("claims", "more"),
    [
        ({"resource": None}, {}),
        ({"resource": None}, {"resource": MAIL_URI}),
        ({"resource": PUBLIC_URL + "/mcp/web"}, {}),
        ({"resource": PUBLIC_URL + "/mcp/none"}, {}),
        ({"resource": [MAIL_URI, PUBLIC_URL + "/mcp/web"]}, {}),
        ({"resource": {}}, {}),
        ({"resource": "https://other.example/mcp/mail"}, {}),
        ({}, {"resource": PUBLIC_URL + "/mcp/web"}),
        ({"resource": MAIL_URI + "/"}, {}),
    ],
)
async def test_the_claim_says_for_what_and_the_request_can_only_say_the_same(
    trusting, claims, more
):
    status, body = await trusting.answer(**form_of(id_jag(**claims), **more))
    assert (status, body["error"]) == (400, "invalid_target")


@pytest.mark.parametrize("slash", ["", "/"])
async def test_a_list_of_one_resource_is_that_resource(trusting, slash):
    status, body = await trusting.answer(
        **form_of(id_jag(resource=[MAIL_URI], aud=[PUBLIC_URL]), resource=MAIL_URI + slash)
    )
    assert status == 200
    await trusting.admit(body, MAIL)


@pytest.mark.parametrize(
    ("claim", "asked", "given"),
    [
        ("tools:list tools:call", "", "tools:list tools:call"),
        ("tools:call", "", "tools:call"),
        ("tools:list tools:call", "tools:list", "tools:list"),
        ("tools:call tools:write", "", "tools:call"),
        (None, "tools:list", "tools:list"),
        (None, "", "tools:list tools:call"),
    ],
)
async def test_scopes_are_what_assertion_request_and_registration_agree_on(
    trusting, claim, asked, given
):
    _, body = await trusting.answer(**form_of(id_jag(scope=claim), scope=asked))
    assert body["scope"] == given


@pytest.mark.parametrize(
    ("claim", "asked"),
    [("tools:call", "tools:list"), ("tools:call", "tools:call tools:list"), ("", ""), ("x", "")],
)
async def test_a_scope_beyond_the_assertions_is_refused(trusting, claim, asked):
    status, body = await trusting.answer(**form_of(id_jag(scope=claim), scope=asked))
    assert (status, body["error"]) == (400, "invalid_scope")


async def test_a_disabled_person_gets_no_token(trusting):
    trusting.stores.users.change(CAROL.id, disabled=True, at=NOW)
    status, body = await trusting.answer(**form_of(id_jag()))
    assert (status, body["error"]) == (400, "invalid_grant")


@pytest.mark.parametrize(
    ("changes", "status", "error"),
    [
        ({"kind": ClientKind.DYNAMIC}, 400, "unauthorized_client"),
        ({"grants": ("client_credentials",)}, 400, "unauthorized_client"),
        ({"auth_methods": frozenset({AuthMethod.NONE})}, 401, "invalid_client"),
        ({"secret_hash": "sha256:" + "1" * 64}, 401, "invalid_client"),
    ],
    ids=["self-registered", "without the grant", "public", "wrong secret"],
)
async def test_only_a_registered_client_with_a_proof_may_bring_one(
    tmp_path, changes, status, error
):
    issuer = issuer_of(tmp_path, replace(AGENT, **changes))
    found, body = await issuer.answer(**form_of(id_jag()))
    assert (found, body["error"]) == (status, error)
    public_form = form_of(id_jag(), client_secret="")
    assert (await issuer.answer(**public_form))[0] == 401
    issuer.stores.close()


async def test_without_an_assertion_there_is_nothing_to_trade(trusting):
    status, body = await trusting.answer(**form_of(""))
    assert (status, body["error"]) == (400, "invalid_request")


async def test_keys_that_cannot_be_fetched_are_no_refusal(tmp_path):
    keys = Published()
    keys.down = True
    issuer = issuer_of(tmp_path, keys=keys)
    status, body = await issuer.answer(**form_of(id_jag()))
    assert (status, body["error"]) == (503, "temporarily_unavailable")
    keys.down = False
    assert (await issuer.answer(**form_of(id_jag())))[0] == 200
    issuer.stores.close()


async def test_for_other_grants_no_key_is_fetched(tmp_path):
    keys = Published()
    issuer = issuer_of(tmp_path, keys=keys)
    await issuer.answer(**{**form_of(id_jag()), "grant_type": "client_credentials"})
    assert keys.asked == []
    issuer.stores.close()


async def test_where_nobody_is_trusted_there_is_no_such_grant(tmp_path):
    issuer = Issuer(tmp_path, AGENT)
    status, body = await issuer.answer(**form_of(id_jag()))
    assert (status, body["error"]) == (400, "unsupported_grant_type")
    issuer.stores.close()


async def test_an_assertion_is_no_access_token(trusting):
    with pytest.raises(Unauthenticated):
        await trusting.admit({"access_token": id_jag()})
