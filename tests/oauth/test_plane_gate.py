"""Whom a plane names is who they are here, or nobody."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.identity import Asserted, BearerToken, Carried, Client, ClientKind
from gateway.domain.planes import Plane
from gateway.domain.tools import UpstreamId
from gateway.errors import Unauthenticated
from gateway.oauth.planes import PlaneGate
from tests.oauth.house import ALICE, House
from tests.oauth.world import NOW, PUBLIC_URL, client

ENDPOINT = "/access/v1/evaluation"
ELSEWHERE = "https://idp.example"
ALL = f"{PUBLIC_URL}/mcp"
EDGE = Plane(
    name="edge",
    key_digest=b"",
    servers={"m": UpstreamId("mail")},
    issuers=(PUBLIC_URL, ELSEWHERE),
    scopes=frozenset({"tools:call"}),
    types={},
)
SAID = Asserted(
    plane="edge",
    issuer=PUBLIC_URL,
    subject="alice",
    client_id="assistant",
    groups=frozenset({"admins"}),
)


def gate(house: House, plane: Plane = EDGE) -> PlaneGate:
    return PlaneGate(
        {"edge": plane},
        users=house.stores.users,
        clients=house.stores.clients,
        own_issuer=PUBLIC_URL,
        is_revoked=house.stores.grants.is_revoked,
        people=lambda: house.stores.people,
    )


async def test_a_person_has_the_groups_that_they_have_here(house: House) -> None:
    house.stores.users.change(ALICE.id, groups=frozenset({"users"}), at=NOW)
    for plane in (EDGE, replace(EDGE, vouches=True)):
        found = await gate(house, plane).authenticate(SAID, ENDPOINT)
        assert (found.subject, found.user_id) == ("alice", ALICE.id)
        assert found.groups == {"users"}
        assert found.scopes == {"tools:call"}
        assert not found.trusted_host


def add_assistant(house: House, **said: Any) -> None:
    house.stores.clients.add(replace(client().client, id="assistant", **said))


async def test_a_token_that_a_plane_shows_allows_what_it_is_for(house: House) -> None:
    add_assistant(house)
    plane = replace(EDGE, scopes=frozenset({"tools:call", "tools:list"}))
    said = replace(SAID, shown=Carried(scopes=frozenset({"tools:list"}), audience=ALL))
    assert (await gate(house, plane).authenticate(said, ENDPOINT)).scopes == {"tools:list"}
    unsaid = replace(SAID, shown=Carried(audience=ALL))
    assert (await gate(house, plane).authenticate(unsaid, ENDPOINT)).scopes == frozenset()
    elsewhere = replace(unsaid, issuer=ELSEWHERE)
    vouching = gate(house, replace(plane, vouches=True))
    assert (await vouching.authenticate(elsewhere, ENDPOINT)).scopes == plane.scopes


@pytest.mark.parametrize("issuer", [PUBLIC_URL, ELSEWHERE])
@pytest.mark.parametrize(
    ("shown", "code", "named"),
    [
        (Carried(is_bound=True), "bound_token", "key"),
        (Carried(is_whole=False), "claims_unseen", "`cnf`"),
        (Carried(is_whole=False, is_bound=True), "bound_token", "key"),
    ],
)
async def test_a_token_that_may_be_bound_is_good_by_no_plane_and_says_what_is_missing(
    house: House, issuer: str, shown: Carried, code: str, named: str
) -> None:
    add_assistant(house)
    said = replace(SAID, issuer=issuer, shown=shown)
    with pytest.raises(Unauthenticated) as refused:
        await gate(house, replace(EDGE, vouches=True)).authenticate(said, ENDPOINT)
    ((found, message),) = refused.value.reasons
    assert found == code
    assert named in message


@pytest.mark.parametrize("why", ["revoked", "for another", "its client was removed"])
async def test_a_token_of_ours_that_is_good_nowhere_is_good_by_no_plane(
    house: House, why: str
) -> None:
    add_assistant(house)
    said = replace(
        SAID,
        shown=Carried(
            grant_id="g", token_id="t", audience=ALL, is_for_another=why == "for another"
        ),
    )
    if why == "revoked":
        assert (await gate(house).authenticate(said, ENDPOINT)).subject == "alice"
        house.stores.grants.revoke_token("t", until=NOW + 60)
    if why == "its client was removed":
        said = replace(said, client_id="nobody")
    with pytest.raises(Unauthenticated):
        await gate(house).authenticate(said, ENDPOINT)


@pytest.mark.parametrize(
    ("audience", "server", "is_good"),
    [
        (f"{ALL}/mail", "mail", True),
        (ALL, "mail", True),
        (f"{ALL}/crm", "mail", False),
        (f"{ALL}/mail", "crm", False),
        (f"{ALL}/mail/", "mail", False),
        (f"{PUBLIC_URL}/api/v1", "mail", False),
        ("https://other.example/mcp/mail", "mail", False),
        ("", "mail", False),
        (ALL, "", True),
        (f"{ALL}/", "", False),
    ],
)
async def test_a_token_of_ours_for_one_server_is_good_at_no_other_by_a_plane(
    house: House, *, audience: str, server: str, is_good: bool
) -> None:
    add_assistant(house, kind=ClientKind.DYNAMIC)
    said = replace(SAID, shown=Carried(audience=audience), server=UpstreamId(server))
    if is_good:
        assert (await gate(house).authenticate(said, ENDPOINT)).subject == "alice"
    else:
        with pytest.raises(Unauthenticated) as refused:
            await gate(house).authenticate(said, ENDPOINT)
        assert refused.value.reasons[0][0] == "other_audience"
    # What the tokens of others are for is between them and the plane.
    elsewhere = replace(said, issuer=ELSEWHERE)
    vouching = gate(house, replace(EDGE, vouches=True))
    assert (await vouching.authenticate(elsewhere, ENDPOINT)).subject == "alice"


async def test_the_id_that_our_tokens_name_a_person_by_names_them_here(house: House) -> None:
    found = await gate(house).authenticate(replace(SAID, subject=ALICE.id), ENDPOINT)
    assert found.subject == "alice"
    elsewhere = replace(SAID, issuer=ELSEWHERE, subject=ALICE.id)
    with pytest.raises(Unauthenticated):
        await gate(house).authenticate(elsewhere, ENDPOINT)


async def test_nobody_unknown_gets_in_unless_the_plane_may_vouch(house: House) -> None:
    stranger = replace(SAID, issuer=ELSEWHERE, subject="bob")
    with pytest.raises(Unauthenticated) as refused:
        await gate(house).authenticate(stranger, ENDPOINT)
    assert refused.value.reasons[0][0] == "unknown_subject"
    found = await gate(house, replace(EDGE, vouches=True)).authenticate(stranger, ENDPOINT)
    assert found.recorded == f"{ELSEWHERE}|bob"
    assert found.groups == {"admins"}


async def test_whoever_is_disabled_here_is_nobody_at_once(house: House) -> None:
    vouching = gate(house, replace(EDGE, vouches=True))
    await vouching.authenticate(SAID, ENDPOINT)
    house.stores.users.change(ALICE.id, disabled=True, at=NOW)
    with pytest.raises(Unauthenticated):
        await vouching.authenticate(SAID, ENDPOINT)


async def test_the_same_person_is_the_same_principal(house: House) -> None:
    planes = gate(house)
    first = await planes.authenticate(SAID, ENDPOINT)
    assert await planes.authenticate(replace(SAID), ENDPOINT) is first


async def test_a_client_that_is_known_here_is_that_client(house: House) -> None:
    itself = replace(client().client, id="assistant", name="Host", kind=ClientKind.DYNAMIC)
    house.stores.clients.add(itself)
    found = await gate(house).authenticate(SAID, ENDPOINT)
    assert (found.client_name, found.program) == ("Host", "Host")


async def test_a_client_that_acts_for_itself_is_known_by_its_registration(house: House) -> None:
    itself = replace(
        client().client,
        id="nightly",
        groups=frozenset({"robots"}),
        scopes=frozenset({"tools:list"}),
        trusted_host=True,
    )
    house.stores.clients.add(itself)
    said = replace(SAID, subject="nightly", client_id="nightly")
    for plane in (EDGE, replace(EDGE, vouches=True)):
        found = await gate(house, plane).authenticate(said, ENDPOINT)
        assert (found.subject, found.recorded) == ("nightly", "nightly")
        assert found.groups == {"robots"}
        assert found.scopes == frozenset()  # it may list, and the plane may call
    for unlike in (replace(said, client_id="assistant"), replace(said, issuer=ELSEWHERE)):
        with pytest.raises(Unauthenticated):
            await gate(house).authenticate(unlike, ENDPOINT)


@pytest.mark.parametrize(
    ("kind", "resources", "server", "may"),
    [
        (ClientKind.REGISTERED, {"/mcp/mail"}, "mail", True),
        (ClientKind.REGISTERED, {"/mcp/mail"}, "crm", False),
        (ClientKind.REGISTERED, {"/mcp"}, "crm", True),
        (ClientKind.REGISTERED, {"/api/v1"}, "mail", False),
        (ClientKind.DYNAMIC, {"/mcp/mail"}, "crm", True),
        (None, set(), "crm", True),
    ],
)
async def test_a_client_reaches_by_a_plane_the_servers_of_its_registration(
    house: House, *, kind: ClientKind | None, resources: set[str], server: str, may: bool
) -> None:
    if kind is not None:
        known = replace(client().client, kind=kind, resources=frozenset(resources))
        house.stores.clients.add(replace(known, id="assistant"))
    planes = gate(house)
    about = replace(SAID, server=UpstreamId(server))
    if may:
        assert (await planes.authenticate(about, ENDPOINT)).client_id == "assistant"
    else:
        with pytest.raises(Unauthenticated) as refused:
            await planes.authenticate(about, ENDPOINT)
        assert refused.value.reasons[0][0] == "not_registered"
    # Whose call it is, is known all the same.
    assert (await planes.authenticate(SAID, ENDPOINT)).subject == "alice"


@pytest.mark.parametrize(("tasks", "trusted"), [(True, True), (True, False), (False, True)])
async def test_tasks_count_of_trusted_hosts_by_a_plane_that_may_tell_them(
    house: House, *, tasks: bool, trusted: bool
) -> None:
    host = replace(client().client, id="assistant", trusted_host=trusted)
    house.stores.clients.add(host)
    found = await gate(house, replace(EDGE, tasks=tasks)).authenticate(SAID, ENDPOINT)
    assert found.trusted_host is (tasks and trusted)


async def test_a_token_is_no_word_of_a_planes(house: House) -> None:
    for credential in (None, BearerToken(text="x")):
        with pytest.raises(Unauthenticated):
            await gate(house).authenticate(credential, ENDPOINT)


def test_to_whoever_reads_tokens_it_is_none() -> None:
    assert SAID.text == ""


async def test_a_principal_says_which_ends_of_rights_were_known_when_it_was_looked_up(
    house: House,
) -> None:
    known, ended = gate(house), [1]
    known._people = lambda: ended[0]
    first = await known.authenticate(SAID, ENDPOINT)
    assert first.people == 1
    assert await known.authenticate(SAID, ENDPOINT) is first
    find = known._find_client

    def found(client_id: str) -> Client | None:
        ended[0] += 1
        return find(client_id)

    known._find_client = found
    ended[0] = 2
    later = await known.authenticate(SAID, ENDPOINT)
    assert (later, later.people, ended) == (first, 2, [3])
