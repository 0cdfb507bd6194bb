"""Tokens for programs that hosts run (RFC 8693, RFC 9396): narrower in everything, or none."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from joserfc import jws

from gateway.domain.grants import ASSERTED
from gateway.domain.identity import AuthMethod, BearerToken, Client, Principal, Proof
from gateway.domain.scripts import Script, ScriptId, ToolGrant
from gateway.domain.tools import UpstreamId
from gateway.errors import AuditUnavailable, RateLimited, Unauthenticated
from gateway.oauth import protocol
from gateway.oauth.builtin import AUTHORIZATION_CODE
from gateway.oauth.clients import CLIENT_CREDENTIALS
from gateway.oauth.grants.token_exchange import ACCESS_TOKEN, TOKEN_EXCHANGE
from gateway.oauth.keys import KeyRing
from gateway.oauth.possession import Possession, ProofRules
from gateway.oauth.records import TokenAnswer, TokenRequest
from gateway.oauth.seen_proofs import SeenProofs
from gateway.oauth.tokens import AccessToken, mint, verify_any
from tests.oauth.holders import Holder
from tests.oauth.issuing import ALICE, SOURCE, Issuer
from tests.oauth.world import KEY, KEYS, MAIL, MAIL_URI, NOW, PUBLIC_URL, client, new_key

ALL = "/mcp"
SCOPES = frozenset({"tools:list", "tools:call", "tools:write", "prompts", "code:run"})
NEW = client(seed=6, resources=frozenset({ALL, MAIL}), scopes=SCOPES, trusted_host=True)
HOST = replace(NEW.client, grants=(CLIENT_CREDENTIALS, AUTHORIZATION_CODE))
PLAIN = client(seed=7, resources=frozenset({ALL}), scopes=SCOPES)
RIVAL = client(seed=8, resources=frozenset({ALL}), scopes=SCOPES, trusted_host=True)
SHA = "ab" * 32
TOOL: dict[str, Any] = {"name": "mail__send", "max_calls": 2, "arguments": {"project": "X"}}
DETAILS: dict[str, Any] = {
    "type": "mcp_script_run",
    "tools": [TOOL],
    "max_calls": 20,
    "code_sha256": SHA,
}


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[Issuer]:
    issuer = Issuer(tmp_path, HOST, PLAIN.client, RIVAL.client)
    yield issuer
    issuer.stores.close()


def proven(of: Any = NEW) -> dict[str, str]:
    return {"client_id": of.client.id, "client_secret": of.secret}


def held(of: Client = HOST, keys: KeyRing = KEYS, **changes: Any) -> str:
    """Return a token with which a client acts for itself at `/mcp`, changed as told."""
    fields: dict[str, Any] = {
        "issuer": PUBLIC_URL,
        "subject": of.id,
        "audience": PUBLIC_URL + ALL,
        "client_id": of.id,
        "client_name": of.name,
        "scopes": of.scopes,
        "groups": of.groups,
        "issued_at": int(NOW),
        "expires_at": int(NOW) + 900,
        "token_id": "token-1",
    }
    return mint(AccessToken(**{**fields, **changes}), keys)


def of_alice(issuer: Issuer, **changes: Any) -> str:
    """Return a token that Alice granted to the host, whose family is stored."""
    granted = {"client_id": HOST.id, "endpoint": ALL, "scopes": SCOPES, **changes}
    grant = issuer.grant(**granted)
    issuer.stores.grants.begin_family(grant, None)
    return held(subject=ALICE.id, grant_id=grant.id, groups=frozenset())


def details(tool: Mapping[str, Any] | None = None, **changes: Any) -> str:
    """Return good details, changed as told; what is changed to `None` is left out."""
    content = {**DETAILS, **({} if tool is None else {"tools": [tool]}), **changes}
    return json.dumps([{name: each for name, each in content.items() if each is not None}])


async def exchanged(issuer: Issuer, **changes: str) -> TokenAnswer:
    """Ask for a token for a program as the host; a parameter changed to nothing is left out."""
    form = {
        "grant_type": TOKEN_EXCHANGE,
        "subject_token": held(),
        "subject_token_type": ACCESS_TOKEN,
        "requested_token_type": ACCESS_TOKEN,
        "authorization_details": details(),
        **proven(),
        **changes,
    }
    return await issuer.ask(**form)


async def granted(issuer: Issuer, **changes: str) -> str:
    answer = await exchanged(issuer, **changes)
    assert answer.status == 200, answer.record
    text: str = answer.body["access_token"]
    return text


async def refused(issuer: Issuer, error: str, **changes: str) -> str:
    """Return why; no program was filed."""
    answer = await exchanged(issuer, **changes)
    assert (answer.body["error"], "access_token" in answer.body) == (error, False)
    assert filed(issuer) == []
    return issuer.reason


def filed(issuer: Issuer) -> list[Script]:
    return list(issuer.scripts._live.values())


async def admitted(issuer: Issuer, text: str, endpoint: str = ALL) -> Principal:
    return await issuer.gate.authenticate(BearerToken(text=text), endpoint)


async def shut(issuer: Issuer, text: str, endpoint: str = ALL) -> None:
    for _ in range(2):
        with pytest.raises(Unauthenticated):
            await admitted(issuer, text, endpoint)


def payload(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    header, claims, _ = (base64.urlsafe_b64decode(part + "==") for part in text.split("."))
    return json.loads(header), json.loads(claims)


def encoded(content: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


# What comes out.


async def test_the_answer_says_what_was_granted(issuer: Issuer) -> None:
    answer = await exchanged(issuer)
    body = dict(answer.body)
    assert isinstance(body.pop("access_token"), str)
    (script,) = filed(issuer)
    assert body == {
        "token_type": "Bearer",
        "issued_token_type": ACCESS_TOKEN,
        "expires_in": 600,
        "scope": "tools:list tools:call tools:write",
        "authorization_details": [{**DETAILS, "expires_in": 600, "run": script.id}],
    }


async def test_the_program_is_filed_with_all_that_it_may_call(issuer: Issuer) -> None:
    given = details(max_calls=7, expires_in=60, parent="toolu_1")
    await granted(issuer, authorization_details=given)
    (script,) = filed(issuer)
    assert script == Script(
        id=script.id,
        principal=f"{PUBLIC_URL}|{HOST.id}|{HOST.id}",
        person=f"{PUBLIC_URL}|{HOST.id}",
        sha256=SHA,
        grants=(
            ToolGrant(server=UpstreamId("mail"), tool="send", most=2, arguments={"project": "X"}),
        ),
        most=7,
        parent="toolu_1",
        began=NOW,
        expires_at=NOW + 60,
    )


async def test_calls_of_a_program_without_a_parent_hang_from_the_record_of_its_token(
    issuer: Issuer,
) -> None:
    answer = await exchanged(issuer)
    assert [one.parent for one in filed(issuer)] == [answer.record.id]


async def test_the_token_names_person_client_and_program(issuer: Issuer) -> None:
    text = await granted(issuer, subject_token=of_alice(issuer))
    header, claims = payload(text)
    (script,) = filed(issuer)
    assert (header["typ"], header["alg"]) == ("run+jwt", payload(held())[0]["alg"])
    told = {name: claims[name] for name in ("sub", "client_id", "aud", "act", "scope", "exp")}
    assert told == {
        "sub": ALICE.id,
        "client_id": HOST.id,
        "aud": PUBLIC_URL + ALL,
        "act": {"sub": script.id, "act": {"sub": HOST.id}},
        "scope": "tools:call tools:list tools:write",
        "exp": int(NOW) + 600,
    }
    assert claims["jti"] not in {"token-1", script.id}
    assert claims["subject_jti"] == "token-1"


async def test_the_gate_lets_the_token_in_as_its_principals_program_and_no_trusted_host(
    issuer: Issuer,
) -> None:
    subject = of_alice(issuer)
    direct = await admitted(issuer, subject)
    text = await granted(issuer, subject_token=subject)
    (script,) = filed(issuer)
    expected = replace(
        direct,
        scopes=frozenset({"tools:list", "tools:call", "tools:write"}),
        token_id=payload(text)[1]["jti"],
        expires_at=NOW + 600,
        trusted_host=False,
        script=script.id,
    )
    assert direct.trusted_host
    for _ in range(2):
        assert await admitted(issuer, text) == expected
    assert expected.key == script.principal


async def test_a_person_that_a_provider_vouches_for_may_have_programs(issuer: Issuer) -> None:
    subject = of_alice(issuer, id=ASSERTED + "1")
    text = await granted(issuer, subject_token=subject)
    assert (await admitted(issuer, text)).user_id == ALICE.id
    issuer.stores.grants.revoke_grant(ASSERTED + "1", "test", at=NOW)
    await shut(issuer, text)


async def test_nobody_gets_a_token_before_its_program_is_filed(issuer: Issuer) -> None:
    async def down(script: Script) -> None:
        raise AuditUnavailable("the log is full")

    issuer.scripts.begin = down  # type: ignore[method-assign]
    answer = await exchanged(issuer)
    assert (answer.status, "access_token" in answer.body) == (503, False)


async def test_who_has_too_many_programs_gets_no_token_for_one_more(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(script: Script) -> None:
        raise RateLimited("too many programs run")

    monkeypatch.setattr(issuer.scripts, "begin", full)
    answer = await exchanged(issuer)
    assert (answer.status, answer.body["error"]) == (429, "rate_limited")
    assert answer.body["error_description"] == "too many programs run"


async def test_without_policy_there_is_no_token(issuer: Issuer) -> None:
    issuer.tools.down = True
    answer = await exchanged(issuer)
    assert (answer.status, filed(issuer)) == (503, [])


class Elsewhere:
    """Notes all uses, as what gateways share does: in a thread, whoever asks."""

    def __init__(self) -> None:
        self.used: list[bytes] = []

    def use(self, proof: Proof, *, now: float) -> None:
        del now
        self.used.append(proof.use)


async def test_more_exchanges_at_once_than_there_are_threads_wait_for_no_other(
    tmp_path: Path,
) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
    elsewhere, holder = Elsewhere(), Holder()
    seen = SeenProofs(since=NOW - 100, elsewhere=elsewhere)
    possession = Possession(ProofRules(taken=frozenset({ALL})), seen, clock=lambda: NOW)
    issuer = Issuer(tmp_path, HOST, possession=possession)
    form = {
        "grant_type": TOKEN_EXCHANGE,
        "subject_token": held(bound_to=holder.thumbprint),
        "subject_token_type": ACCESS_TOKEN,
        "authorization_details": details(),
        **proven(),
    }

    def bound() -> TokenRequest:
        body = urlencode(form).encode()
        return TokenRequest(body=body, source_ip=SOURCE, proofs=(holder.proof(),))

    with closing(issuer.stores):
        async with asyncio.timeout(10):
            answers = await asyncio.gather(*(issuer.endpoint.answer(bound()) for _ in range(6)))
    assert [answer.status for answer in answers] == [200] * 6
    assert len(elsewhere.used) == 6


async def test_what_does_not_answer_is_waited_for_only_so_long(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_up = asyncio.Event()

    async def never(*_: object) -> Mapping[str, tuple[UpstreamId, str]]:
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()
        return {}

    monkeypatch.setattr(protocol, "_PATIENCE_S", 0.05, raising=False)
    monkeypatch.setattr(issuer.tools, "of", never)
    async with asyncio.timeout(10):
        assert await refused(issuer, "temporarily_unavailable") == "no answer after 0.05 s"
        await given_up.wait()


async def test_what_may_be_seen_is_asked_of_the_subject(issuer: Issuer) -> None:
    await granted(issuer, subject_token=of_alice(issuer))
    assert issuer.tools.asked == [(f"{PUBLIC_URL}|alice|{HOST.id}", SOURCE)]


# Who may ask.


async def test_only_a_trusted_host_gets_a_token_for_a_program(issuer: Issuer) -> None:
    own = held(PLAIN.client)
    await refused(issuer, "unauthorized_client", subject_token=own, **proven(PLAIN))


@pytest.mark.parametrize("secret", ["", "wrong"])
async def test_the_subject_token_alone_is_no_proof_of_the_client(
    issuer: Issuer, secret: str
) -> None:
    await refused(issuer, "invalid_client", client_secret=secret)


async def test_a_public_client_gets_none_even_if_trusted(tmp_path: Path) -> None:
    public = replace(HOST, auth_methods=frozenset({AuthMethod.NONE}), secret_hash="")
    issuer = Issuer(tmp_path, public)
    try:
        await refused(issuer, "invalid_client", client_secret="")
    finally:
        issuer.stores.close()


async def test_where_no_program_can_be_filed_there_is_no_such_grant(issuer: Issuer) -> None:
    issuer.server.programs = None
    await refused(issuer, "unsupported_grant_type")


# Whose token is traded.


async def test_another_clients_token_is_traded_for_nothing(issuer: Issuer) -> None:
    why = await refused(issuer, "invalid_request", subject_token=held(RIVAL.client))
    assert why == "another client's token"


async def test_another_persons_right_is_not_had_by_naming_them(issuer: Issuer) -> None:
    """A token in which no family stands behind the person is nobody's."""
    await refused(issuer, "invalid_request", subject_token=held(subject=ALICE.id))


