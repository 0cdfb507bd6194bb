"""Who is not there any more: told for those who were known here, and for nobody else."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.identity import ClientKind
from gateway.oauth.builtin import COMMAND_LINE
from gateway.oauth.foreign.gate import user_id
from gateway.oauth.gate import _principal
from gateway.oauth.present import Present
from tests.oauth.house import ALICE, House
from tests.oauth.test_plane_gate import ENDPOINT, SAID, gate
from tests.oauth.world import NOW, access_token, client

LATER = NOW + 100.0
THERE: dict[str, str] = {
    "plane": "edge",
    "user_id": ALICE.id,
    "client_id": "assistant",
    "client_name": "Assistant",
}


@pytest.fixture
def planes() -> dict[str, float]:
    return {"edge": 0.0, "host": 0.0}


@pytest.fixture
def present(house: House, planes: dict[str, float]) -> Present:
    house.stores.clients.add(replace(client().client, id="assistant"))
    return present_in(house, planes, elsewhere=False)


def present_in(house: House, planes: dict[str, float], *, elsewhere: bool) -> Present:
    return Present(
        users=house.stores.users,
        clients=house.stores.clients,
        planes=lambda: planes,
        elsewhere=elsewhere,
    )


def lacking(present: Present, since: float = LATER, **changes: str) -> str:
    return present.absence(**{**THERE, **changes}).since(since)


async def test_of_those_who_are_there_nobody_lacks(present: Present) -> None:
    assert lacking(present) == ""
    assert lacking(present, plane="host") == ""


async def test_who_was_never_known_here_lacks_nowhere(present: Present) -> None:
    stranger: Any = {"user_id": "", "client_id": "theirs", "client_name": "theirs"}
    assert lacking(present, **stranger) == ""
    assert lacking(present, plane="") == ""
    built_in: Any = {"client_id": COMMAND_LINE.id, "client_name": COMMAND_LINE.name}
    assert lacking(present, **built_in) == ""


async def test_a_client_that_was_removed_lacks(house: House, present: Present) -> None:
    house.stores.clients.remove("assistant")
    assert lacking(present) == "the client was removed"


@pytest.mark.parametrize("named", ["https://app.example/client.json", "dcr_1"])
async def test_a_client_that_goes_by_its_id_lacks_as_well(
    house: House, present: Present, named: str
) -> None:
    """As one does that registered itself without a name, and whose document names it so."""
    itself = replace(client().client, id=named, name=named, kind=ClientKind.DOCUMENT)
    house.stores.clients.add(itself)
    token = access_token(itself, subject=ALICE.id, grant_id="g", scopes=itself.scopes)
    of_ours = _principal(token, itself, ALICE, 0)
    of_a_plane = await gate(house).authenticate(replace(SAID, client_id=named), ENDPOINT)
    house.stores.clients.remove(named)
    stranger = await gate(house).authenticate(replace(SAID, client_id=named), ENDPOINT)
    told = [
        lacking(present, client_id=one.client_id, client_name=one.client_name)
        for one in (of_ours, of_a_plane, stranger)
    ]
    assert told == ["the client was removed", "the client was removed", ""]


async def test_a_person_who_was_disabled_or_removed_lacks(house: House, present: Present) -> None:
    house.stores.users.change(ALICE.id, disabled=True, at=NOW)
    assert lacking(present) == "the person was disabled"
    house.stores.users.remove(ALICE.id, at=NOW)
    assert lacking(present) == "the person was removed"


async def test_whom_another_authorization_server_knows_was_not_removed(
    house: House, planes: dict[str, float]
) -> None:
    present = present_in(house, planes, elsewhere=True)
    theirs: Any = {"user_id": user_id("https://far.example", "emma"), "client_name": "assistant"}
    assert lacking(present, **theirs) == ""
    house.stores.users.change(ALICE.id, disabled=True, at=NOW)
    assert lacking(present, client_name="assistant") == "the person was disabled"


async def test_a_plane_that_is_in_the_configuration_no_more_lacks(
    present: Present, planes: dict[str, float]
) -> None:
    del planes["edge"]
    assert lacking(present) == "the plane was removed"
    assert lacking(present, plane="host") == ""


# Whoever is there again.


async def test_who_was_removed_and_comes_by_the_same_id_has_nothing_of_before(
    house: House, present: Present
) -> None:
    """As whoever has a document does, whose id is its address."""
    assert lacking(present, NOW) == ""
    removed = house.stores.clients.remove("assistant")
    assert removed is not None
    house.stores.clients.add(replace(removed, created_at=NOW + 2))
    assert lacking(present, NOW + 1) == "the client is another one by now"
    assert lacking(present, NOW + 3) == ""


async def test_who_was_disabled_for_a_moment_has_nothing_of_before(
    house: House, present: Present
) -> None:
    house.stores.users.change(ALICE.id, disabled=True, at=NOW + 2)
    house.stores.users.change(ALICE.id, disabled=False, at=NOW + 2)
    house.stores.users.change(ALICE.id, groups=frozenset({"other"}), at=NOW + 9)
    assert lacking(present, NOW + 1) == "the person was disabled"
    assert lacking(present, NOW + 3) == ""


async def test_a_plane_that_was_away_for_a_moment_has_nothing_of_before(
    present: Present, planes: dict[str, float]
) -> None:
    planes["edge"] = NOW + 2
    assert lacking(present, NOW + 1) == "the plane was removed"
    assert lacking(present, NOW + 3) == ""
