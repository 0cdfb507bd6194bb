"""A person connects an upstream: bound to them, their browser, one server, and used once."""

import base64
import hashlib
import sqlite3
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest

from gateway.broker import CALLBACK_PATH
from gateway.domain.grants import Transaction
from gateway.errors import (
    AuditUnavailable,
    CredentialRequired,
    Forbidden,
    NotFound,
    Unsealable,
    UpstreamFailed,
)
from tests.broker.world import (
    BROWSER,
    EMMA,
    FINN,
    PUBLIC_URL,
    SOURCE,
    a_world,
    refused,
    tokens,
)
from tests.storage.identity.identities import NOW


async def test_the_browser_takes_exactly_what_the_protocol_asks_for(world):
    world.provider.protected = {"scopes_supported": ["read", "write"]}
    asked = await world.begun(world.broker())
    verifier_hash = asked.pop("code_challenge")
    assert len(base64.urlsafe_b64decode(verifier_hash + "=")) == 32
    assert len(asked.pop("state")) == 43
    assert asked == {
        "response_type": "code",
        "client_id": "client-1",
        "redirect_uri": f"{PUBLIC_URL}/connect/callback",
        "code_challenge_method": "S256",
        "scope": "read write",
        "resource": world.provider.resource,
    }


async def test_what_the_authorization_server_gives_is_shown_to_the_upstream(world):
    broker = world.broker()
    begun = await world.begun(broker)
    await world.finished(broker, state=begun["state"])
    (form,) = world.provider.forms
    verifier = form.pop("code_verifier")
    digest = hashlib.sha256(verifier.encode()).digest()
    assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == begun["code_challenge"]
    assert form == {
        "grant_type": "authorization_code",
        "code": "c0de",
        "redirect_uri": f"{PUBLIC_URL}/connect/callback",
        "resource": world.provider.resource,
    }
    assert await world.token(broker) == "at-1"
    assert world.told() == [("allow", "connected")]
    assert (
        world.audit.records[0].fields["principal"],
        world.audit.records[0].fields["source_ip"],
    ) == (
        EMMA.subject,
        SOURCE,
    )


async def test_a_connection_is_its_own_persons_and_servers(world):
    broker = world.broker(world.settings(), world.settings("web"))
    await world.connected(broker)
    for person, server in ((FINN, "mail"), (EMMA, "web")):
        with pytest.raises(CredentialRequired) as required:
            await broker.headers(server, person.id, "key")
        assert required.value.url == f"{PUBLIC_URL}/connect/{server}"


async def test_resource_is_left_out_where_the_authorization_server_refuses_it(world):
    broker = world.broker(world.settings(sends_resource=False))
    begun = await world.begun(broker)
    await world.finished(broker, state=begun["state"])
    assert "resource" not in begun
    assert "resource" not in world.provider.forms[0]


async def test_an_answer_counts_once(world):
    broker = world.broker()
    begun = await world.begun(broker)
    await world.finished(broker, state=begun["state"])
    with pytest.raises(Forbidden):
        await world.finished(broker, state=begun["state"])
    assert len(world.provider.forms) == 1


async def test_of_two_answers_at_the_same_moment_one_counts(world, monkeypatch):
    broker = world.broker()
    begun = await world.begun(broker)
    monkeypatch.setattr(world.stores.browsers, "finish", lambda *_, **__: False)
    with pytest.raises(Forbidden):
        await world.finished(broker, state=begun["state"])
    assert world.provider.forms == []


@pytest.mark.parametrize("changes", [{"browser": "x" * 64}, {"person": FINN}])
async def test_another_browser_or_person_cannot_finish_it_and_does_not_end_it(world, changes):
    broker = world.broker()
    begun = await world.begun(broker)
    with pytest.raises(Forbidden):
        await world.finished(broker, state=begun["state"], **changes)
    assert world.provider.forms == []
    assert world.told() == [("deny", "forbidden")]
    await world.finished(broker, state=begun["state"])
    assert await world.token(broker) == "at-1"


@pytest.mark.parametrize(
    "wrong", ["https://evil.example", "", None, "{}/", "HTTP{}", "%20{}"], ids=str
)
async def test_an_answer_of_another_issuer_is_refused_before_its_code_is_read(world, wrong):
    broker = world.broker()
    begun = await world.begun(broker)
    iss = None if wrong is None else wrong.format(world.provider.url)
    with pytest.raises(Forbidden, match="asked"):
        await world.finished(broker, state=begun["state"], iss=iss)
    with pytest.raises(Forbidden):
        await world.finished(broker, state=begun["state"])  # it is used up, too
    assert world.provider.forms == []