async def test_a_token_for_another_endpoint_is_traded_for_nothing(issuer: Issuer) -> None:
    why = await refused(issuer, "invalid_request", subject_token=held(audience=MAIL_URI))
    assert why == "another audience"


@pytest.mark.parametrize("resource", [MAIL_URI, PUBLIC_URL + "/api/v1", "https://x.example"])
async def test_a_token_for_a_program_is_for_no_other_endpoint(
    issuer: Issuer, resource: str
) -> None:
    await refused(issuer, "invalid_target", resource=resource)


@pytest.mark.parametrize("slash", ["", "/"])
async def test_the_endpoint_may_be_named(issuer: Issuer, slash: str) -> None:
    assert await granted(issuer, resource=PUBLIC_URL + ALL + slash)


async def test_a_token_that_has_ended_is_traded_for_nothing(issuer: Issuer) -> None:
    issuer.clock.now += 900
    assert await refused(issuer, "invalid_request") == "expired"


async def test_a_token_that_was_revoked_is_traded_for_nothing(issuer: Issuer) -> None:
    issuer.stores.grants.revoke_token("token-1", until=NOW + 900)
    await refused(issuer, "invalid_request")


async def test_a_token_in_its_last_second_is_traded_for_nothing(issuer: Issuer) -> None:
    issuer.clock.now += 899.5
    assert len(await granted(issuer)) > 0
    assert filed(issuer)[0].expires_at == NOW + 900


