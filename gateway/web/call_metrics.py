"""Counting from outside: the pipeline does not know that it is measured."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from functools import cache
from http import HTTPStatus
from time import perf_counter
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from gateway.domain.calls import Call, Form, Permit, RawAnswer, Reply
from gateway.domain.tools import UpstreamId
from gateway.errors import GatewayError
from gateway.ports import Upstream
from gateway.web.approved_tools import ApprovedTools
from gateway.web.carrier import Carrier
from gateway.web.outcomes import Outcome, outcome_of
from gateway.wire.operations import TOOLS_CALL, own_tool

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_WAITS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
_LISTS = frozenset({"tools/list", "prompts/list", "resources/list", "resources/templates/list"})
_MOST_TOOLS: Final = 2_000
"""Tools with series of their own, three each; the calls of all others count under no name."""
_MOST_APART: Final = 128
"""Calls that are added up together, which takes less than a millisecond."""
_MOST_WAITS: Final = 4 * _MOST_APART
"""Of records, also where no call is carried."""
_OTHER: Final = ""
_INITIALIZE: Final = "initialize"
_COUNTED = _LISTS | {
    _INITIALIZE,
    "server/discover",
    TOOLS_CALL,
    "prompts/get",
    "resources/read",
    "completion/complete",
}


class CallMetrics:
    """The series of calls, of which some are counted on the way of each; see `Metrics`.

    Labels hold names from the configuration, names of tools that a person approved, and closed sets
    only: nothing that a caller or a server could invent, and nobody's name.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._approved: ApprovedTools | None = None
        self._named: set[tuple[UpstreamId, str]] = set()
        self._unread: Callable[[str, str], None] = _nobody
        self.requests = Counter(
            "douane_requests",
            "Messages carried, by method and outcome (ok, or a refusal's code).",
            ["server", "method", "outcome"],
            registry=self._registry,
        )
        self.seconds = Histogram(
            "douane_request_duration_seconds",
            "From the parsed message to the reply's head; a streamed body comes after.",
            ["server", "method"],
            buckets=SECONDS,
            registry=self._registry,
        )
        self.audit_wait = Histogram(
            "douane_audit_wait_seconds",
            "How long a record was waited for until it was durable, in the log or in the spool.",
            ["place"],
            buckets=_WAITS,
            registry=self._registry,
        )
        self.sessions = Counter(
            "douane_session_initializations",
            "Handshakes (initialize and server/discover), by result.",
            ["server", "result"],
            registry=self._registry,
        )
        self.upstream_sessions = Counter(
            "douane_upstream_sessions",
            "Handshakes of the gateway's own with servers, for clients of /mcp, by result.",
            ["server", "result"],
            registry=self._registry,
        )
        self.tool_calls = Counter(
            "douane_tool_calls",
            "Calls of approved tools; ok, refused by the gateway, or failed at the server.",
            ["server", "tool", "outcome"],
            registry=self._registry,
        )
        self.tool_seconds = Histogram(
            "douane_tool_call_duration_seconds",
            "From the parsed call to the last byte of its answer; calls that were refused left out.",
            ["server"],
            buckets=SECONDS,
            registry=self._registry,
        )
        self.refusals = Counter(
            "douane_refusals",
            "Refusals and faults, by code; before a body is parsed under the guard's own codes.",
            ["code"],
            registry=self._registry,
        )
        # Found once for all calls: none of these is ever cleared, and their labels are few.
        self._audit_wait = cache(self.audit_wait.labels)
        self._tool_calls = cache(self.tool_calls.labels)
        self._tool_seconds = cache(self.tool_seconds.labels)
        self._requests_of = cache(self.requests.labels)
        self._seconds_of = cache(self.seconds.labels)
        self._waits: list[tuple[str, float]] = []
        self._carried: list[tuple[UpstreamId, str, str, float]] = []
        self._called: list[tuple[UpstreamId, str, Outcome, float]] = []
        """What is not added up yet: the series of one call are ten locks, and are quicker one after the other."""

    def waited_for_record(self, place: str, seconds: float) -> None:
        """Count that a record was waited for so long until it was durable in `place`."""
        self._waits.append((place, seconds))
        if len(self._waits) >= _MOST_WAITS:
            self.add_up()

    def tell_unread(self, tell: Callable[[str, str], None]) -> None:
        """Have `tell` told of every request that is refused unread: its code and its address."""
        self._unread = tell

    def refused_unread(self, code: str, source_ip: str = "") -> None:
        """Count a request that was refused before it was read."""
        self.refusals.labels(code).inc()
        self._unread(code, source_ip)

    def carried(self, server: UpstreamId, method: str, outcome: str, seconds: float) -> None:
        """Count a message that was carried."""
        self._carried.append((server, method, outcome, seconds))
        if len(self._carried) >= _MOST_APART:
            self.add_up()

    def tool_called(self, call: Call, outcome: Outcome, seconds: float) -> None:
        """Count one whole call of a tool, which was carried."""
        self._called.append((call.server, self._tool(call), outcome, seconds))

    def add_up(self) -> None:
        """Have all that was counted in its series."""
        waits, self._waits = self._waits, []
        for place, seconds in waits:
            self._audit_wait(place).observe(seconds)
        carried, self._carried = self._carried, []
        for server, method, outcome, seconds in carried:
            self._requests_of(server, method, outcome).inc()
            self._seconds_of(server, method).observe(seconds)
        called, self._called = self._called, []
        for server, tool, result, seconds in called:
            self._tool_calls(server, tool, result.value).inc()
            if result is not Outcome.REFUSED:
                self._tool_seconds(server).observe(seconds)

    def _tool(self, call: Call) -> str:
        """Return the name under which a call counts: its tool's, if a person approved that one."""
        name = call.message.params.get("name")
        if not isinstance(name, str):
            return _OTHER
        key = (call.server, name)
        if key not in self._named:
            known = self._approved is not None and self._approved.knows(*key)
            if len(self._named) >= _MOST_TOOLS or not (known or own_tool(call) is not None):
                return _OTHER
            self._named.add(key)
        return name


