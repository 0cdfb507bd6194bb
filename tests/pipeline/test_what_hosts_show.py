"""What a host shows is told apart exactly, whatever numbers a server writes, and beside the event loop."""

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.document import canonical
from gateway.pipeline import interceptions
from gateway.pipeline.interceptions import Interceptions
from gateway.wire.authzen import Answer, Evaluation
from gateway.wire.interceptors import REDACT, Invocation, Phase
from tests.pipeline.test_late_interceptions import ASKING, HOST, Decisions, seen

BEYOND = 2**53 + 1
"""Neither a double nor a canonical form has it."""
MANY = {"content": [], "structuredContent": {"rows": [{"a": 1}] * 3_000}}


class Replacing(Decisions):
    """Gives out something else, if it is told so."""

    given: Mapping[str, Any] | None = None

    async def answer(self, asking: Any, asked: Evaluation) -> Answer:
        answer = await super().answer(asking, asked)
        if asked.reported is None or self.given is None:
            return answer
        owed = {"type": "urn:douane:duty:replace_result", "properties": {"result": self.given}}
        return replace(answer, context={"obligations": [owed]})


@pytest.fixture
def decisions() -> Replacing:
    return Replacing()


@pytest.fixture
async def host(decisions: Replacing) -> Interceptions:
    """One whose call waits for its result."""
    one: Any = decisions
    nobody: Any = None
    host = Interceptions(one, admission=nobody, runs=nobody, seal_key=b"k" * 32, clock=lambda: 1.0)
    call = {"name": "read", "arguments": {}}
    assert await host.validated(HOST, ASKING, seen(Phase.REQUEST, call)) == ()
    return host


def numbered(number: float) -> dict[str, Any]:
    return {"content": [], "structuredContent": {"id": number}}


def to_redact(payload: Mapping[str, Any]) -> Invocation:
    return replace(seen(Phase.RESPONSE, payload), name=REDACT)


async def test_a_result_with_an_integer_beyond_doubles_is_judged_once_for_both(
    host: Interceptions, decisions: Replacing
) -> None:
    came = numbered(BEYOND)
    assert await host.validated(HOST, ASKING, seen(Phase.RESPONSE, came)) == ()
    given, modified = await host.given(HOST, ASKING, to_redact(came))
    assert (given, modified) == (came, False)
    assert decisions.reported == ["d1"]


async def test_two_integers_that_are_one_double_are_two_results(host: Interceptions) -> None:
    assert float(BEYOND) == float(BEYOND - 1)
    assert await host.validated(HOST, ASKING, seen(Phase.RESPONSE, numbered(BEYOND))) == ()
    with pytest.raises(Exception, match="may not be given out"):
        await host.given(HOST, ASKING, to_redact(numbered(BEYOND - 1)))


async def test_what_is_given_instead_is_known_again_by_its_integers(
    host: Interceptions, decisions: Replacing
) -> None:
    decisions.given = numbered(-BEYOND)
    given, modified = await host.given(HOST, ASKING, to_redact(numbered(BEYOND)))
    assert (given, modified) == (numbered(-BEYOND), True)
    assert await host.validated(HOST, ASKING, seen(Phase.RESPONSE, given)) == ()


async def test_members_in_another_order_are_the_same_result(host: Interceptions) -> None:
    came = {"b": BEYOND, "a": 1, "content": []}
    assert await host.validated(HOST, ASKING, seen(Phase.RESPONSE, came)) == ()
    again = dict(reversed(came.items()))
    assert (await host.given(HOST, ASKING, to_redact(again)))[1] is False


@pytest.mark.parametrize(("payload", "beside"), [(MANY, True), (numbered(1), False)])
async def test_large_results_are_told_apart_beside_the_loop(
    host: Interceptions,
    monkeypatch: pytest.MonkeyPatch,
    payload: Mapping[str, Any],
    *,
    beside: bool,
) -> None:
    threads: set[int] = set()

    def noting(content: Any) -> bytes:
        threads.add(threading.get_ident())
        return canonical(content)

    monkeypatch.setattr(interceptions, "canonical", noting)
    await host.validated(HOST, ASKING, seen(Phase.RESPONSE, payload))
    await host.given(HOST, ASKING, to_redact(payload))
    assert threads
    assert (threading.get_ident() not in threads) is beside


async def test_a_large_result_is_told_once_to_each_however_many_ask_at_once(
    host: Interceptions,
) -> None:
    assert await host.validated(HOST, ASKING, seen(Phase.RESPONSE, MANY)) == ()
    asked = (host.given(HOST, ASKING, to_redact(MANY)) for _ in range(3))
    told = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(one, tuple) for one in told) == 1
