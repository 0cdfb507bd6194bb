"""Tokens that are bound to a key: who is given one, who may use it, and what a thief has (RFC 9449)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.identity import AuthMethod, BearerToken, Client, Credential, Principal
from gateway.errors import ProofRefused, Unauthenticated
from gateway.oauth.authorization import RedirectedError
from gateway.oauth.clients import secret_hash
from gateway.oauth.grants.token_exchange import ACCESS_TOKEN, TOKEN_EXCHANGE
from gateway.oauth.possession import Possession, ProofRules, ProvenTokens
from gateway.oauth.protocol import token_hash
from gateway.oauth.records import TokenAnswer
from gateway.oauth.seen_proofs import SeenProofs
from gateway.oauth.tokens import mint, verify
from tests.oauth.holders import Holder
from tests.oauth.house import House, answer_in, query
from tests.oauth.issuing import ALICE, APP, CALLBACK, OTHER, VERIFIER, Issuer, form
from tests.oauth.test_access_tokens import forged
from tests.oauth.test_token_exchange import HOST, details, filed, held, proven
from tests.oauth.world import KEYS, MAIL, MAIL_URI, NOW, PUBLIC_URL, Hand, access_token, client

WEB = "/mcp/web"


class Demand(Enum):
    """What the endpoints but `WEB` want."""

    OFF = ProofRules()
    OFFERED = ProofRules(taken=frozenset({MAIL, "/mcp"}))
    REQUIRED = ProofRules(taken=frozenset({MAIL, "/mcp"}), required=frozenset({MAIL, "/mcp"}))


class Shop(Issuer):
    """An authorization server and a gate that take proofs, and what clients send to both."""

    def __init__(self, folder: Path, demand: Demand = Demand.OFFERED, *clients: Client) -> None:
        clock = Hand()
        self.seen = SeenProofs(since=NOW - 60)
        self.possession = Possession(demand.value, self.seen, clock=clock)
        self.proven = ProvenTokens(self.possession, lambda path: (PUBLIC_URL + path,))
        super().__init__(folder, *clients, clock=clock, possession=self.possession)

    def take(self, demand: Demand) -> None:
        """Change what is asked for."""
        self.possession.rules = demand.value

    async def send(self, proofs: Sequence[str], **parameters: str) -> TokenAnswer:
        """Ask the token endpoint, with every DPoP header there is."""
        return await self.endpoint.answer(replace(form(parameters), proofs=tuple(proofs)))

    async def buy(self, holder: Holder | None, **changes: Any) -> dict[str, Any]:
        """Redeem a new code, with a proof if somebody holds a key."""
        answer = await self.trade(self.code(**changes), holder)
        assert answer.status == 200, self.reason
        return dict(answer.body)

    async def trade(self, code: str, holder: Holder | None, **changes: str) -> TokenAnswer:
        proofs = [] if holder is None else [holder.proof(iat=int(self.clock.now))]
        parameters = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": CALLBACK,
            "code_verifier": VERIFIER,
            **changes,
        }
        return await self.send(proofs, **parameters)

    async def renew(self, token: str, holder: Holder | None, **changes: str) -> TokenAnswer:
        proofs = [] if holder is None else [holder.proof(iat=int(self.clock.now))]
        return await self.send(proofs, grant_type="refresh_token", refresh_token=token, **changes)

    def shown(self, holder: Holder, token: str, /, **claims: Any) -> list[tuple[str, str]]:
        """Return the fields with which a bound token is sent."""
        said = {"htu": MAIL_URI, "token": token, "iat": int(self.clock.now), **claims}
        return [("authorization", f"DPoP {token}"), ("dpop", holder.proof(**said))]

    async def enter(self, fields: Sequence[tuple[str, str]], endpoint: str = MAIL) -> Principal:
        """Come to an endpoint with a POST."""
        return await self.gate.authenticate(self.credential(fields, endpoint), endpoint)

    def credential(self, fields: Sequence[tuple[str, str]], endpoint: str = MAIL) -> Credential:
        scheme, token = fields[0][1].split(" ")
        if scheme == "Bearer":
            return BearerToken(text=token)
        return self.proven.read("POST", endpoint, token, [text for _, text in fields[1:]])

    async def turned_away(self, fields: Sequence[tuple[str, str]], endpoint: str = MAIL) -> str:
        with pytest.raises(Unauthenticated) as raised:
            await self.enter(fields, endpoint)
        return raised.value.detail


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path)
    yield shop
    shop.stores.close()


HOLDER, THIEF = Holder(), Holder()


# Who is given what


async def test_with_a_proof_a_token_is_bound_and_says_so(shop):
    body = await shop.buy(HOLDER)
    assert body["token_type"] == "DPoP"
    assert shop.read(body).bound_to == HOLDER.thumbprint
    assert f"bound to key {HOLDER.thumbprint[:8]}" in shop.reason
    assert HOLDER.thumbprint not in shop.reason


async def test_without_one_it_is_a_bearer_token_like_any_other(shop):
    body = await shop.buy(None)
    assert body["token_type"] == "Bearer"
    assert shop.read(body).bound_to == ""
    assert (await shop.admit(body)).user_id == ALICE.id


async def test_where_it_is_required_nothing_is_given_or_used_up_without(tmp_path):
    shop = Shop(tmp_path, Demand.REQUIRED)
    code = shop.code()
    refused = await shop.trade(code, None)
    assert (refused.status, refused.body["error"]) == (400, "invalid_dpop_proof")
    assert refused.body["error_description"] == "a DPoP proof is required"
    assert (await shop.trade(code, HOLDER)).status == 200


async def test_a_client_that_wants_nothing_else_gets_nothing_else(tmp_path):
    shop = Shop(tmp_path, Demand.OFFERED, replace(APP, holds_key=True))
    code = shop.code()
    assert (await shop.trade(code, None)).body["error"] == "invalid_dpop_proof"
    assert (await shop.trade(code, HOLDER)).status == 200
    shop.take(Demand.OFF)
    assert (await shop.buy(None))["token_type"] == "Bearer"


async def test_where_it_is_off_a_proof_is_not_even_read(tmp_path):
    shop = Shop(tmp_path, Demand.OFF)
    answer = await shop.send(["no proof"], grant_type="refresh_token", refresh_token="x")
    assert answer.body["error"] == "invalid_grant"
    assert (await shop.buy(HOLDER))["token_type"] == "Bearer"


async def test_one_endpoint_may_take_what_another_does_not(shop):
    assert (await shop.buy(HOLDER, endpoint=WEB))["token_type"] == "Bearer"
    assert (await shop.buy(HOLDER, endpoint=MAIL))["token_type"] == "DPoP"


@pytest.mark.parametrize(
    ("proofs", "why"),
    [
        (["x"], "not a signed JWT"),
        ([HOLDER.proof(), HOLDER.proof()], "more than one"),
        ([HOLDER.proof(htm="GET")], "for another method"),
        ([HOLDER.proof(htu=MAIL_URI)], "for another URL"),
        ([HOLDER.proof(iat=int(NOW) - 61)], "made too long ago, or too far ahead"),
    ],
)
async def test_a_proof_that_is_not_for_this_request_is_refused_and_never_recorded(
    shop, proofs, why
):
    answer = await shop.send(proofs, grant_type="refresh_token", refresh_token="x")
    assert (answer.status, answer.body["error"]) == (400, "invalid_dpop_proof")
    assert shop.reason == f"DPoP proof: {why}"
    assert not any(proof in repr(shop.log.records) for proof in proofs)


async def test_a_proof_is_good_for_one_token(shop):
    proof = HOLDER.proof()
    code = {"grant_type": "authorization_code", "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
    assert (await shop.send([proof], code=shop.code(), **code)).status == 200
    second = shop.code()
    answer = await shop.send([proof], code=second, **code)
    assert (answer.body["error"], shop.reason) == ("invalid_dpop_proof", "DPoP proof: used before")
    assert (await shop.trade(second, HOLDER)).status == 200


async def test_what_is_refused_for_something_else_uses_no_proof_up(shop):
    proof = HOLDER.proof()
    refused = await shop.send([proof], grant_type="refresh_token", refresh_token="unknown")
    assert refused.body["error"] == "invalid_grant"
    assert len(shop.seen) == 0


async def test_devices_and_clients_that_act_for_themselves_get_bound_tokens_too(tmp_path):
    secret = "s3cret"
    program = replace(
        client().client,
        auth_methods=frozenset({AuthMethod.POST}),
        secret_hash=secret_hash(secret),
    )
    shop = Shop(tmp_path, Demand.REQUIRED, APP, program)
    begun = await shop.begin_device()
    shop.approve(begun.body["device_code"])
    shop.clock.now += 10
    polled = await shop.send(
        [HOLDER.proof(iat=int(shop.clock.now))],
        grant_type="urn:ietf:params:oauth:grant-type:device_code",
        device_code=begun.body["device_code"],
    )
    own = await shop.send(
        [HOLDER.proof(iat=int(shop.clock.now))],
        grant_type="client_credentials",
        client_id=program.id,
        client_secret=secret,
    )
    for answer in (polled, own):
        assert answer.status == 200, shop.reason
        assert shop.read(answer.body).bound_to == HOLDER.thumbprint


# Codes that are bound before


async def test_a_code_that_is_bound_to_a_key_is_redeemed_by_its_holder_alone(shop):
    code = shop.code()
    bound = replace(
        shop.stores.grants.code(token_hash(code)),
        code_hash=token_hash("bound"),
        bound_to=HOLDER.thumbprint,
    )
    shop.stores.grants.issue_code(shop.grant(id="g-bound"), replace(bound, grant_id="g-bound"))
    for other in (None, THIEF):
        answer = await shop.trade("bound", other)
        assert (answer.status, answer.body["error"]) == (400, "invalid_grant")
        assert shop.reason == "the code is bound to another key"
    assert (await shop.trade("bound", HOLDER)).status == 200
    # Used up, it signs nobody out who has the key, for somebody who has not.
    await shop.trade("bound", THIEF)
    assert shop.stores.grants.grant("g-bound").revoked_at is None


@pytest.mark.parametrize("demand", Demand)
async def test_which_key_a_code_is_for_may_be_said_when_it_is_asked_for(tmp_path, demand):
    house = House(tmp_path, possession=Possession(demand.value, SeenProofs(since=0), clock=Hand()))
    house.add()
    begun = await house.authorization.begin(query(dpop_jkt=HOLDER.thumbprint), "192.0.2.7")
    answer = await house.authorization.approve(begun.request, ALICE, "192.0.2.7")
    code = house.stores.grants.code(token_hash(answer_in(answer)["code"]))
    assert code is not None
    assert code.bound_to == ("" if demand is Demand.OFF else HOLDER.thumbprint)
    house.stores.close()


@pytest.mark.parametrize("said", ["x", "x" * 44, "x" * 42 + "="])
async def test_what_is_no_thumbprint_is_refused(tmp_path, said):
    possession = Possession(Demand.OFFERED.value, SeenProofs(since=0), clock=Hand())
    house = House(tmp_path, possession=possession)
    house.add()
    with pytest.raises(RedirectedError) as raised:
        await house.authorization.begin(query(dpop_jkt=said), "192.0.2.7")
    assert raised.value.public == "dpop_jkt is not the thumbprint of a key"
    house.stores.close()


# Refresh tokens


async def test_a_public_clients_refresh_token_is_bound_to_its_key_and_stays_the_same(shop):
    token = (await shop.buy(HOLDER))["refresh_token"]
    for _ in range(3):
        shop.clock.now += 600
        answer = await shop.renew(token, HOLDER)
        assert answer.status == 200
        assert "refresh_token" not in answer.body
        assert shop.read(answer.body).bound_to == HOLDER.thumbprint


@pytest.mark.parametrize("other", [None, THIEF], ids=["nothing", "another key"])
async def test_whoever_steals_a_bound_refresh_token_gets_nothing_and_signs_nobody_out_by_trying(
    shop, other
):
    token = (await shop.buy(HOLDER))["refresh_token"]
    families = shop.families()
    answer = await shop.renew(token, other)
    assert (answer.status, answer.body["error"]) == (400, "invalid_grant")
    assert shop.record.fields["reasons"][0]["code"] == "refresh_other_key"
    assert shop.families() == families
    assert (await shop.renew(token, HOLDER)).status == 200


@pytest.mark.parametrize("which", ["access_token", "refresh_token"])
async def test_whoever_has_a_bound_token_can_end_its_grant_and_nothing_else(shop, which):
    """RFC 7009 asks for no proof, and clients send none: who signs out must not stay signed in."""
    body, other = await shop.buy(HOLDER), await shop.buy(HOLDER)
    answer = await shop.revoke(body[which])
    assert (answer.status, answer.body) == (200, {})
    assert shop.record.fields["reasons"][0]["code"] == "revoked"
    assert (await shop.renew(body["refresh_token"], HOLDER)).body["error"] == "invalid_grant"
    assert (await shop.renew(other["refresh_token"], HOLDER)).status == 200


async def test_a_bound_refresh_token_is_worth_nothing_where_proofs_are_taken_no_longer(shop):
    token = (await shop.buy(HOLDER))["refresh_token"]
    shop.take(Demand.OFF)
    assert (await shop.renew(token, HOLDER)).body["error"] == "invalid_grant"


async def test_another_client_with_a_bound_refresh_token_still_ends_its_family(shop):
    token = (await shop.buy(HOLDER))["refresh_token"]
    await shop.renew(token, HOLDER, client_id=OTHER.id)
    assert shop.record.fields["reasons"][0]["code"] == "refresh_revoked"


async def test_a_family_that_began_without_a_key_is_bound_from_its_first_proof_on(shop):
    first = (await shop.buy(None))["refresh_token"]
    answer = await shop.renew(first, HOLDER)
    assert answer.body["token_type"] == "DPoP"
    second = answer.body["refresh_token"]
    assert (await shop.renew(second, THIEF)).body["error"] == "invalid_grant"
    assert "refresh_token" not in (await shop.renew(second, HOLDER)).body


async def test_a_client_with_a_secret_is_bound_by_that_and_may_change_its_key(tmp_path):
    secret = "s3cret"
    held = replace(APP, auth_methods=frozenset({AuthMethod.POST}), secret_hash=secret_hash(secret))
    shop = Shop(tmp_path, Demand.OFFERED, held)
    bought = await shop.trade(shop.code(), HOLDER, client_secret=secret)
    other = Holder()
    renewed = await shop.renew(bought.body["refresh_token"], other, client_secret=secret)
    assert renewed.status == 200
    assert renewed.body["refresh_token"] != bought.body["refresh_token"]
    assert shop.read(renewed.body).bound_to == other.thumbprint


# Programs of trusted hosts


def exchanging(subject: str) -> dict[str, str]:
    return {
        "grant_type": TOKEN_EXCHANGE,
        "subject_token": subject,
        "subject_token_type": ACCESS_TOKEN,
        "authorization_details": details(),
        **proven(),
    }


@pytest.mark.parametrize("bound", [True, False])
async def test_the_token_of_a_program_is_bound_to_the_key_of_its_host(tmp_path, bound):
    shop = Shop(tmp_path, Demand.OFFERED, HOST)
    held_by = HOLDER.thumbprint if bound else ""
    request = exchanging(held(bound_to=held_by))
    answer = await shop.send([HOLDER.proof()], **request)
    assert answer.status == 200, shop.reason
    assert answer.body["token_type"] == "DPoP"
    token = shop.read(answer.body, PUBLIC_URL + "/mcp")
    assert (token.bound_to, bool(token.script)) == (HOLDER.thumbprint, True)


@pytest.mark.parametrize("other", [None, THIEF], ids=["nothing", "another key"])
async def test_a_stolen_bound_token_is_traded_for_none(tmp_path, other):
    shop = Shop(tmp_path, Demand.OFFERED, HOST)
    proofs = [] if other is None else [other.proof()]
    answer = await shop.send(proofs, **exchanging(held(bound_to=HOLDER.thumbprint)))
    assert (answer.status, answer.body["error"]) == (400, "invalid_request")
    assert filed(shop) == []


# At an endpoint


async def test_its_holder_enters_with_a_bound_token_and_a_proof(shop):
    token = (await shop.buy(HOLDER))["access_token"]
    principal = await shop.enter(shop.shown(HOLDER, token))
    assert principal.user_id == ALICE.id


async def test_a_stolen_bound_token_opens_nothing(shop):
    token = (await shop.buy(HOLDER))["access_token"]
    bearer = [("authorization", f"Bearer {token}")]
    assert await shop.turned_away(bearer) == "a bound token without a proof"
    with_a_proof_beside = [*bearer, *shop.shown(HOLDER, token)[1:]]
    assert await shop.turned_away(with_a_proof_beside) == "a bound token without a proof"
    assert await shop.turned_away(shop.shown(THIEF, token)) == "the token is bound to another key"
    assert await shop.turned_away([("authorization", f"DPoP {token}")]) == "DPoP proof: missing"
    with pytest.raises(Unauthenticated):
        await shop.admit({"access_token": token})


async def test_a_request_that_was_overheard_is_not_made_again(shop):
    token = (await shop.buy(HOLDER))["access_token"]
    fields = shop.shown(HOLDER, token)
    await shop.enter(fields)
    with pytest.raises(ProofRefused) as raised:
        await shop.enter(fields)
    assert raised.value.detail == "DPoP proof: used before"


async def test_one_request_is_looked_at_as_often_as_it_takes(shop):
    token = (await shop.buy(HOLDER))["access_token"]
    credential = shop.credential(shop.shown(HOLDER, token))
    for later in (0, 1, 100, 400):
        shop.clock.now = NOW + later
        assert (await shop.gate.authenticate(credential, MAIL)).user_id == ALICE.id
    shop.clock.now = NOW + 900
    with pytest.raises(Unauthenticated, match="expired"):
        await shop.gate.authenticate(credential, MAIL)


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"htm": "GET"}, "for another method"),
        ({"htu": PUBLIC_URL + WEB}, "for another URL"),
        ({"htu": "http://127.0.0.1:9/mcp/mail"}, "for another URL"),
        ({"token": "another"}, "for another access token"),
        ({"token": None}, "for another access token"),
        ({"iat": int(NOW) - 61}, "made too long ago, or too far ahead"),
    ],
)
async def test_a_proof_for_another_request_opens_nothing(shop, claims, why):
    token = (await shop.buy(HOLDER))["access_token"]
    assert await shop.turned_away(shop.shown(HOLDER, token, **claims)) == f"DPoP proof: {why}"


async def test_two_proofs_are_none(shop):
    token = (await shop.buy(HOLDER))["access_token"]
    fields = [*shop.shown(HOLDER, token), *shop.shown(HOLDER, token)[1:]]
    assert await shop.turned_away(fields) == "DPoP proof: more than one"


async def test_a_token_that_is_not_bound_is_not_sent_with_a_proof(shop):
    token = (await shop.buy(None))["access_token"]
    why = "a proof beside a token that is bound to no key"
    assert await shop.turned_away(shop.shown(HOLDER, token)) == why
    assert (await shop.enter([("authorization", f"Bearer {token}")])).user_id == ALICE.id


async def test_where_it_is_required_a_bearer_token_opens_nothing(shop):
    token = (await shop.buy(None))["access_token"]
    bound = (await shop.buy(HOLDER))["access_token"]
    shop.take(Demand.REQUIRED)
    bearer = [("authorization", f"Bearer {token}")]
    assert await shop.turned_away(bearer) == "the token is bound to no key"
    assert (await shop.enter(shop.shown(HOLDER, bound))).user_id == ALICE.id


async def test_where_it_is_off_a_bound_token_opens_nothing_however_it_comes(shop):
    token = (await shop.buy(HOLDER))["access_token"]
    proven = shop.credential(shop.shown(HOLDER, token))
    shop.take(Demand.OFF)
    assert shop.credential(shop.shown(HOLDER, token)) is None
    assert await shop.turned_away([("authorization", f"Bearer {token}")])
    with pytest.raises(Unauthenticated) as raised:
        await shop.gate.authenticate(proven, MAIL)
    assert raised.value.detail == "DPoP is off here"


async def test_whoever_is_refused_for_something_else_uses_no_proof_up(shop):
    token = (await shop.buy(HOLDER))["access_token"]
    used = len(shop.seen)
    assert await shop.turned_away(shop.shown(THIEF, token))
    assert await shop.turned_away(shop.shown(HOLDER, token + "x"))
    assert len(shop.seen) == used


async def test_one_persons_clients_have_one_share_of_the_proofs_that_are_remembered(tmp_path):
    shop = Shop(tmp_path, Demand.OFFERED, APP, OTHER)
    bob = replace(ALICE, id="b0b", subject="bob")
    shop.stores.users.add(bob)
    of = [{"client_id": APP.id}, {"client_id": OTHER.id}, {"user_id": bob.id}]
    sold = [
        await shop.trade(shop.code(**one), HOLDER, client_id=one.get("client_id", APP.id))
        for one in of
    ]
    tokens = [str(one.body["access_token"]) for one in sold]
    shop.seen._most = 40  # four of one person's, two of which got the tokens
    for token in tokens[:2]:
        await shop.enter(shop.shown(HOLDER, token))
    for token in tokens[:2]:
        refused = await shop.turned_away(shop.shown(HOLDER, token))
        assert refused.endswith("more proofs are in use than can be remembered")
    unsold = await shop.trade(shop.code(client_id=OTHER.id), HOLDER, client_id=OTHER.id)
    assert unsold.body["error"] == "invalid_dpop_proof"
    await shop.enter(shop.shown(HOLDER, tokens[2]))
    shop.stores.close()


async def test_what_a_program_gets_its_token_with_is_in_its_persons_share(tmp_path):
    shop = Shop(tmp_path, Demand.OFFERED, HOST)
    shop.seen._most = 10  # one of each person's
    sold = await shop.send([HOLDER.proof()], **exchanging(held()))
    assert sold.status == 200, shop.reason
    refused = await shop.turned_away(
        shop.shown(HOLDER, sold.body["access_token"], htu=PUBLIC_URL + "/mcp"), "/mcp"
    )
    assert refused.endswith("more proofs are in use than can be remembered")
    shop.stores.close()


# In the token


def test_what_a_bound_token_says_is_read_as_it_was_written():
    token = access_token(client().client, bound_to=HOLDER.thumbprint)
    text = mint(token, KEYS)
    assert verify(text, keys=KEYS, issuer=PUBLIC_URL, audience=MAIL_URI, now=NOW) == token


@pytest.mark.parametrize(
    "cnf",
    [
        "x",
        {},
        {"jkt": ""},
        {"jkt": 1},
        {"jkt": "x" * 42},
        {"x5t#S256": "x" * 43},
        {"jkt": "x" * 43, "x5t#S256": "x" * 43},
    ],
)
def test_a_token_that_is_bound_in_another_way_is_worth_nothing(cnf):
    with pytest.raises(Unauthenticated) as raised:
        verify(forged(cnf=cnf), keys=KEYS, issuer=PUBLIC_URL, audience=MAIL_URI, now=NOW)
    assert raised.value.detail == "the token is bound in another way"


def test_a_proof_is_good_for_five_minutes_at_most():
    for window_s in (0, 300.1):
        with pytest.raises(ValueError, match="at most 300 s"):
            ProofRules(window_s=window_s)
    assert ProofRules(window_s=300).window_s == 300


def test_what_is_required_is_taken():
    with pytest.raises(ValueError, match="none are taken"):
        ProofRules(taken=frozenset({WEB}), required=frozenset({MAIL}))