async def test_the_token_of_a_program_is_traded_for_no_other(issuer: Issuer) -> None:
    for again in (details(), details({"name": "mail__search", "max_calls": 1})):
        run = await granted(issuer)
        before = filed(issuer)
        answer = await exchanged(issuer, subject_token=run, authorization_details=again)
        assert (answer.body["error"], filed(issuer)) == ("invalid_request", before)
        assert issuer.reason == "the token of a program is traded for no other"


@pytest.mark.parametrize(
    "changes",
    [
        {"subject_token_type": "urn:ietf:params:oauth:token-type:jwt"},
        {"subject_token_type": "urn:ietf:params:oauth:token-type:refresh_token"},
        {"requested_token_type": "urn:ietf:params:oauth:token-type:refresh_token"},
        {"actor_token": "x", "actor_token_type": ACCESS_TOKEN},
        {"actor_token_type": ACCESS_TOKEN},
        {"audience": "gateway"},
        {"subject_token": ""},
        {"subject_token_type": ""},
        {"authorization_details": ""},
        {"subject_token": "no token"},
    ],
    ids="-".join,
)
async def test_a_request_that_is_no_exchange_of_ours_is_refused(
    issuer: Issuer, changes: dict[str, str]
) -> None:
    await refused(issuer, "invalid_request", **changes)


