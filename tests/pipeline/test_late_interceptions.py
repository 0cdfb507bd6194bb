"""A result that a host shows too late is not taken for another call's."""

from collections.abc import Mapping
from typing import Any

from gateway.domain.planes import InterceptorHost, Plane
from gateway.domain.tools import UpstreamId
from gateway.pipeline.interceptions import Interceptions
from gateway.pipeline.plane_records import Asking
from gateway.wire.authzen import Answer, Evaluation
from gateway.wire.interceptors import Invocation, Phase

PLANE = Plane(
    name="host",
    key_digest=b"",
    servers={"files": UpstreamId("files")},
    issuers=("https://douane.example",),
    client="agent",
    scopes=frozenset({"tools:call"}),
    report_within_s=120.0,
    types={},
)
HOST = InterceptorHost(plane=PLANE, asserts=False, sessions=False)
ASKING = Asking(plane=PLANE, source_ip="127.0.0.1", request_id="r")


class Decisions:
    """Says yes to all, and knows of what a result was told to it."""

    def __init__(self) -> None:
        self.asked = 0
        self.reported: list[str] = []

    async def answer(self, asking: Asking, asked: Evaluation) -> Answer:
        del asking
        if asked.reported is not None:
            self.reported.append(asked.reported.decision)
            return Answer(decision=True, context={})
        self.asked += 1
        return Answer(decision=True, context={"decision_id": f"d{self.asked}"})

    async def refuse(self, *_: Any, **__: Any) -> None:
        """Write nothing down."""


def seen(phase: Phase, payload: Mapping[str, Any]) -> Invocation:
    return Invocation(
        name="douane/decide",
        event="tools/call",
        phase=phase,
        payload=payload,
        server="files",
        principal={},
        session="s",
        span="",
    )


async def test_a_result_that_is_late_is_not_that_of_a_later_call() -> None:
    now, decisions = [1_000.0], Decisions()
    one: Any = decisions
    nobody: Any = None
    house = Interceptions(
        one, admission=nobody, runs=nobody, seal_key=b"k" * 32, clock=lambda: now[0]
    )
    call = {"name": "read", "arguments": {}}
    assert await house.validated(HOST, ASKING, seen(Phase.REQUEST, call)) == ()
    now[0] += 119
    assert await house.validated(HOST, ASKING, seen(Phase.REQUEST, call)) == ()
    now[0] += 2
    late = seen(Phase.RESPONSE, {"content": []})
    assert await house.validated(HOST, ASKING, late) != ()
    assert decisions.reported == []
