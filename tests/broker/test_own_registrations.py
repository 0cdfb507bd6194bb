"""What the gateway is to an authorization server is shown to that one, and for one upstream."""

import base64
from dataclasses import replace

import pytest

from gateway.broker import PersonalConnection, client_metadata
from gateway.errors import UpstreamFailed
from tests.broker.world import BROWSER, FINN, PUBLIC_URL, refused


def basic(client, secret):
    return f"Basic {base64.b64encode(f'{client}:{secret}'.encode()).decode()}"


async def test_the_gateway_registers_as_what_it_is(world):
    await world.begun(world.broker())
    assert world.provider.registered == [
        {
            "client_name": "Douane",
            "client_uri": PUBLIC_URL,
            "redirect_uris": [f"{PUBLIC_URL}/connect/callback"],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "client_secret_basic",
            "application_type": "web",
        }
    ]


async def test_on_loopback_it_is_a_native_client(world):
    await world.begun(world.broker(public_url="http://127.0.0.1:8080"))
    assert world.provider.registered[0]["application_type"] == "native"
    assert "client_uri" not in world.provider.registered[0]


async def test_two_upstreams_of_one_issuer_have_a_registration_each(world):
    broker = world.broker(world.settings(), world.settings("web"))
    mail, web = await world.begun(broker), await world.begun(broker, "web")
    assert (mail["client_id"], web["client_id"]) == ("client-1", "client-2")
    again = await world.begun(broker, person=FINN)
    assert (again["client_id"], len(world.provider.registered)) == ("client-1", 2)


async def test_a_registration_is_proven_as_it_was_made(world):
    await world.connected(world.broker())
    assert world.provider.proofs == [basic("client-1", "secret-1")]


async def test_a_registration_of_another_upstream_does_not_open(world):
    broker = world.broker(world.settings(), world.settings("web"))
    await world.begun(broker)
    store, issuer = world.stores.connections, world.provider.url
    store.register("web", issuer, store.registration("mail", issuer))
    assert (await world.begun(broker, "web"))["client_id"] == "client-2"


async def test_a_registration_at_another_issuer_does_not_open(world):
    broker = world.broker()
    await world.connected(broker)
    store = world.stores.connections
    await world.begun(broker)
    sealed = store.registration("mail", world.provider.url)
    elsewhere = f"{world.provider.url}/t"
    store.register("mail", elsewhere, sealed)
    world.provider.protected = {"authorization_servers": [elsewhere]}
    world.provider.tenant = "/t"
    location = await broker.connecting.begin(
        await broker.connecting.prospect("mail", FINN.id, scopes=()),
        FINN.id,
        scopes=(),
        browser_hash=BROWSER,
        source_ip="127.0.0.1",
    )
    assert "client_id=client-2" in location


async def test_a_registration_that_nobody_used_is_not_relied_on_for_long(world):
    broker = world.broker()
    await world.begun(broker)
    world.clock.now += 3601
    assert (await world.begun(broker))["client_id"] == "client-2"


async def test_a_registration_that_is_used_stays(world):
    broker = world.broker()
    await world.connected(broker)
    world.clock.now += 1e6
    assert (await world.begun(broker, person=FINN))["client_id"] == "client-1"


async def test_a_secret_that_ends_is_replaced(world):
    until = int(world.clock.now) + 100
    world.provider.registers = lambda given: {**given, "client_secret_expires_at": until}
    broker = world.broker()
    await world.connected(broker)
    world.clock.now += 101
    assert (await world.begun(broker))["client_id"] == "client-2"


async def test_a_registration_that_the_server_forgot_is_made_anew(world):
    broker = world.broker()
    begun = await world.begun(broker)
    world.provider.gives = lambda _: refused("invalid_client", 401)
    with pytest.raises(UpstreamFailed):
        await world.finished(broker, state=begun["state"])
    assert (await world.begun(broker))["client_id"] == "client-2"