async def test_an_error_of_another_issuer_is_not_believed_either(world):
    broker = world.broker()
    begun = await world.begun(broker)
    with pytest.raises(Forbidden, match="asked"):
        await world.finished(broker, state=begun["state"], iss=None, error="access_denied")


async def test_an_issuer_that_does_not_name_itself_need_not_but_may_not_lie(world):
    world.provider.metadata = {"authorization_response_iss_parameter_supported": None}
    broker = world.broker()
    begun = await world.begun(broker)
    own = f"{CALLBACK_PATH}/mail"
    with pytest.raises(Forbidden):
        await world.finished(broker, state=begun["state"], path=own, iss="https://evil.example")
    begun = await world.begun(broker)
    await world.finished(broker, state=begun["state"], path=own, iss=None)
    assert await world.token(broker) == "at-1"


@pytest.fixture
async def luring(tmp_path):
    (tmp_path / "luring").mkdir()
    async with a_world(tmp_path / "luring") as made:
        yield made.provider


@pytest.mark.parametrize("says_that_it_names_itself", [None, True])
async def test_what_one_server_lures_a_browser_to_another_for_is_not_given_to_it(
    world, luring, says_that_it_names_itself
):
    silent = {"authorization_response_iss_parameter_supported": None}
    world.provider.metadata = silent
    luring.metadata = {**silent, **dict.fromkeys(silent, says_that_it_names_itself)}
    evil = replace(world.settings("evil"), url=luring.resource)
    broker = world.broker(world.settings(), evil)
    known = await world.begun(broker, person=FINN)
    location = await broker.connecting.begin(
        await broker.connecting.prospect("evil", EMMA.id, scopes=()),
        EMMA.id,
        scopes=(),
        browser_hash=BROWSER,
        source_ip=SOURCE,
    )
    (state,) = parse_qs(urlsplit(location).query)["state"]
    # It sends her on as our client at the other one, which answers where that client is registered.
    assert world.provider.registered[0]["redirect_uris"] == [known["redirect_uri"]]
    path = urlsplit(known["redirect_uri"]).path
    with pytest.raises(Forbidden, match="asked"):
        await world.finished(broker, state=state, path=path, code="of-mail", iss=None)
    assert luring.forms == []


async def test_a_document_that_everybody_knows_is_shown_only_where_answers_say_whose_they_are(
    world,
):
    world.provider.metadata = {"client_id_metadata_document_supported": True}
    assert (await world.begun(world.broker()))["client_id"].endswith("/client-metadata.json")
    world.provider.metadata["authorization_response_iss_parameter_supported"] = None
    begun = await world.begun(world.broker())
    assert (begun["client_id"], begun["redirect_uri"]) == (
        "client-1",
        f"{PUBLIC_URL}/connect/callback/mail",
    )


async def test_what_was_registered_for_another_address_is_registered_anew(world):
    await world.connected(world.broker())
    world.provider.metadata = {"authorization_response_iss_parameter_supported": None}
    begun = await world.begun(world.broker(), person=FINN)
    assert begun["client_id"] == "client-2"
    assert world.provider.registered[1]["redirect_uris"] == [begun["redirect_uri"]]


async def test_a_no_at_the_authorization_server_is_a_no(world):
    broker = world.broker()
    begun = await world.begun(broker)
    with pytest.raises(Forbidden, match="not allowed there"):
        await world.finished(broker, state=begun["state"], error="access_denied")
    begun = await world.begun(broker)
    with pytest.raises(UpstreamFailed):
        await world.finished(broker, state=begun["state"], error="server_error")
    begun = await world.begun(broker)
    with pytest.raises(UpstreamFailed):
        await world.finished(broker, state=begun["state"], code=None)
    assert world.provider.forms == []


@pytest.mark.parametrize(
    "query",
    [
        b"",
        b"code=c",
        b"state=&code=c",
        b"code=c&state=%s&state=%s",
        b"code=c&code=d&state=%s&iss=%i",
        b"code=c&state=%s&iss=%i&iss=%i",
        b"\xff=%s",
        b"code=c&state=%s&iss=%i&pad=" + b"x" * 9000,
    ],
)
async def test_a_malformed_answer_is_refused(world, query):
    broker = world.broker()
    begun = await world.begun(broker)
    with pytest.raises(Forbidden):
        await broker.connecting.finish(
            query.replace(b"%s", begun["state"].encode()).replace(
                b"%i", world.provider.url.encode()
            ),
            EMMA.id,
            path=CALLBACK_PATH,
            browser_hash=BROWSER,
            source_ip=SOURCE,
        )
    assert world.provider.forms == []


