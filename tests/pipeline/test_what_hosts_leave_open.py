"""What a host leaves open takes what is accounted for, of its own room, however it names things."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.planes import InterceptorHost
from gateway.pipeline import interceptions
from gateway.pipeline.interceptions import Interceptions
from gateway.wire.interceptors import Invocation, Phase
from tests.pipeline.test_late_interceptions import ASKING, HOST, PLANE, Decisions, seen

CALL: Mapping[str, Any] = {"name": "read", "arguments": {}}
OTHER = InterceptorHost(plane=replace(PLANE, name="other"), asserts=False, sessions=False)
VOUCHING = replace(HOST, asserts=True)
ROOM = 64 * 1024


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Interceptions:
    monkeypatch.setattr(interceptions, "_OCTETS", ROOM)
    one: Any = Decisions()
    nobody: Any = None
    return Interceptions(one, admission=nobody, runs=nobody, seal_key=b"k" * 32, clock=lambda: 1.0)


def called(session: str, *, claims: Mapping[str, Any] | None = None, id_: str = "a") -> Invocation:
    principal = {"type": "user", "id": id_, "claims": claims or {"iss": "https://douane.example"}}
    return replace(seen(Phase.REQUEST, CALL), session=session, principal=principal)


async def waits(hosts: Interceptions, host: InterceptorHost, session: str) -> bool:
    """Whether a result of the one call of that session is given out."""
    result = replace(called(session), phase=Phase.RESPONSE, payload={"content": []})
    return await hosts.validated(host, ASKING, result) == ()


@pytest.mark.parametrize(
    "large",
    [
        {"claims": {"iss": "https://douane.example", "junk": "x" * ROOM}},
        {"id_": "a" * ROOM},
    ],
)
async def test_what_a_caller_is_said_to_be_is_accounted_for(
    hosts: Interceptions, large: Mapping[str, Any]
) -> None:
    for number in range(4):
        await hosts.validated(VOUCHING, ASKING, called(f"s{number}", **large))
    assert not hosts._open[PLANE.name].octets


async def test_long_names_are_kept_by_what_they_are_known_by(hosts: Interceptions) -> None:
    for number in range(8):
        await hosts.validated(HOST, ASKING, called(f"{number}" + "s" * 8_000))
    assert all(len(key) == 32 for key in hosts._open[PLANE.name])
    assert await waits(hosts, HOST, "7" + "s" * 8_000)


async def test_calls_that_nobody_tells_apart_are_not_gathered(hosts: Interceptions) -> None:
    for _ in range(100):
        await hosts.validated(HOST, ASKING, called("s"))
    (kept,) = [hosts._open[PLANE.name].get(key) for key in hosts._open[PLANE.name]]
    assert kept is not None
    assert len(kept) == 2
    assert not await waits(hosts, HOST, "s")


async def test_what_one_leaves_open_has_no_call_of_another_forgotten(hosts: Interceptions) -> None:
    await hosts.validated(OTHER, ASKING, called("s"))
    for number in range(1_000):
        await hosts.validated(HOST, ASKING, called(f"s{number}"))
    assert await waits(hosts, OTHER, "s")