async def test_the_type_that_is_wanted_need_not_be_said(issuer: Issuer) -> None:
    assert await granted(issuer, requested_token_type="")


# Narrower, never wider.


@pytest.mark.parametrize(
    "scope", ["tools:call admin", "prompts", "code:run", "servers:manage", "tools:call nothing"]
)
async def test_scopes_are_not_widened(issuer: Issuer, scope: str) -> None:
    await refused(issuer, "invalid_scope", scope=scope)


async def test_scopes_that_the_subject_token_lacks_are_not_had(issuer: Issuer) -> None:
    less = held(scopes=frozenset({"tools:list", "tools:call"}))
    await refused(issuer, "invalid_scope", subject_token=less, scope="tools:write")
    answer = await exchanged(issuer, subject_token=less)
    assert answer.body["scope"] == "tools:list tools:call"


async def test_a_subject_token_that_calls_nothing_gives_nothing(issuer: Issuer) -> None:
    await refused(issuer, "invalid_scope", subject_token=held(scopes=frozenset({"prompts"})))


async def test_fewer_scopes_may_be_asked_for(issuer: Issuer) -> None:
    text = await granted(issuer, scope="tools:call")
    assert (await admitted(issuer, text)).scopes == {"tools:call"}


async def test_a_token_for_a_program_ends_with_the_subject_token(issuer: Issuer) -> None:
    soon = held(expires_at=int(NOW) + 30)
    answer = await exchanged(issuer, subject_token=soon)
    (granted_details,) = answer.body["authorization_details"]
    assert (answer.body["expires_in"], granted_details["expires_in"]) == (30, 30)
    assert [one.expires_at for one in filed(issuer)] == [NOW + 30]