async def test_an_answer_that_comes_too_late_is_refused(world):
    broker = world.broker()
    begun = await world.begun(broker)
    world.clock.now += 601
    with pytest.raises(Forbidden):
        await world.finished(broker, state=begun["state"])


async def test_a_transaction_of_another_purpose_is_no_connection(world):
    broker = world.broker()
    state = "s" * 43
    world.stores.browsers.begin(
        Transaction(
            id=hashlib.sha256(state.encode()).hexdigest(),
            browser_hash=BROWSER,
            purpose="account",
            detail="mail",
            created_at=NOW,
            expires_at=NOW + 600,
            user_id=EMMA.id,
        )
    )
    with pytest.raises(Forbidden):
        await world.finished(broker, state=state)


async def test_what_was_begun_for_a_server_that_is_gone_is_not_finished(world):
    begun = await world.begun(world.broker())
    with pytest.raises(Forbidden):
        await world.finished(world.broker(world.settings("web")), state=begun["state"])
    assert world.provider.forms == []


async def test_what_was_sealed_for_one_transaction_does_not_open_for_another(world):
    broker = world.broker()
    begun = await world.begun(broker)
    store, name = world.stores.browsers, hashlib.sha256(begun["state"].encode()).hexdigest()
    known = store.transaction(name, now=NOW)
    state = "s" * 43
    store.begin(replace(known, id=hashlib.sha256(state.encode()).hexdigest()))
    with pytest.raises(Unsealable):
        await world.finished(broker, state=state)
    assert world.provider.forms == []


@pytest.mark.parametrize("wider", ["scopes", "origin"])
async def test_nobody_is_sent_for_something_that_they_did_not_see(world, wider):
    world.provider.protected = read = {"scopes_supported": ["read"]}
    broker = world.broker()
    shown = await broker.connecting.prospect("mail", EMMA.id, scopes=())
    world.provider.protected = {
        "scopes": {"scopes_supported": ["read", "write"]},
        "origin": {**read, "resource": world.provider.url},
    }[wider]
    with pytest.raises(Forbidden, match="something else"):
        await broker.connecting.begin(
            shown, EMMA.id, scopes=(), browser_hash=BROWSER, source_ip=SOURCE
        )
    assert world.provider.registered == []


async def test_nobody_is_sent_to_an_issuer_that_they_did_not_see(world):
    broker = world.broker()
    shown = await broker.connecting.prospect("mail", EMMA.id, scopes=())
    with pytest.raises(Forbidden, match="another authorization server"):
        await broker.connecting.begin(
            replace(shown, issuer="https://as.example"),
            EMMA.id,
            scopes=(),
            browser_hash=BROWSER,
            source_ip=SOURCE,
        )
    assert world.provider.registered == []
    told = world.audit.records[-1].fields
    assert (told["code"], told["principal"], told["source_ip"]) == (
        "forbidden",
        EMMA.subject,
        SOURCE,
    )


async def test_nobody_connects_to_a_server_that_is_not_there(world):
    with pytest.raises(NotFound):
        await world.broker().connecting.prospect("news", EMMA.id, scopes=())


async def test_what_cannot_be_recorded_is_not_kept(world):
    broker = world.broker()
    begun = await world.begun(broker)
    world.audit.failure = "disk full"
    with pytest.raises(AuditUnavailable):
        await world.finished(broker, state=begun["state"])
    assert world.stores.connections.connections() == []


async def test_no_secret_is_recorded_or_stored_in_the_clear(world, tmp_path):
    broker = world.broker()
    begun = await world.begun(broker)
    await world.finished(broker, state=begun["state"])
    secrets = ["at-1", "rt-1", "secret-1", begun["state"], world.provider.forms[0]["code_verifier"]]
    with sqlite3.connect(tmp_path / "identity.db") as database:
        stored = "\n".join(database.iterdump())
    database.close()
    assert [secret for secret in (*secrets, "c0de") if secret in world.recorded()] == []
    assert [secret for secret in secrets if secret in stored] == []


async def test_a_token_endpoint_that_refuses_the_code_connects_nothing(world):
    broker = world.broker()
    begun = await world.begun(broker)
    world.provider.gives = lambda _: refused("invalid_grant")
    with pytest.raises(UpstreamFailed):
        await world.finished(broker, state=begun["state"])
    assert world.stores.connections.connections() == []
    assert world.told() == [("deny", "upstream_failed")]


