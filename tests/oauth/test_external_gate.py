"""The gate for tokens of another authorization server, each in its own dialect."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.identity import BearerToken, Principal
from gateway.errors import IdentityUnavailable, Unauthenticated
from gateway.oauth.foreign.gate import ExternalGate, ExternalIssuer, user_id
from gateway.upstream.egress import EgressPolicy, GuardedFetcher
from tests.oauth.foreign import (
    ISSUER,
    JWKS_URL,
    OTHER_RSA,
    OUTAGE,
    RSA,
    Foreign,
    claims,
    public,
    sign,
)
from tests.oauth.world import MAIL, MAIL_URI, NOW, PUBLIC_URL, RESOURCES
from tests.upstream.outside import answer, web_server

TRUSTED = ExternalIssuer(
    issuer=ISSUER,
    groups={"Gateway Admins": frozenset({"admins"}), "Sales": frozenset({"users", "mail"})},
)

ALICE = Principal(
    issuer=ISSUER,
    subject="alice",
    client_id="agent",
    client_name="agent",
    groups=frozenset(),
    scopes=frozenset({"tools:list", "tools:call"}),
    token_id="token-1",
    expires_at=NOW + 600,
    people=None,
    user_id=user_id(ISSUER, "alice"),
)


class Door:
    """A gate with the other server and the clock at hand."""

    def __init__(self, *, most_tokens: int = 10_000, **changes: Any) -> None:
        self.foreign = Foreign()
        self.clock = self.foreign.clock
        self.verified: list[str] = []
        self.gate = ExternalGate(
            replace(TRUSTED, **changes),
            resources=RESOURCES,
            tokens=self,  # type: ignore[arg-type]
            clock=self.clock,
            most_tokens=most_tokens,
        )

    async def claims(self, text: str, **rest: Any) -> Mapping[str, Any]:
        self.verified.append(text)
        return await self.foreign.tokens.claims(text, **rest)

    async def admit(self, text: str, endpoint: str = MAIL) -> Principal:
        return await self.gate.authenticate(BearerToken(text=text), endpoint)

    async def refuse(self, text: str, endpoint: str = MAIL) -> None:
        with pytest.raises(Unauthenticated):
            await self.admit(text, endpoint)


async def test_a_token_for_the_endpoint_gives_its_principal():
    assert await Door().admit(sign(claims())) == ALICE


async def test_no_credential_is_refused():
    with pytest.raises(Unauthenticated):
        await Door().gate.authenticate(None, MAIL)


@pytest.mark.parametrize(
    "audience",
    [
        "https://api.github.com",
        PUBLIC_URL,
        MAIL_URI + "/",
        MAIL_URI + "2",
        MAIL_URI.upper(),
        "http://127.0.0.1:8081/mcp/mail",
        PUBLIC_URL + "/mcp",
        PUBLIC_URL + "/mcp/web",
        [MAIL_URI, "https://api.github.com"],
        [MAIL_URI, PUBLIC_URL + "/mcp/web"],
        [MAIL_URI, "account"],
        [[MAIL_URI]],
        [MAIL_URI, []],
        [MAIL_URI, {}],
        [],
        "",
        {MAIL_URI: 1},
        7,
        None,
    ],
)
async def test_o10_o11_a_token_for_another_audience_or_for_several_is_refused(audience):
    await Door().refuse(sign(claims(aud=audience)))


async def test_an_audience_may_stand_in_a_list_of_its_own():
    assert await Door().admit(sign(claims(aud=[MAIL_URI]))) == ALICE


async def test_o11_a_token_for_one_endpoint_opens_no_other_even_when_it_is_known():
    door, text = Door(), sign(claims())
    await door.admit(text)
    for endpoint in ("/mcp", "/mcp/web", "/mcp/none", MAIL + "/", ""):
        await door.refuse(text, endpoint)


async def test_one_configured_audience_opens_every_endpoint_and_then_no_uri_does():
    door = Door(audience="api://douane")
    text = sign(claims(aud="api://douane"))
    assert await door.admit(text, "/mcp/web") == await door.admit(text, MAIL) == ALICE
    await door.refuse(text, "/mcp/none")
    await door.refuse(sign(claims()))


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://other.test"},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": "a\nb"},
        {"sub": "x" * 256},
        {"client_id": None},
        {"client_id": ""},
        {"client_id": ["agent"]},
        {"client_id": "agent|alice"},
        {"scope": None},
        {"scope": ""},
        {"scope": 7},
        {"scope": ["tools:list", 7]},
        {"jti": ""},
        {"jti": 7},
        {"cnf": {"jkt": "x"}},
        {"iat": int(NOW) - 10, "exp": int(NOW) - 9 + 86_400},
    ],
)
async def test_25_a_token_with_a_claim_that_is_missing_or_malformed_is_refused(changes):
    await Door().refuse(sign(claims(**changes)))


async def test_24_an_id_token_is_no_access_token():
    for typ in ("JWT", None, "oauth-id-jag+jwt"):
        await Door().refuse(sign(claims(), header={"typ": typ}))


async def test_scopes_are_those_that_the_endpoint_has():
    door = Door()
    text = sign(claims(scope="tools:call admin servers:manage openid unknown"))
    assert (await door.admit(text)).scopes == {"tools:call"}
    text = sign(claims(scope="tools:call servers:manage", aud=PUBLIC_URL + "/mcp"))
    assert (await door.admit(text, "/mcp")).scopes == {"tools:call", "servers:manage"}
    assert (await door.admit(sign(claims(scope="openid")))).scopes == frozenset()


@pytest.mark.parametrize(
    ("said", "ours"),
    [
        (["Sales"], {"users", "mail"}),
        (["Sales", "Gateway Admins", "other"], {"users", "mail", "admins"}),
        (["admins", "sales", "Sales ", 7, ["Sales"], None], set()),
        ("Sales", set()),
        ({"Sales": 1}, set()),
        (None, set()),
    ],
)
async def test_groups_are_mapped_and_an_unmapped_one_gives_nothing(said, ours):
    text = sign(claims(groups=said))
    assert (await Door().admit(text)).groups == ours
    everybody = Door(everybody=frozenset({"staff"}))
    assert (await everybody.admit(text)).groups == ours | {"staff"}


async def test_groups_come_from_the_configured_claim_alone():
    door = Door(groups_claim="roles")
    text = sign(claims(groups=["Gateway Admins"], roles=["Sales"]))
    assert (await door.admit(text)).groups == {"users", "mail"}


async def test_a_client_that_acts_for_itself_is_no_person():
    principal = await Door().admit(sign(claims(sub="agent")))
    assert (principal.subject, principal.user_id) == ("agent", "")


def test_a_persons_id_is_the_same_for_ever_and_nobody_elses():
    assert user_id(ISSUER, "alice") == hashlib.sha256(f"{ISSUER} alice".encode()).hexdigest()
    assert user_id(ISSUER, "alice") != user_id(ISSUER + "/", "alice")


async def test_a_token_without_a_name_is_named_by_its_own_digest():
    text = sign(claims(jti=None))
    principal = await Door().admit(text)
    assert principal.token_id == hashlib.sha256(text.encode()).hexdigest()[:32]


def entra(**changes: Any) -> dict[str, Any]:
    return claims(
        **{
            "client_id": None,
            "scope": None,
            "jti": None,
            "azp": "agent",
            "scp": "tools:list tools:call",
            "uti": "token-1",
            "ver": "2.0",
            **changes,
        }
    )


async def test_entra_writes_scp_azp_and_uti_in_a_plain_jwt():
    door, header = Door(profile="entra"), {"typ": "JWT"}
    assert await door.admit(sign(entra(), header=header)) == ALICE
    v1 = entra(azp=None, appid="agent", ver="1.0")
    assert await door.admit(sign(v1, header=header)) == ALICE
    await door.refuse(sign(entra(), header={"typ": None}))
    await door.refuse(sign(entra(), header={"typ": "at+jwt"}))
    # An ID token: for the same audience, of the same type, without a scope.
    await door.refuse(sign(entra(scp=None, nonce="x"), header=header))
    await door.refuse(sign(entra(scp=None, scope="tools:call"), header=header))
    await door.refuse(sign(entra(azp=None, client_id="agent"), header=header))


def okta(**changes: Any) -> dict[str, Any]:
    return claims(
        **{
            "client_id": None,
            "scope": None,
            "cid": "agent",
            "scp": ["tools:list", "tools:call"],
            **changes,
        }
    )


async def test_okta_writes_a_list_of_scopes_and_cid_with_or_without_a_type():
    door = Door(profile="okta")
    for typ in (None, "JWT", "application/at+jwt"):
        assert await door.admit(sign(okta(), header={"typ": typ})) == ALICE
    await door.refuse(sign(okta(), header={"typ": "oauth-id-jag+jwt"}))
    await door.refuse(sign(okta(scp=None), header={"typ": None}))
    await door.refuse(sign(okta(scp=[]), header={"typ": None}))
    await door.refuse(sign(okta(cid=None, client_id="agent"), header={"typ": None}))


def keycloak(**changes: Any) -> dict[str, Any]:
    return claims(**{"client_id": None, "azp": "agent", "typ": "Bearer", **changes})


async def test_keycloak_marks_access_tokens_and_may_add_its_own_account_pages():
    door = Door(profile="keycloak")
    for typ in ("JWT", "at+jwt"):
        assert await door.admit(sign(keycloak(), header={"typ": typ})) == ALICE
    header = {"typ": "JWT"}
    both = keycloak(aud=[MAIL_URI, "account"])
    assert await door.admit(sign(both, header=header)) == ALICE
    for mark in ("ID", "Refresh", "Offline", "DPoP", None):
        await door.refuse(sign(keycloak(typ=mark), header=header))
    await door.refuse(sign(keycloak(aud="account"), header=header))
    await door.refuse(sign(keycloak(aud=[MAIL_URI, "account", "other"]), header=header))
    await door.refuse(sign(keycloak(), header={"typ": None}))


async def test_a_second_call_is_answered_without_checking_the_signature_again():
    door, text = Door(), sign(claims())
    assert await door.admit(text) is await door.admit(text)
    assert door.verified == [text]


async def test_s07_a_token_past_its_expiry_is_refused_although_it_was_just_admitted():
    door, text = Door(), sign(claims(exp=int(NOW) + 60))
    await door.admit(text)
    door.clock.now = NOW + 59
    await door.admit(text)
    door.clock.now = NOW + 60
    for _ in range(2):
        await door.refuse(text)


async def test_a_token_is_verified_anew_after_ten_minutes_so_that_a_withdrawn_key_ends_it():
    door, text = Door(), sign(claims(exp=int(NOW) + 3600))
    await door.admit(text)
    door.foreign.publish(public(OTHER_RSA))
    door.clock.now = NOW + 599
    await door.admit(text)
    door.clock.now = NOW + 600
    await door.refuse(text)


async def test_a_token_of_the_future_is_refused_although_it_was_admitted_before_the_clock_went_back():
    door, text = Door(), sign(claims(iat=int(NOW)))
    await door.admit(text)
    door.clock.now = NOW - 61
    await door.refuse(text)


async def test_what_was_refused_is_not_remembered():
    door, text = Door(), sign(claims(), key=OTHER_RSA)
    await door.refuse(text)
    door.foreign.publish(public(RSA), public(OTHER_RSA))
    door.clock.now += 30
    assert await door.admit(text) == ALICE


async def test_memory_is_bounded_and_the_longest_unused_token_goes_first():
    door = Door(most_tokens=2)
    first, second, third = (sign(claims(jti=name)) for name in ("a", "b", "c"))
    for text in (first, second, first, third, first):
        await door.admit(text)
    assert door.verified == [first, second, third]
    await door.admit(second)
    assert door.verified == [first, second, third, second]


async def test_an_outage_is_a_fault_and_not_a_refusal_and_admits_whom_it_knew():
    door, known = Door(), sign(claims())
    door.foreign.web.pages[JWKS_URL] = OUTAGE
    with pytest.raises(IdentityUnavailable):
        await door.admit(known)
    door.foreign.publish(public(RSA))
    door.clock.now += 1
    await door.admit(known)
    door.foreign.web.pages[JWKS_URL] = OUTAGE
    assert await door.admit(known) == ALICE
    door.clock.now += 60
    assert await door.admit(sign(claims(jti="other"))) == replace(ALICE, token_id="other")


async def test_keys_come_over_the_guarded_way_out():
    policy = EgressPolicy.of(["127.0.0.1"])
    async with web_server() as server:
        url = f"http://127.0.0.1:{server.port}"
        document = {"issuer": url, "jwks_uri": f"{url}/jwks", "keys": [public(RSA)]}
        server.answer = answer(json.dumps(document).encode())
        foreign = Foreign(fetcher=GuardedFetcher(policy))
        gate = ExternalGate(
            replace(TRUSTED, issuer=url),
            resources=RESOURCES,
            tokens=foreign.tokens,
            clock=foreign.clock,
        )
        principal = await gate.authenticate(BearerToken(text=sign(claims(iss=url))), MAIL)
    assert principal.subject == "alice"
    assert [request.split(b" ")[1] for request in server.requests] == [
        b"/.well-known/oauth-authorization-server",
        b"/jwks",
    ]


async def test_records_name_the_issuer_beside_its_subject():
    principal = await Door().admit(sign(claims(sub="agent")))
    assert principal.recorded == f"{principal.issuer}|agent"
