"""Calls that are kept once their requests are over take no more memory than they are counted for."""

import itertools
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.calls import AccessRequest
from gateway.domain.decisions import Verdict
from gateway.domain.flow import Match, Payload, Source
from gateway.domain.labels import ToolRule
from gateway.domain.planes import PlaneKind
from gateway.domain.tools import Profile
from gateway.flow.question import flow_input
from gateway.pipeline.conversations import Conversations
from gateway.pipeline.plane_records import Asking
from gateway.pipeline.plane_results import Pending
from gateway.pipeline.plane_traffic import Shown
from gateway.pipeline.trail import Trail
from gateway.planes import ext_mcp
from gateway.planes.waiting import Waiting
from gateway.wire.authzen import Entity
from gateway.wire.jsonrpc import read_message
from gateway.wire.jsontext import WireLimits
from tests.pipeline.house import (
    ALICE,
    PRIVATE,
    TRUSTED,
    UNHINTED,
    Events,
    House,
    decision,
    event,
    text,
)
from tests.pipeline.kept import weighs
from tests.pipeline.test_long_streams import anext_of, cancelled_at_the_end
from tests.pipeline.test_questions_of_planes import EDGE, question
from tests.pipeline.test_streams_that_break import BROKE, PRIMED, seen_of
from tests.planes.asking import CLAIMED, META, PLANE

LARGE = "\U0001f980" + "a" * 60_000
"""One wide character makes all of it wide."""
TASK = {"prompt": LARGE, "tools": [f"\U0001f980{k}" + "a" * 490 for k in range(1_000)]}
SHAPES: Mapping[str, Any] = {
    "little": {"q": "x"},
    "a wide text": {"q": LARGE},
    "many": {"q": [[{"a": 1.5}] for _ in range(3_000)]},
    "links": {"q": " ".join(f"http://a.bc/{k}" for k in range(3_000))},
    "links apart": {"q": [f"http://a.bc/{k}" for k in range(1_000)]},
    "destinations": {"to": [f"{k}@a.bc" for k in range(256)]},
}
TASKS = pytest.mark.parametrize("task", [None, TASK], ids=["no-task", "a-task"])


def read(content: Any) -> Any:
    """Return `content` as it is read once more: each call has its own."""
    return json.loads(json.dumps(content))


async def grows(
    kept: object, counted: Callable[[], int], one_more: Callable[[int], Awaitable[object]]
) -> None:
    """Require that one more takes no more than it counts for; what is everybody's is there by then."""
    await one_more(1)
    weighed, count = weighs(kept), counted()
    await one_more(2)
    more, as_counted = weighs(kept) - weighed, counted() - count
    assert 0 < more <= as_counted


async def led_house(profile: Profile) -> House:
    """Return a house whose run has read of much, and whose tool sends to whoever is named."""
    house = House(tools={"search": ToolRule(result=TRUSTED, destination=("to",), payload=("q",))})
    await house.approve_all(profile)
    ids = itertools.count()
    house.rule.says = lambda _: replace(decision(Verdict.ALLOW), id=f"d_{next(ids)}")
    run = await house.runs.of(ALICE, UNHINTED)
    for number in range(64):
        tool = f"{number}" + "t" * 200
        source = Source(server="mail", tool=tool, record=f"r{number}", label=PRIVATE)
        await house.runs.raise_label(run.id, PRIVATE, source)
    return house


@pytest.mark.parametrize("shape", SHAPES)
@TASKS
async def test_a_call_whose_stream_was_cut(shape: str, task: Any) -> None:
    house = await led_house(Profile.LEGACY)
    cut = house.conversations._cut

    async def one(id_: int) -> None:
        meta = {} if task is None else {"_meta": {"douane/task": read(task)}}
        params = {"name": "search", "arguments": read(SHAPES[shape]), **meta}
        await seen_of(house, PRIMED, BROKE, params=params, id_=id_)
        house.server.saw.clear()

    await grows(cut._of, lambda: cut.octets, one)


