"""Clients that are the URL of a document: what is fetched, believed, and for how long."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from joserfc.jwk import ECKey

from gateway.domain.identity import AuthMethod, Client, ClientKind
from gateway.errors import EgressRefused, UpstreamFailed
from gateway.oauth.authorization import RedirectedError
from gateway.oauth.documents import LARGEST_DOCUMENT_BYTES, Copy, DocumentRules, is_document_url
from gateway.oauth.errors import OAuthError
from gateway.storage.identity.store import IdentityStores
from tests.oauth.house import ALICE, CURSOR, SOURCE, House, Page, answer_in, query
from tests.oauth.world import NOW

URL = "https://app.example/oauth/client.json"
CALLBACK = "https://app.example/cb"
DOCUMENT = {
    "client_id": URL,
    "client_name": "App",
    "redirect_uris": [CALLBACK, "http://localhost/cb"],
    "token_endpoint_auth_method": "none",
}
APP = Client(
    id=URL,
    name="App",
    kind=ClientKind.DOCUMENT,
    auth_methods=frozenset({AuthMethod.NONE}),
    redirect_uris=(CALLBACK, "http://localhost/cb"),
    grants=("authorization_code", "refresh_token"),
    created_at=NOW,
    created_by=URL,
    fresh_until=NOW + 3600,
)


def page(*, cache_control: str = "", **changes: Any) -> Page:
    """Return an answer with the document, changed as told; `None` takes a member out."""
    document = {name: said for name, said in {**DOCUMENT, **changes}.items() if said is not None}
    headers = {"content-type": "application/json"}
    if cache_control:
        headers["cache-control"] = cache_control
    return Page(orjson.dumps(document), headers=headers)


async def resolve(house: House, url: str = URL, source: str = SOURCE) -> Client | None:
    return await house.directory.resolve(url, source)


async def test_a_client_is_what_its_document_says(house):
    house.web.pages[URL] = page()
    assert await resolve(house) == APP
    assert house.stores.clients.find(URL) == APP
    assert house.told == [("auth", "allow", None, URL)]


async def test_a_document_without_a_method_is_a_public_client(house):
    house.web.pages[URL] = page(token_endpoint_auth_method=None)
    assert await resolve(house) == APP


async def test_a_document_may_want_bound_tokens_and_no_others(house):
    house.web.pages[URL] = page(dpop_bound_access_tokens=True)
    client = await resolve(house)
    assert client == replace(APP, holds_key=True)
    assert house.stores.clients.find(URL) == client


async def test_a_document_may_hold_public_keys(house):
    key = ECKey.import_key(ec.generate_private_key(ec.SECP256R1())).as_dict(private=False)
    house.web.pages[URL] = page(token_endpoint_auth_method="private_key_jwt", jwks={"keys": [key]})
    client = await resolve(house)
    assert client is not None
    assert client.auth_methods == {AuthMethod.PRIVATE_KEY_JWT}
    assert orjson.loads(client.jwks) == {"keys": [key]}


@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", "Application/JSON", "application/oauth+json"]
)
async def test_a_document_may_be_any_json(house, kind):
    house.web.pages[URL] = replace(page(), headers={"content-type": kind})
    assert await resolve(house) is not None


@pytest.mark.parametrize(
    "answer",
    [
        replace(page(), status=301, headers={"location": "https://other.example/"}),
        replace(page(), status=201),
        replace(page(), status=404),
        replace(page(), status=500),
        replace(page(), headers={"content-type": "text/html"}),
        replace(page(), headers={"content-type": "application/jsonx"}),
        replace(page(), headers={}),
        Page(page().body.ljust(LARGEST_DOCUMENT_BYTES + 1)),
        Page(b""),
        Page(b"[]"),
        Page(b"{"),
        Page(b"\xff"),
        Page(b'{"client_id": "x", ' + page().body[1:]),
        page(client_id=URL + "/"),
        page(client_id="https://app.example/oauth/other.json"),
        page(client_id=None),
        page(client_id=[URL]),
        page(client_name=None),
        page(client_name=""),
        page(client_name="evil\u202e"),
        page(redirect_uris=None),
        page(redirect_uris=[]),
        page(redirect_uris=["javascript:alert(1)", CALLBACK]),
        page(redirect_uris=["http://evil.test/cb"]),
        page(redirect_uris=["unknown:/cb"]),
        page(grant_types=["urn:ietf:params:oauth:grant-type:device_code"]),
        page(token_endpoint_auth_method="client_secret_basic"),
        page(token_endpoint_auth_method="client_secret_post"),
        page(token_endpoint_auth_method="client_secret_jwt"),
        page(client_secret="x"),
        page(client_secret=""),
        page(client_secret_expires_at=0),
        page(token_endpoint_auth_method="private_key_jwt"),
        page(token_endpoint_auth_method="private_key_jwt", jwks_uri="https://app.example/jwks"),
        page(jwks_uri="https://app.example/jwks"),
        EgressRefused("no", detail="a private address"),
        UpstreamFailed("no answer"),
    ],
    ids=range(37),
)
async def test_what_cannot_be_believed_is_no_client_and_is_asked_for_again(house, answer):
    house.web.pages[URL] = answer
    assert await resolve(house) is None
    assert house.stores.clients.all() == []
    assert house.told == [("auth", "deny", None, URL)]
    house.web.pages[URL] = page()
    assert await resolve(house) == APP
    assert house.web.asked == [URL, URL]


async def test_a_document_may_be_so_large(house):
    house.web.pages[URL] = Page(page().body.ljust(LARGEST_DOCUMENT_BYTES))
    assert await resolve(house) == APP


async def test_unknown_private_schemes_in_a_document_are_left_out(house):
    house.web.pages[URL] = page(redirect_uris=["unknown:/cb", CURSOR, CALLBACK])
    client = await resolve(house)
    assert client is not None
    assert client.redirect_uris == (CURSOR, CALLBACK)


@pytest.mark.parametrize(
    "url",
    [
        "https://app.example",
        "https://app.example/",
        "https://app.example/?x=1",
        "http://app.example/client.json",
        "HTTPS://app.example/client.json",
        "https://app.example/client.json#x",
        "https://user@app.example/client.json",
        "https://app.example@evil.test/client.json",
        "https://app.example/./client.json",
        "https://app.example/a/../client.json",
        "https://app.example/%2e%2e/client.json",
        "https://app.example\\client.json",
        "https://app.example/client.json\r\n",
        "https://app.example/cl\u00efent.json",
        "https:///client.json",
        "https://app.example:0/client.json",
        "file:///client.json",
        "https://app.example/" + "a" * 512,
    ],
    ids=repr,
)
async def test_a_url_that_is_no_clients_id_is_never_fetched(house, url):
    assert not is_document_url(url)
    assert await resolve(house, url) is None
    assert house.web.asked == []


async def test_a_fresh_document_is_not_fetched_again(house):
    house.web.pages[URL] = page()
    await resolve(house)
    house.clock.now += 3599
    assert await resolve(house) == APP
    assert house.web.asked == [URL]


@pytest.mark.parametrize(
    ("cache_control", "lifetime_s"),
    [
        ("", 3600),
        ("no-cache", 3600),
        ("max-age=600", 600),
        ("public, Max-Age=600, immutable", 600),
        ("max-age=0", 300),
        ("max-age=1", 300),
        ("max-age=9999999999", 86400),
        ("max-age=-1", 3600),
        ("s-maxage=600", 3600),
        ("max-age=x", 3600),
    ],
)
async def test_how_long_a_document_is_believed_has_bounds(house, cache_control, lifetime_s):
    house.web.pages[URL] = page(cache_control=cache_control)
    client = await resolve(house)
    assert client is not None
    assert client.fresh_until == NOW + lifetime_s


async def test_a_stale_document_that_says_the_same_keeps_its_date(house):
    house.web.pages[URL] = page()
    await resolve(house)
    house.clock.now += 3600
    expected = replace(APP, fresh_until=NOW + 7200)
    assert await resolve(house) == expected
    assert house.stores.clients.find(URL) == expected
    assert house.web.asked == [URL, URL]
    assert len(house.log.records) == 1


async def test_a_host_is_looked_up_on_the_word_of_whoever_names_it_until_its_client_is_known(house):
    """What strangers at the same address name may take long: a known client does not wait for that."""
    house.web.pages[URL] = page()
    await resolve(house)
    house.clock.now += 3601
    await resolve(house)
    assert house.web.named_by == [SOURCE, ""]


@pytest.mark.parametrize(
    "change",
    [
        {"client_name": "Other"},
        {"redirect_uris": ["https://evil.test/cb"]},
        {"client_uri": "https://other.example/"},
        {"grant_types": ["authorization_code"]},
    ],
)
async def test_a_document_that_says_something_else_is_another_client_from_now_on(house, change):
    house.web.pages[URL] = page()
    await resolve(house)
    house.web.pages[URL] = page(**change)
    house.clock.now += 3600
    client = await resolve(house)
    assert client is not None
    assert client.created_at == NOW + 3600
    assert client == house.stores.clients.find(URL)
    assert [told[1] for told in house.told] == ["allow", "allow"]


async def test_a_stale_document_that_cannot_be_read_anew_is_not_believed(house):
    house.web.pages[URL] = page()
    await resolve(house)
    house.clock.now += 3600
    house.web.pages[URL] = UpstreamFailed("no answer")
    assert await resolve(house) is None
    house.web.pages[URL] = page()
    assert await resolve(house) is not None


async def test_a_client_that_is_removed_while_its_document_is_read_anew_is_not_back(house):
    house.web.pages[URL] = page()
    await resolve(house)
    house.clock.now += 3600
    house.web.gate.clear()
    reading = asyncio.create_task(resolve(house))
    await asyncio.sleep(0)
    house.stores.clients.remove(URL)
    house.web.gate.set()
    assert await reading is None
    assert house.stores.clients.find(URL) is None
    assert await resolve(house) is not None
    assert [told[1] for told in house.told] == ["allow", "allow"]


async def test_whoever_wants_the_same_document_waits_for_one_fetch(house):
    house.web.pages[URL] = page()
    house.web.gate.clear()
    waiting = [asyncio.create_task(resolve(house)) for _ in range(5)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    house.web.gate.set()
    assert await asyncio.gather(*waiting[1:]) == [APP] * 4
    assert house.web.asked == [URL]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[House]:
    rules = DocumentRules(fetches_per_source=2, fetches=3, most_clients=2)
    house = House(tmp_path, documents=rules)
    for number in range(5):
        url = f"https://app.example/{number}"
        house.web.pages[url] = page(client_id=url)
    yield house
    house.stores.close()


async def test_on_one_addresss_word_so_much_is_fetched_and_no_more(small):
    for number in range(3):
        await resolve(small, f"https://app.example/{number}")
    assert len(small.web.asked) == 2
    await resolve(small, "https://app.example/3", "192.0.2.8")
    assert len(small.web.asked) == 3


async def test_altogether_so_much_is_fetched_and_no_more(small):
    for number in range(5):
        await resolve(small, f"https://app.example/{number}", f"192.0.2.{number}")
    assert len(small.web.asked) == 3
    small.clock.now += 60
    await resolve(small, "https://app.example/4", "192.0.2.4")
    assert len(small.web.asked) == 4


async def test_what_strangers_have_fetched_makes_no_known_client_unknown(small):
    known = "https://app.example/0"
    await resolve(small, known)
    small.clock.now += 3600
    for number in range(1, 5):
        await resolve(small, f"https://app.example/{number}", f"192.0.2.{number}")
    assert await resolve(small, known, "192.0.2.1") == replace(
        small.stores.clients.find(known), fresh_until=small.clock.now + 3600
    )
    assert small.web.asked[-1:] == [known]


async def test_a_known_document_that_cannot_be_read_is_asked_for_so_often_and_no_more(small):
    known = "https://app.example/0"
    await resolve(small, known)
    small.web.pages[known] = UpstreamFailed("no answer")
    del small.web.asked[:]
    small.clock.now += 3600
    for number in range(3):
        assert await resolve(small, known, f"192.0.2.{number}") is None
    assert len(small.web.asked) == 2


async def test_so_many_documents_are_stored_and_no_more(small):
    for number in range(3):
        client = await resolve(small, f"https://app.example/{number}", f"192.0.2.{number}")
        assert (client is None) is (number == 2)
    assert len(small.stores.clients.all()) == 2


async def test_what_is_stored_is_read_anew_also_where_there_is_no_room(small):
    for number in range(2):
        await resolve(small, f"https://app.example/{number}")
    small.clock.now += 3600
    assert await resolve(small, "https://app.example/0") is not None


async def test_where_documents_are_not_wanted_none_is_fetched_or_believed(tmp_path):
    house = House(tmp_path, documents=DocumentRules(enabled=False))
    house.stores.clients.add(APP)
    house.add()
    assert await resolve(house) is None
    assert await resolve(house, "dcr_app") is not None
    assert house.web.asked == []
    house.stores.close()


async def test_other_clients_are_found_without_a_fetch(house):
    client = house.add()
    assert await resolve(house, "dcr_app") == client
    builtin = await resolve(house, "douane-cli")
    assert builtin is not None
    assert builtin.name == "Douane command line"
    assert await resolve(house, "nobody") is None
    assert house.web.asked == []


async def test_without_a_record_a_document_is_no_client(house):
    house.web.pages[URL] = page()
    house.log.failure = "no disk"
    assert await resolve(house) is None
    assert house.stores.clients.all() == []


async def test_while_nothing_can_be_stored_a_document_is_no_client(house):
    house.web.pages[URL] = page()
    house.stores.close()
    assert await resolve(house) is None


async def test_two_processes_may_read_a_document_at_once(tmp_path):
    house = House(tmp_path)
    other = IdentityStores.open(tmp_path, clock=house.clock)
    other.clients.add(APP)
    house.web.pages[URL] = page()
    assert await resolve(house) == APP
    assert house.stores.clients.find(URL) == APP
    other.close()
    house.stores.close()


async def test_a_client_of_this_kind_signs_a_person_in(house):
    house.web.pages[URL] = page()
    begun = await house.authorization.begin(query(client_id=URL), SOURCE)
    assert begun.client == APP
    location = await house.authorization.approve(begun.request, ALICE, SOURCE)
    assert location.startswith(CALLBACK + "?code=")
    assert answer_in(location)["state"] == "x y/z&1"


async def test_an_approval_goes_nowhere_that_the_document_does_not_name_now(house):
    house.web.pages[URL] = page()
    begun = await house.authorization.begin(query(client_id=URL), SOURCE)
    house.web.pages[URL] = page(redirect_uris=["https://app.example/new"])
    house.clock.now += 3600
    with pytest.raises(OAuthError) as refusal:
        await house.authorization.approve(begun.request, ALICE, SOURCE)
    assert not isinstance(refusal.value, RedirectedError)


# Copies that an administrator keeps.


def with_copy(tmp_path: Path, **rules: Any) -> House:
    return House(tmp_path, documents=DocumentRules(copies={URL: Copy(body=page().body)}, **rules))


async def test_a_copy_is_read_and_its_document_is_not_fetched(tmp_path: Path) -> None:
    house = with_copy(tmp_path, fetches_per_source=0, fetches=0)
    house.web.pages[URL] = Page(b"<html>", headers={"content-type": "text/html"}, status=403)
    for _ in range(3):
        assert await resolve(house) == replace(APP, fresh_until=house.clock.now + 3600)
        house.clock.now += 3600
    assert house.web.asked == []
    assert house.told == [("auth", "allow", None, URL)]


async def test_where_documents_are_off_those_that_are_copied_are_known(tmp_path: Path) -> None:
    house = with_copy(tmp_path, enabled=False)
    assert await resolve(house) is not None
    assert await resolve(house, URL + "x") is None
    assert house.web.asked == []
