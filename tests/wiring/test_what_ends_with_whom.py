"""What was asked for somebody ends with them, also where they are there again before anybody has looked."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.approvals import ApprovalState
from gateway.domain.audit import AuditRecord
from gateway.domain.calls import Form, Permit
from gateway.domain.identity import BearerToken, Client
from gateway.errors import Unauthenticated, UpstreamFailed
from gateway.oauth.tokens import mint
from gateway.pipeline.admission import Admission
from gateway.pipeline.trail import Trail
from gateway.policy import reload
from gateway.storage.identity.store import IdentityStores
from gateway.wire.operations import CANCELLED
from gateway.wiring import departures, pipelines
from gateway.wiring.foundation import now
from gateway.wiring.gateway import Gateway
from tests.e2e.planes import registered
from tests.oauth.world import access_token
from tests.pipeline.house import ALICE, UNHINTED
from tests.pipeline.test_questions_of_planes import EDGE, WORST
from tests.policy.test_policy_saved_meanwhile import nothing_is_told
from tests.storage.identity.identities import user
from tests.storage.test_approval_stores import question
from tests.upstream.permits import permit_for
from tests.wiring.test_saved_while_a_reload_builds import Place, running

LONG_AGO = 1.0
CALLS = frozenset({"tools:call"})
AGENT = Client(id="c_1", name="Agent", created_at=LONG_AGO, created_by="root")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(reload, "awatch", nothing_is_told)
    return Place(tmp_path)


def without_client_for_a_moment(stores: IdentityStores) -> None:
    stores.clients.remove(AGENT.id)
    stores.clients.add(replace(AGENT, created_at=now()))


def disabled_for_a_moment(stores: IdentityStores) -> None:
    for disabled in (True, False):
        stores.users.change("u_emma", disabled=disabled, at=now())


def changed(stores: IdentityStores) -> None:
    stores.users.change("u_emma", groups=frozenset({"other"}), at=now())


async def state_of(gateway: Gateway) -> ApprovalState:
    (one,) = gateway._lasting.approvals.all(now=now())
    return one.state


@pytest.mark.parametrize(
    ("away", "state"),
    [
        (changed, ApprovalState.WAITING),
        (without_client_for_a_moment, ApprovalState.WITHDRAWN),
        (disabled_for_a_moment, ApprovalState.WITHDRAWN),
    ],
)
async def test_a_question_of_somebody_who_was_away_between_two_looks_ends(
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    away: Callable[[IdentityStores], None],
    state: ApprovalState,
) -> None:
    looked, wait = asyncio.Event(), asyncio.sleep

    async def once_looked(seconds: float) -> None:
        looked.set()
        await wait(0.01 if seconds == departures._EVERY_S else seconds)

    monkeypatch.setattr(departures, "asyncio", _Sleeping(once_looked))
    async with running(place) as gateway:
        stores: Any = gateway._store.identity
        stores.users.add(user("emma", created_at=LONG_AGO))
        stores.clients.add(AGENT)
        await gateway._lasting.approvals.file(question(now=now()))
        away(stores)  # nobody looks meanwhile
        for _ in range(3):
            looked.clear()
            await asyncio.wait_for(looked.wait(), 60)
        assert await state_of(gateway) is state


class _Sleeping:
    """Stands in for a module of which one function is looked at."""

    def __init__(self, sleep: Any) -> None:
        self.sleep = sleep

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)


async def test_since_when_a_plane_is_there_is_known(place: Place) -> None:
    both = {
        name: {**plane, "servers": {"mail": "mail"}}
        for name, plane in registered(place.file.parent, edge={}, other={}).items()
    }
    edge = {"edge": both["edge"]}
    place.write(planes={"authzen": edge})
    async with running(place) as gateway:
        assert gateway._planes == {"edge": 0.0}
        place.write(planes={"authzen": both})
        await gateway.take_up()
        assert gateway._planes["edge"] == 0.0
        came = gateway._planes["other"]
        assert 0.0 < came <= now()
        place.write(planes={"authzen": edge})
        await gateway.take_up()
        assert gateway._planes == {"edge": 0.0}
        place.write(planes={"authzen": both})
        await gateway.take_up()
        assert gateway._planes["other"] > came


async def test_what_a_plane_comes_to_owe_while_it_is_being_removed_counts(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that ask do so by what is in force until something else is."""
    monkeypatch.setattr(departures, "_EVERY_S", 3600.0)
    made = registered(place.file.parent, edge={"servers": {"mail": "mail"}})
    admissions = noting_admissions(monkeypatch)
    place.write(planes={"authzen": made})
    async with running(place) as gateway:
        run = await gateway._store.runs.of(ALICE, UNHINTED)

        async def owe() -> None:
            permit = replace(permit_for(), run=run, principal=ALICE)
            trail = Trail(permit.call, clock=now, new_id=lambda: "1")
            await gateway._carried.debts.owe(EDGE, permit, trail, WORST, nothing_stands_against)

        build = gateway.build

        async def built(*given: Any) -> Any:
            found = await build(*given)
            await owe()
            return found

        monkeypatch.setattr(gateway, "build", built)
        place.write(planes={})
        await gateway.take_up()
        assert (await admissions[-1]._runs.of(ALICE, UNHINTED)).label == WORST


