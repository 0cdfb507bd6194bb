"""The loop's longest turn while hostile messages are read, in processor time of its thread."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.hardening.parts import Part
from gateway.domain.calls import RawAnswer
from gateway.domain.nodes import MOST_NODES, weight
from gateway.errors import GatewayError
from gateway.flow.content import content_label
from gateway.http1.response import Patience, Response
from gateway.pins.schemas import SchemaCheck, UnusableSchema
from gateway.turns import in_turn
from gateway.upstream.replies import result_of
from gateway.upstream.settings import Limits, Timeouts
from gateway.upstream.stream import EventStream
from gateway.wire.jsonrpc import read_message
from gateway.wire.jsontext import WireLimits
from gateway.wire.server_message import read_server_message

PROMISED_MS = 40.0
_BYTES = 4 * 1024 * 1024
_LIMITS = WireLimits()
_PATTERN = {"properties": {"a": {"pattern": "[01]*1[01]{1000}x"}}}

_MANY_SIGNS = {"allOf": [{"pattern": rf"\p{{L}}{{200}}{n}"} for n in range(10)]}
_MOST_SIGNS = {"allOf": [{"pattern": f"^.{{1,1000}}{n}$"} for n in range(4)]}
"""As many as are made ready."""


def figures(_: Path) -> Part:
    """Return the longest turn of each hostile input."""
    found = {name: _longest_ms(work) for name, work in _INPUTS.items()}
    return Part(
        title="The event loop's longest turn",
        rows=[(name, f"{longest_ms:.1f} ms") for name, longest_ms in found.items()],
        figures={f"turns.{name}_ms": longest_ms for name, longest_ms in found.items()},
        failures=[
            f"turns.{name}_ms is {longest_ms:.1f}, not at most {PROMISED_MS}"
            for name, longest_ms in found.items()
            if longest_ms > PROMISED_MS
        ],
        limits=["Processor time of the loop's thread in the readers; not of the whole gateway."],
        summary=f"longest turn {max(found.values()):.1f} ms",
    )


def _longest_ms(work: Callable[[], Awaitable[Any]]) -> float:
    async def measured() -> float:
        longest, began = 0.0, time.thread_time()
        task = asyncio.ensure_future(work())
        while not task.done():
            await asyncio.sleep(0)
            now = time.thread_time()
            longest, began = max(longest, now - began), now
        with suppress(GatewayError):
            await task
        return longest * 1000

    return asyncio.run(measured())


_NUMBERS = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"name":[%b]}}' % b",".join(
    [b"1e22"] * (_BYTES // 5)
)
_ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"a":[%b]}}'
_EMPTIES = _ANSWER % b",".join([b"{}"] * (_BYTES // 3))
_MOST_EMPTIES = _ANSWER % b",".join([b"{}"] * (MOST_NODES // 2 - 10))


async def _numbers() -> None:
    await in_turn("turns", weight(_NUMBERS), read_message, _NUMBERS, _LIMITS)


async def _empties() -> None:
    await _answer(_EMPTIES)


async def _most_empties() -> None:
    await _answer(_MOST_EMPTIES)


async def _answer(body: bytes) -> None:
    message = await in_turn("turns", weight(body), read_server_message, body, _LIMITS)
    await in_turn("turns", len(body) // 4, content_label, message.content)


async def _pattern() -> None:
    SchemaCheck(_PATTERN).problems({"a": "01" * 500_000}, 1_000_010)


async def _many_signs() -> None:
    with suppress(UnusableSchema):
        SchemaCheck(_MANY_SIGNS)


async def _most_signs() -> None:
    SchemaCheck(_MOST_SIGNS)


async def _list_for_us() -> None:
    answer = RawAnswer(status=200, headers=(), session=None, body=_MOST_EMPTIES)
    await result_of("turns", answer, "tools/list", "1", _LIMITS)


async def _blank_lines() -> None:
    response = Response(Patience(idle_s=None, until=1e9), hold=lambda _: None, end=lambda: None)
    response.add(b"\n" * 256 * 1024)
    response.finish()
    events = EventStream(
        response, timeouts=Timeouts(), limits=Limits(), server="turns", abandoned=lambda: None
    )
    async for _ in events:
        pass


_INPUTS: dict[str, Callable[[], Awaitable[None]]] = {
    "numbers": _numbers,
    "event_of_empties": _empties,
    "event_of_most_empties": _most_empties,
    "list_for_us": _list_for_us,
    "blank_lines": _blank_lines,
    "schema_pattern": _pattern,
    "schema_of_many_signs": _many_signs,
    "schema_of_most_signs": _most_signs,
}