async def test_a_call_whose_client_went_as_its_answer_was_given_out() -> None:
    """Its end is on record: of a large answer that its client may come back for nothing is kept."""
    house = await led_house(Profile.LEGACY)
    cut = house.conversations._cut

    async def one(id_: int) -> None:
        said = event({"jsonrpc": "2.0", "id": id_, "result": text("x" * 500_000)})
        house.server.answer = lambda permit: Events([said]).answer()
        params = {"name": "search", "arguments": {}}
        call = house.request("tools/call", params, profile=Profile.LEGACY, session="s1", id_=id_)
        reply = await house.pipeline.handle(call)
        await cancelled_at_the_end(house, anext_of(reply.body))
        house.server.saw.clear()

    await grows(cut._of, lambda: cut.octets, one)
    assert house.last["result_bytes"] > 500_000


async def require_cut(made: Callable[[AccessRequest], AccessRequest]) -> None:
    """Require that such a call takes no more than it counts for."""
    house = await led_house(Profile.LEGACY)
    params = {"name": "search", "arguments": {}}
    await house.handle(house.request("tools/call", params, session="s", profile=Profile.LEGACY))
    permit, open_ = house.server.saw[0], Conversations()

    async def one(id_: int) -> None:
        assert permit.access is not None
        access = made(permit.access)
        call = replace(access.call, message=replace(access.call.message, id=id_))
        cut = replace(permit, call=call, access=replace(access, call=call))
        open_.cut(cut, Trail(call, clock=house.clock, new_id=house.new_id))

    await grows(open_._cut._of, lambda: open_._cut.octets, one)


async def test_a_cut_call_with_values_in_the_place_of_tokens() -> None:
    def made(access: AccessRequest) -> AccessRequest:
        written = read({"name": "search", "arguments": {"q": LARGE}})
        tokens = tuple((f"<EMAIL-{k}>", f"{k}@example.com") for k in range(3_000))
        return replace(access, call=replace(access.call, restored=tokens, written=written))

    await require_cut(made)


async def test_a_cut_call_in_which_much_was_found() -> None:
    def made(access: AccessRequest) -> AccessRequest:
        found = [Match(record=f"r{k}", kind="exact", bytes=k) for k in range(1_000)]
        payload = tuple(Payload(path=f"$.q[{k}]", matches=(one,)) for k, one in enumerate(found))
        review = replace(access.review, payload=payload)
        dlp = {"arguments": [{"class": "email", "path": f"$.q[{k}]"} for k in range(1_000)]}
        asked = {**access.asked, "flow": flow_input(review), "dlp": dlp}
        return replace(access, review=review, asked=asked)

    await require_cut(made)


@pytest.mark.parametrize("shape", SHAPES)
@TASKS
async def test_a_call_that_a_plane_asks_about(shape: str, task: Any) -> None:
    house = await led_house(Profile.MODERN)
    plane = replace(EDGE, groups_property="groups")
    groups = [f"group {k}" for k in range(1_000)]

    async def one(_: int) -> None:
        whose = Entity(type="identity", id=ALICE.subject, properties={"groups": read(groups)})
        asked = replace(question(), subject=whose, arguments=read(SHAPES[shape]), task=read(task))
        asking = Asking(plane=plane, source_ip="192.0.2.1", request_id="q")
        assert (await house.decisions.answer(asking, asked)).decision

    await grows(house.debts._open, lambda: house.debts.held["edge"][1], one)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [PlaneKind.EXT_MCP, PlaneKind.EXT_AUTHZ])
@TASKS
async def test_a_call_that_a_plane_shows(shape: str, task: Any, kind: PlaneKind) -> None:
    house = await led_house(Profile.MODERN)
    waiting = Waiting(house.new_id)
    plane = replace(PLANE, kind=kind)

    def counted() -> int:
        return house.debts.held["edge"][1] + waiting._room.held["edge"]

    async def one(_: int) -> None:
        meta = META if task is None else {**META, "douane/task": task}
        params = {"name": "search", "arguments": SHAPES[shape], "_meta": meta}
        whole = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        message = read_message(json.dumps(whole, ensure_ascii=False).encode(), WireLimits())
        shown = Shown(
            endpoint=f"/{ext_mcp.SERVICE}/CheckRequest",
            server="gh",
            claims=CLAIMED,
            message=message,
            revision="2026-07-28",
            profile=Profile.MODERN,
        )
        asking = Asking(plane=plane, source_ip="192.0.2.1", request_id="q")
        pending = await house.traffic.admit(asking, shown)
        assert isinstance(pending, Pending)
        waiting.keep(plane, "edge|alice", ("s", "m"), pending, house.clock())

    await grows([house.debts._open, waiting._of], counted, one)