async def nothing_stands_against(_: AuditRecord) -> None:
    """Say that it is on record."""


def noting_admissions(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    made: list[Any] = []

    def noting(**given: Any) -> Admission:
        admission = Admission(**given)
        made.append(admission)
        return admission

    monkeypatch.setattr(pipelines, "Admission", noting)
    return made


async def test_what_waited_for_a_connection_of_somebody_who_may_call_no_more_is_not_sent(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    admissions = noting_admissions(monkeypatch)
    async with running(place) as gateway:
        stores: Any = gateway._store.identity
        for name in ("emma", "noor"):
            stores.users.add(user(name, issuer=gateway._config.public_url))
        stores.clients.add(replace(AGENT, resources=frozenset({"/mcp"}), scopes=CALLS))
        waiting = {name: waiting_of(gateway, f"u_{name}") for name in ("emma", "noor")}
        for permit in waiting.values():
            admissions[0].require_unchanged(permit)
        stores.users.change("u_emma", disabled=True, at=now())
        with pytest.raises(Unauthenticated) as refused:
            admissions[0].require_unchanged(waiting["emma"])
        assert refused.value.not_sent
        admissions[0].require_unchanged(waiting["noor"])


async def test_what_is_cancelled_after_a_reload_is_not_sent_by_what_was_in_force_before(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    admissions = noting_admissions(monkeypatch)
    async with running(place) as gateway:
        waiting = permit_for(session="s", rpc_id=7)
        waiting = replace(waiting, call=replace(waiting.call, arrived=1))
        cancels = permit_for(
            CANCELLED, form=Form.NOTIFICATION, rpc_id=None, params={"requestId": 7}
        ).call
        before = admissions[0]
        admissions.clear()
        place.write(tenant={"domains": ["first.example"]})
        await gateway.take_up()
        after = admissions[0]
        before.require_unchanged(waiting)
        after._cancelled.note(replace(cancels, arrived=2), waiting.principal, "s")
        with pytest.raises(UpstreamFailed, match="cancelled"):
            before.require_unchanged(waiting)


def waiting_of(gateway: Gateway, user_id: str) -> Permit:
    """Return a permit by a token of theirs that is good now."""
    made, url = permit_for(), gateway._config.public_url
    token = access_token(
        AGENT,
        issuer=url,
        audience=f"{url}/mcp",
        subject=user_id,
        grant_id=f"g_{user_id}",
        scopes=CALLS,
        issued_at=int(now()),
        expires_at=int(now()) + 600,
    )
    credential = BearerToken(text=mint(token, gateway._identity.ring))
    call = replace(made.call, endpoint="/mcp", credential=credential)
    premises = replace(made.premises, people=gateway._store.identity.people)
    return replace(made, call=call, premises=premises)