@pytest.mark.parametrize("name", ["*", "mail__*", "mail", "mail__", "MAIL__send", "", "run_code"])
async def test_a_wildcard_is_a_name_that_names_nothing(issuer: Issuer, name: str) -> None:
    asked = details({"name": name, "max_calls": 1})
    await refused(issuer, "invalid_authorization_details", authorization_details=asked)


async def test_unknown_and_forbidden_tools_are_told_apart_by_nobody(issuer: Issuer) -> None:
    texts = []
    for name in ("mail__search", "mail__nothing"):
        issuer.tools.known.pop("mail__search", None)
        asked = details(tools=[TOOL, {"name": name, "max_calls": 1}])
        answer = await exchanged(issuer, authorization_details=asked)
        texts.append((answer.status, answer.body))
    assert texts[0] == texts[1]
    assert filed(issuer) == []


@pytest.mark.parametrize("yes", [True, False])
async def test_nobody_is_asked_beforehand_for_a_token(issuer: Issuer, yes: bool) -> None:
    asked = details({**TOOL, "preapproved": yes})
    await refused(issuer, "invalid_authorization_details", authorization_details=asked)
    assert "run_code" in issuer.reason


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        "not JSON",
        '[{"type": "mcp_script_run", "type": "mcp_script_run"}]',
        json.dumps([DETAILS, DETAILS]),
        json.dumps(["mcp_script_run"]),
        details(type="payment"),
        details(type=None),
        details(tools=None),
        details(max_calls=None),
        details(code_sha256=None),
        details(tools=[]),
        details(tools={"name": "mail__send", "max_calls": 1}),
        details(tools=["mail__send"]),
        details(tools=[TOOL] * 51),
        details(surprise=1),
        details(locations=["https://elsewhere.example"]),
        details(max_calls=0),
        details(max_calls=True),
        details(max_calls=-1),
        details(max_calls=10_001),
        details(max_calls="5"),
        details(expires_in=601),
        details(expires_in=0),
        details(expires_in=True),
        details(code_sha256="AB" * 32),
        details(code_sha256="ab" * 31),
        details(code_sha256=7),
        details(parent=7),
        details(parent="x" * 129),
        details(parent="a\nb"),
        details({"name": "mail__send"}),
        details({"max_calls": 1}),
        details({"name": 7, "max_calls": 1}),
        details({"name": "mail__send", "max_calls": 0}),
        details({"name": "mail__send", "max_calls": True}),
        details({"name": "mail__send", "max_calls": 10_001}),
        details({"name": "mail__send", "max_calls": 1, "arguments": []}),
        details({"name": "mail__send", "max_calls": 1, "arguments": {"n": 10**30}}),
        details({"name": "mail__send", "max_calls": 1, "arguments": {"s": "\ud800"}}),
        details({"name": "mail__send", "max_calls": 1, "surprise": 1}),
    ],
    ids=range(41),
)
async def test_details_that_are_not_understood_in_full_give_nothing(
    issuer: Issuer, text: str
) -> None:
    await refused(issuer, "invalid_authorization_details", authorization_details=text)


# Forging one.


def unsigned(text: str) -> str:
    header, claims = payload(text)
    return f"{encoded({**header, 'alg': 'none'})}.{encoded(claims)}."


def signed_with_the_public_key(text: str) -> str:
    header, claims = payload(text)
    message = f"{encoded({**header, 'alg': 'HS256'})}.{encoded(claims)}"
    public = KEY.pair.as_pem(private=False)
    digest = hmac.new(public, message.encode(), hashlib.sha256).digest()
    return f"{message}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def of_another_program(text: str) -> str:
    header, claims = payload(text)
    claims["act"]["sub"] = "s_other"
    return f"{encoded(header)}.{encoded(claims)}.{text.split('.')[2]}"