class Metered:
    """A `Carrier` that counts what passes through another one."""

    def __init__(self, carrier: Carrier, metrics: CallMetrics) -> None:
        self._carrier = carrier
        self._metrics = metrics
        self.known = carrier.known

    async def handle(self, call: Call) -> Reply:
        began = perf_counter()
        reply = await self._carrier.handle(call)
        self._count(call, reply, perf_counter() - began)
        if call.message.method != TOOLS_CALL or call.message.form is not Form.REQUEST:
            return reply
        if isinstance(reply.body, bytes):
            outcome = outcome_of(reply, reply.body)
            self._metrics.tool_called(call, outcome, perf_counter() - began)
            return reply
        return replace(reply, body=self._to_its_end(call, reply, reply.body, began))

    async def _to_its_end(
        self, call: Call, reply: Reply, parts: AsyncGenerator[bytes, None], began: float
    ) -> AsyncGenerator[bytes, None]:
        """Yield the stream's parts, of which the last one is the answer, and count what it was."""
        last = b""
        try:
            async with aclosing(parts):
                async for part in parts:
                    last = part
                    yield part
        finally:
            self._metrics.tool_called(call, outcome_of(reply, last), perf_counter() - began)

    async def refuse(self, call: Call, error: GatewayError) -> Reply:
        reply = await self._carrier.refuse(call, error)
        self._count(call, reply, 0.0)
        return reply

    def _count(self, call: Call, reply: Reply, seconds: float) -> None:
        method = call.message.method if call.message.method in _COUNTED else _other(call)
        outcome = reply.code or (
            "ok" if reply.status < HTTPStatus.BAD_REQUEST else "upstream_error"
        )
        self._metrics.carried(call.server, method, outcome, seconds)
        if method in (_INITIALIZE, "server/discover"):
            result = "success" if outcome == "ok" else "failure"
            self._metrics.sessions.labels(call.server, result).inc()
        if reply.code is not None:
            self._metrics.refusals.labels(reply.code).inc()


class MeteredUpstream:
    """An `Upstream` whose handshakes count."""

    def __init__(self, server: UpstreamId, upstream: Upstream, metrics: CallMetrics) -> None:
        self._server = server
        self._upstream = upstream
        self._sessions = metrics.upstream_sessions

    async def forward(self, permit: Permit) -> RawAnswer:
        if permit.call.message.method != _INITIALIZE:
            return await self._upstream.forward(permit)
        result = "failure"
        try:
            answer = await self._upstream.forward(permit)
            result = "success" if answer.status < HTTPStatus.BAD_REQUEST else "failure"
            return answer
        finally:
            self._sessions.labels(self._server, result).inc()

    async def reject(self, permit: Permit, body: bytes) -> None:
        await self._upstream.reject(permit, body)


def _nobody(code: str, source_ip: str) -> None:
    """Know of no refusal."""


def _other(call: Call) -> str:
    return "other" if call.message.form is Form.REQUEST else call.message.form.value