async def test_a_registered_client_is_used_and_only_at_its_issuer(world):
    known = world.settings(issuer=world.provider.url, client_id="ours", client_secret="s3cret")
    broker = world.broker(known)
    await world.connected(broker)
    assert world.provider.registered == []
    assert world.provider.proofs == [basic("ours", "s3cret")]
    with pytest.raises(ValueError, match="needs the issuer"):
        replace(known, issuer="")


async def test_a_secret_that_the_operator_renewed_is_the_one_that_is_shown(world):
    old = world.settings(issuer=world.provider.url, client_id="ours", client_secret="old")
    await world.connected(world.broker(old))
    world.clock.now += 3600
    await world.token(world.broker(replace(old, client_secret="new")))
    assert world.provider.proofs == [basic("ours", "old"), basic("ours", "new")]


@pytest.mark.parametrize(
    ("offered", "proof", "form"),
    [
        (["client_secret_post"], "", {"client_id": "client-1", "client_secret": "secret-1"}),
        (["none"], "", {"client_id": "client-1"}),
        (["private_key_jwt", "client_secret_basic"], basic("client-1", "secret-1"), {}),
        (None, basic("client-1", "secret-1"), {}),
    ],
)
async def test_the_gateway_proves_itself_in_a_way_that_is_offered(world, offered, proof, form):
    world.provider.metadata = {"token_endpoint_auth_methods_supported": offered}
    await world.connected(world.broker())
    (shown,) = world.provider.forms
    sent = {name: text for name, text in shown.items() if name.startswith("client")}
    assert (world.provider.proofs, sent) == ([proof], form)


async def test_a_server_that_wants_a_proof_that_we_cannot_give_is_not_registered_at(world):
    world.provider.metadata = {"token_endpoint_auth_methods_supported": ["private_key_jwt"]}
    with pytest.raises(UpstreamFailed):
        await world.begun(world.broker())
    assert world.provider.registered == []


async def test_a_secret_that_ends_beyond_all_time_does_not_end(world):
    world.provider.registers = lambda given: {**given, "client_secret_expires_at": 10**400}
    await world.connected(world.broker())
    assert len(world.provider.registered) == 1


@pytest.mark.parametrize(
    "given",
    [
        {"client_id": ""},
        {"client_id": 7},
        {"client_secret": ""},
        {"token_endpoint_auth_method": "private_key_jwt"},
        {"token_endpoint_auth_method": 7},
    ],
)
async def test_a_registration_that_cannot_be_used_is_a_fault(world, given):
    world.provider.registers = lambda said: {**said, **given}
    with pytest.raises(UpstreamFailed):
        await world.begun(world.broker())


async def test_a_server_that_registers_nobody_needs_an_operator(world):
    world.provider.metadata = {"registration_endpoint": None}
    with pytest.raises(UpstreamFailed, match="client_id"):
        await world.begun(world.broker())


async def test_a_server_that_fetches_documents_gets_the_url_of_ours(world):
    world.provider.metadata = {"client_id_metadata_document_supported": True}
    broker = world.broker()
    begun = await world.begun(broker)
    assert begun["client_id"] == f"{PUBLIC_URL}/oauth/client-metadata.json"
    await world.finished(broker, state=begun["state"])
    assert world.provider.registered == []
    assert world.provider.forms[0]["client_id"] == begun["client_id"]


async def test_on_loopback_there_is_no_document_that_anybody_could_fetch(world):
    world.provider.metadata = {"client_id_metadata_document_supported": True}
    begun = await world.begun(world.broker(public_url="http://127.0.0.1:8080"))
    assert begun["client_id"] == "client-1"


def test_the_document_names_its_own_url():
    assert client_metadata(PUBLIC_URL) == {
        "client_id": f"{PUBLIC_URL}/oauth/client-metadata.json",
        "client_name": "Douane",
        "client_uri": PUBLIC_URL,
        "redirect_uris": [f"{PUBLIC_URL}/connect/callback"],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "web",
    }


def test_no_server_is_named_like_a_page():
    with pytest.raises(ValueError, match="callback"):
        PersonalConnection(server="callback", url="https://u.example/mcp")
