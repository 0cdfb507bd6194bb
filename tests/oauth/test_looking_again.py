"""A no of old memory is asked again, and a no stays one where nothing is new."""

import asyncio
import threading
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from gateway.domain.epoch import Epoch
from gateway.domain.identity import BearerToken, Credential, Principal
from gateway.errors import IdentityUnavailable, Unauthenticated
from gateway.oauth.errors import ErrorCode, OAuthError
from gateway.oauth.looking_again import Look, LooksAgain
from gateway.storage.identity.store import IdentityStores
from tests.oauth.house import SOURCE, House, query
from tests.oauth.test_external_gate import ALICE

ENDPOINT = "https://gateway.example/s/mail/mcp"
TOKEN = BearerToken(text="a token")


class Gate:
    """Knows whom memory shows."""

    def __init__(self, *, knows: bool = False) -> None:
        self.knows = knows
        self.asked: list[tuple[Credential, str]] = []

    async def authenticate(self, credential: Credential, endpoint: str) -> Principal:
        self.asked.append((credential, endpoint))
        if not self.knows or credential is None:
            raise Unauthenticated("a valid access token is required")
        return ALICE


class Others:
    """What other gateways have changed, and memory shows once it has followed."""

    def __init__(self, gate: Gate, *, registered: bool = False, changed: bool = False) -> None:
        self.epoch = Epoch()
        self.followed = 0
        self._gate, self._registered, self._changed = gate, registered, changed

    def follow(self) -> None:
        self.followed += 1
        self._gate.knows = self._gate.knows or self._registered
        if self._registered or self._changed:
            self.epoch.turn()


def looking(gate: Gate, others: Others) -> LooksAgain:
    return LooksAgain(gate, look=Look(others.follow), epoch=others.epoch)


async def test_who_was_registered_elsewhere_a_moment_ago_is_let_in() -> None:
    others = Others(gate := Gate(), registered=True)
    assert await looking(gate, others).authenticate(TOKEN, ENDPOINT) == ALICE
    assert gate.asked == [(TOKEN, ENDPOINT)] * 2


async def test_a_no_stays_one_whatever_else_has_changed() -> None:
    others = Others(gate := Gate(), changed=True)
    with pytest.raises(Unauthenticated):
        await looking(gate, others).authenticate(TOKEN, ENDPOINT)
    assert (len(gate.asked), others.followed) == (2, 1)


async def test_a_no_is_not_judged_again_where_nothing_is_new() -> None:
    others = Others(gate := Gate())
    with pytest.raises(Unauthenticated):
        await looking(gate, others).authenticate(TOKEN, ENDPOINT)
    assert (len(gate.asked), others.followed) == (1, 1)


async def test_a_yes_and_no_token_at_all_cost_no_look() -> None:
    others = Others(gate := Gate(knows=True), registered=True)
    again = looking(gate, others)
    assert await again.authenticate(TOKEN, ENDPOINT) == ALICE
    with pytest.raises(Unauthenticated):
        await again.authenticate(None, ENDPOINT)
    assert others.followed == 0


async def test_what_the_watch_has_seen_meanwhile_counts_as_new() -> None:
    """Memory may follow by itself between the no and the look, which then finds nothing new."""
    gate = Gate()
    others = Others(gate)

    class Raced(Gate):
        async def authenticate(self, credential: Credential, endpoint: str) -> Principal:
            try:
                return await gate.authenticate(credential, endpoint)
            finally:
                gate.knows = True
                others.epoch.turn()

    assert await looking(Raced(), others).authenticate(TOKEN, ENDPOINT) == ALICE


async def test_nobody_is_let_in_while_what_others_changed_cannot_be_seen() -> None:
    def silent() -> None:
        raise IdentityUnavailable("who you are cannot be told now")

    gate = Gate()
    with pytest.raises(IdentityUnavailable):
        await LooksAgain(gate, look=Look(silent), epoch=Epoch()).authenticate(TOKEN, ENDPOINT)
    assert len(gate.asked) == 1


async def test_of_many_who_are_refused_at_once_the_database_is_asked_twice() -> None:
    """Once by who came first, and once for all who came since: anybody can send a wrong token."""
    others = Others(gate := Gate())
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        others.follow()
        begun.set()
        go_on.wait(60)

    again = LooksAgain(gate, look=Look(slow), epoch=others.epoch)
    first = asyncio.create_task(again.authenticate(TOKEN, ENDPOINT))
    await asyncio.to_thread(begun.wait, 60)
    rest = [asyncio.create_task(again.authenticate(TOKEN, ENDPOINT)) for _ in range(50)]
    while len(gate.asked) < 51:
        await asyncio.sleep(0)
    go_on.set()
    results = await asyncio.gather(first, *rest, return_exceptions=True)
    assert {type(one) for one in results} == {Unauthenticated}
    assert others.followed == 2


async def test_of_those_who_are_refused_one_after_the_other_the_database_is_asked_so_often() -> (
    None
):
    """Twenty times a second, whoever asks and however fast: the others wait a moment for their no."""
    others, now = Others(gate := Gate()), 100.0
    looks: list[float] = []

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        await asyncio.sleep(0)

    def follow() -> None:
        looks.append(now)
        others.follow()

    look = Look(follow, elapsed=lambda: now, sleep=sleep)
    again = LooksAgain(gate, look=look, epoch=others.epoch)
    for _ in range(100):
        with pytest.raises(Unauthenticated):
            await again.authenticate(TOKEN, ENDPOINT)
        now += 0.001
    assert len(looks) == 100
    assert min(later - earlier for earlier, later in pairwise(looks)) >= 0.049
    now += 60
    others._registered = True
    assert await again.authenticate(TOKEN, ENDPOINT) == ALICE
    assert looks[-1] == now


async def test_a_look_that_has_failed_is_nobodys_answer() -> None:
    others = Others(gate := Gate(), registered=True)
    begun, go_on = threading.Event(), threading.Event()

    def silent_at_first() -> None:
        if not begun.is_set():
            begun.set()
            go_on.wait(60)
            raise IdentityUnavailable("who you are cannot be told now")
        others.follow()

    again = LooksAgain(gate, look=Look(silent_at_first), epoch=others.epoch)
    first, second = (asyncio.create_task(again.authenticate(TOKEN, ENDPOINT)) for _ in range(2))
    await asyncio.to_thread(begun.wait, 60)
    go_on.set()
    with pytest.raises(IdentityUnavailable):
        await first
    assert await second == ALICE


async def test_a_client_that_was_registered_elsewhere_a_moment_ago_is_known(
    house: House, tmp_path: Path
) -> None:
    with closing(IdentityStores.open(tmp_path, clock=house.clock)) as elsewhere:
        client = house.add()
        house.stores.clients.remove(client.id)
        elsewhere.follow()
        elsewhere.clients.add(client)
    assert house.stores.clients.find(client.id) is None
    begun = await house.authorization.begin(query(), SOURCE)
    assert begun.client == client
    assert await house.directory.resolve("dcr_other", SOURCE) is None


async def test_whose_memory_cannot_be_brought_up_to_date_is_told_to_come_again(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent() -> None:
        raise IdentityUnavailable("who you are cannot be told now")

    monkeypatch.setattr(house.directory, "_look", Look(silent))
    with pytest.raises(OAuthError) as refusal:
        await house.authorization.begin(query(), SOURCE)
    assert refusal.value.error is ErrorCode.TEMPORARILY_UNAVAILABLE
    house.add()
    assert (await house.authorization.begin(query(), SOURCE)).client.id == "dcr_app"