async def test_what_a_token_endpoint_writes_is_not_recorded(world):
    broker = world.broker()
    begun = await world.begun(broker)
    world.provider.gives = lambda _: refused("<script>at-1")
    with pytest.raises(UpstreamFailed):
        await world.finished(broker, state=begun["state"])
    assert "script" not in world.recorded()


@pytest.mark.parametrize(
    ("said", "lifetime_s"),
    [
        (3600, 3600),
        ("3600", 3600),
        (-5, 0),
        (10**400, 316_224_000),
        (1e300, 316_224_000),
        ("soon", None),
        (True, None),
        ([], None),
    ],
    ids=lambda said: str(said)[:9],
)
async def test_a_lifetime_is_what_one_can_be(world, said, lifetime_s):
    world.provider.gives = lambda _: tokens(1, expires_in=said)
    await world.connected(world.broker())
    (kept,) = world.stores.connections.connections()
    assert kept.expires_at == (None if lifetime_s is None else NOW + lifetime_s)


@pytest.mark.parametrize(
    "given",
    [
        {"access_token": None},
        {"access_token": "a\r\nx-evil: 1"},
        {"access_token": "a b"},
        {"access_token": 7},
        {"token_type": "DPoP"},
        {"token_type": None},
    ],
)
async def test_a_token_that_is_no_bearer_token_is_not_kept(world, given):
    broker = world.broker()
    begun = await world.begun(broker)
    world.provider.gives = lambda _: tokens(1, **given)
    with pytest.raises(UpstreamFailed):
        await world.finished(broker, state=begun["state"])
    assert world.stores.connections.connections() == []


async def test_an_authorization_endpoint_keeps_its_own_query_but_cannot_choose_for_us(world):
    provider = world.provider
    provider.metadata = {"authorization_endpoint": f"{provider.url}/authorize?tenant=1"}
    assert (await world.begun(world.broker()))["tenant"] == "1"
    provider.metadata = {"authorization_endpoint": f"{provider.url}/authorize?state=known"}
    with pytest.raises(UpstreamFailed):
        await world.begun(world.broker())


class TestScopes:
    async def test_the_challenge_counts_before_the_metadata(self, world):
        provider = world.provider
        place = f"{provider.url}/.well-known/oauth-protected-resource/mcp"
        provider.challenge = f'Bearer scope="read mail", resource_metadata="{place}"'
        provider.protected = {"scopes_supported": ["everything"]}
        assert (await world.begun(world.broker()))["scope"] == "read mail"

    async def test_what_the_operator_wrote_is_all_that_is_asked_for(self, world):
        world.provider.protected = {"scopes_supported": ["everything"]}
        world.provider.metadata = {"scopes_supported": ["offline_access"]}
        broker = world.broker(world.settings(scopes=("read",)))
        assert (await world.begun(broker, scope="write"))["scope"] == "read"

    async def test_nothing_named_is_nothing_asked_for(self, world):
        world.provider.metadata = {"scopes_supported": ["offline_access"]}
        assert "scope" not in await world.begun(world.broker())

    async def test_a_refresh_token_is_asked_for_where_that_takes_a_scope(self, world):
        world.provider.protected = {"scopes_supported": ["read"]}
        world.provider.metadata = {"scopes_supported": ["read", "offline_access"]}
        asked = await world.begun(world.broker())
        assert (asked["scope"], asked["prompt"]) == ("read offline_access", "consent")

    async def test_a_wider_connection_keeps_what_the_narrower_one_had(self, world):
        world.provider.protected = {"scopes_supported": ["read"]}
        broker = world.broker()
        await world.connected(broker)
        assert (await world.begun(broker, scope="write"))["scope"] == "read write"

    async def test_what_another_issuer_gave_is_not_asked_for_here(self, world):
        world.provider.protected = {"scopes_supported": ["read"]}
        broker = world.broker()
        await world.connected(broker)
        kept = world.stores.connections.connection(EMMA.id, "mail")
        world.stores.connections.connect(replace(kept, issuer="https://former.example"))
        assert (await world.begun(broker, scope="write"))["scope"] == "write"


async def test_reconnecting_takes_the_earlier_connections_place(world):
    broker = world.broker()
    await world.connected(broker)
    assert await world.token(broker) == "at-1"
    await world.connected(broker)
    world.clock.now += 1
    assert await world.token(broker) == "at-2"
    (kept,) = world.stores.connections.connections()
    assert kept.version == 2