def by_another_key(text: str) -> str:
    token = verify_any(text, keys=KEYS, issuer=PUBLIC_URL, now=NOW)
    return mint(token, KeyRing([new_key()]))


def as_an_access_token(text: str) -> str:
    header, claims = payload(text)
    return f"{encoded({**header, 'typ': 'at+jwt'})}.{encoded(claims)}.{text.split('.')[2]}"


@pytest.mark.parametrize(
    "forge",
    [unsigned, signed_with_the_public_key, of_another_program, by_another_key, as_an_access_token],
)
async def test_a_token_for_a_program_cannot_be_forged(
    issuer: Issuer, forge: Callable[[str], str]
) -> None:
    text = await granted(issuer)
    await shut(issuer, forge(text))
    assert (await admitted(issuer, text)).script is not None


async def test_a_forged_token_is_traded_for_nothing(issuer: Issuer) -> None:
    for forged in (unsigned(held()), signed_with_the_public_key(held())):
        await refused(issuer, "invalid_request", subject_token=forged)


def run_token(**changes: Any) -> AccessToken:
    token = verify_any(held(), keys=KEYS, issuer=PUBLIC_URL, now=NOW)
    return replace(token, **{"script": ScriptId("s_1"), "subject_token_id": "token-1", **changes})


async def test_a_program_that_nobody_filed_lets_nobody_in(issuer: Issuer) -> None:
    await shut(issuer, mint(run_token(), KEYS))


@pytest.mark.parametrize("changes", [{"script": ScriptId("")}, {"subject_token_id": ""}], ids=str)
def test_a_token_for_a_program_names_it_and_what_it_was_traded_for(
    changes: dict[str, Any],
) -> None:
    with pytest.raises(Unauthenticated):
        verify_any(mint(run_token(**changes), KEYS), keys=KEYS, issuer=PUBLIC_URL, now=NOW)


def signed(header: Mapping[str, Any], claims: Mapping[str, Any]) -> str:
    text: str = jws.serialize_compact(
        dict(header), json.dumps(claims).encode(), KEY.pair, algorithms=[header["alg"]]
    )
    return text


@pytest.mark.parametrize(
    "actor",
    [
        None,
        "s_1",
        {},
        {"sub": "s_1"},
        {"sub": 7, "act": {"sub": HOST.id}},
        {"sub": "s_1", "act": {"sub": "another"}},
        {"sub": "s_1", "act": {"sub": HOST.id}, "more": 1},
    ],
    ids=range(7),
)
def test_an_actor_is_a_program_of_the_client(actor: Any) -> None:
    header, claims = payload(mint(run_token(), KEYS))
    with pytest.raises(Unauthenticated):
        verify_any(signed(header, {**claims, "act": actor}), keys=KEYS, issuer=PUBLIC_URL, now=NOW)


@pytest.mark.parametrize("typ", ["JWT", "at+jwt", ""])
def test_a_token_for_a_program_has_a_type_of_its_own(typ: str) -> None:
    header, claims = payload(mint(run_token(), KEYS))
    with pytest.raises(Unauthenticated):
        verify_any(signed({**header, "typ": typ}, claims), keys=KEYS, issuer=PUBLIC_URL, now=NOW)


def test_an_access_token_that_is_for_no_program_names_no_actor() -> None:
    header, claims = payload(held())
    acted = {**claims, "act": {"sub": "s_1", "act": {"sub": HOST.id}}}
    with pytest.raises(Unauthenticated):
        verify_any(signed(header, acted), keys=KEYS, issuer=PUBLIC_URL, now=NOW)


@pytest.mark.parametrize("endpoint", [MAIL, "/api/v1", "/mcp/web"])
async def test_a_token_for_a_program_opens_no_other_endpoint(issuer: Issuer, endpoint: str) -> None:
    await shut(issuer, await granted(issuer), endpoint)


# Ending it.


async def test_a_token_for_a_program_ends_in_time(issuer: Issuer) -> None:
    text = await granted(issuer, authorization_details=details(expires_in=60))
    await admitted(issuer, text)
    issuer.clock.now += 60
    await shut(issuer, text)


async def test_a_program_that_has_ended_has_no_token(issuer: Issuer) -> None:
    text = await granted(issuer)
    await admitted(issuer, text)
    await issuer.scripts.end(filed(issuer)[0].id)
    await shut(issuer, text)


async def test_a_host_revokes_a_token_with_its_program_and_keeps_its_own(issuer: Issuer) -> None:
    subject = of_alice(issuer)
    text, other = [await granted(issuer, subject_token=subject) for _ in range(2)]
    await admitted(issuer, text)
    answer = await issuer.revoke(text, **proven())
    assert (answer.status, len(filed(issuer))) == (200, 1)
    await shut(issuer, text)
    await admitted(issuer, other)
    await admitted(issuer, subject)
    fields = issuer.record.fields
    told = (fields["client"], fields["script_sha256"], fields["token_id"], fields["reasons"])
    (reason,) = fields["reasons"]
    assert told[:3] == (HOST.id, SHA, payload(text)[1]["jti"])
    assert (reason["code"], reason["message"][:10]) == ("revoked", "program s_")
    assert issuer.record.kind.value == "token"


async def test_another_client_revokes_no_token_of_a_program(issuer: Issuer) -> None:
    text = await granted(issuer)
    answer = await issuer.revoke(text, **proven(RIVAL))
    assert (answer.status, issuer.record.fields["reasons"][0]["code"]) == (200, "no_effect")
    await admitted(issuer, text)


async def test_a_token_of_a_program_that_cannot_be_ended_is_not_said_to_be(
    issuer: Issuer,
) -> None:
    text = await granted(issuer)
    issuer.server.programs = None
    assert (await issuer.revoke(text, **proven())).status == 503


async def test_a_program_ends_with_the_token_that_was_traded_for_it(issuer: Issuer) -> None:
    text = await granted(issuer)
    await admitted(issuer, text)
    issuer.stores.grants.revoke_token("token-1", until=NOW + 900)
    await shut(issuer, text)


def end_family(issuer: Issuer, grant_id: str) -> None:
    issuer.stores.grants.revoke_grant(grant_id, "test", at=NOW)


def end_client(issuer: Issuer, _: str) -> None:
    issuer.stores.clients.remove(HOST.id)


def end_person(issuer: Issuer, _: str) -> None:
    issuer.stores.users.change(ALICE.id, disabled=True, at=NOW)


@pytest.mark.parametrize("end", [end_family, end_client, end_person])
async def test_a_program_ends_with_family_client_and_person(
    issuer: Issuer, end: Callable[[Issuer, str], None]
) -> None:
    text = await granted(issuer, subject_token=of_alice(issuer, id="grant-7"))
    end(issuer, "grant-7")
    await shut(issuer, text)


async def test_a_client_that_loses_a_scope_loses_it_for_its_programs(issuer: Issuer) -> None:
    text = await granted(issuer)
    await admitted(issuer, text)
    issuer.stores.clients.remove(HOST.id)
    issuer.stores.clients.add(replace(HOST, scopes=frozenset({"tools:call"})))
    assert (await admitted(issuer, text)).scopes == {"tools:call"}


# What is on record.


async def test_a_token_for_a_program_is_recorded_with_it(issuer: Issuer) -> None:
    text = await granted(issuer, subject_token=of_alice(issuer, id="family-1"))
    (script,) = filed(issuer)
    assert (issuer.record.kind.value, dict(issuer.record.fields)) == (
        "token",
        {
            "method": "oauth/token",
            "source_ip": SOURCE,
            "verdict": "allow",
            "principal": "alice",
            "client": HOST.id,
            "endpoint": ALL,
            "token_id": payload(text)[1]["jti"],
            "script_sha256": SHA,
            "arguments": {"authorization_details": [{**DETAILS, "expires_in": 600}]},
            "reasons": [
                {
                    "code": "issued",
                    "message": "scope tools:list tools:call tools:write, for 600 s, "
                    f"grant family-1, program {script.id}",
                }
            ],
        },
    )


async def test_a_refusal_is_recorded_with_the_program_that_it_is_about(issuer: Issuer) -> None:
    await refused(issuer, "invalid_scope", scope="admin")
    fields = issuer.record.fields
    told = (issuer.record.kind.value, fields["verdict"], fields["client"], fields["script_sha256"])
    assert told == ("token", "deny", HOST.id, SHA)
