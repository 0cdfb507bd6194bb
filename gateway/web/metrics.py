"""Counting from outside: the pipeline does not know that it is measured."""

from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from time import perf_counter

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from gateway.domain.approvals import ApprovalState
from gateway.domain.calls import Call, Form, Reply
from gateway.errors import GatewayError
from gateway.web.carrier import Carrier

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_LISTS = frozenset({"tools/list", "prompts/list", "resources/list", "resources/templates/list"})
_COUNTED = _LISTS | {
    "initialize",
    "server/discover",
    "tools/call",
    "prompts/get",
    "resources/read",
    "completion/complete",
}


class Metrics:
    """Every series of the gateway, in a registry of its own; served on the admin listener.

    Labels hold names from the configuration and closed sets only: no tool, principal or session
    that a caller could invent.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
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
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.sessions = Counter(
            "douane_session_initializations",
            "Handshakes (initialize and server/discover), by result.",
            ["server", "result"],
            registry=self._registry,
        )
        self.refusals = Counter(
            "douane_refusals",
            "Refusals and faults, by code; before a body is parsed under the guard's own codes.",
            ["code"],
            registry=self._registry,
        )
        self.reloads = Counter(
            "douane_policy_reloads",
            "Policy changes, by result.",
            ["result"],
            registry=self._registry,
        )
        self.questions = Gauge(
            "douane_approvals",
            "Questions to people that are kept, by state; `waiting` is what nobody answered yet.",
            ["state"],
            registry=self._registry,
        )
        self.ready = Gauge("douane_ready", "1 while /readyz answers 200.", registry=self._registry)

    def count_questions(self, kept: Callable[[], Mapping[ApprovalState, int]]) -> None:
        """Have the gauge of questions say what `kept` gives, whenever somebody looks."""
        for state in ApprovalState:
            self.questions.labels(state.value).set_function(partial(_count, kept, state))

    def page(self) -> bytes:
        """Return every series in Prometheus' text format."""
        return generate_latest(self._registry)


class Metered:
    """A `Carrier` that counts what passes through another one."""

    def __init__(self, carrier: Carrier, metrics: Metrics) -> None:
        self._carrier = carrier
        self._metrics = metrics

    async def handle(self, call: Call) -> Reply:
        began = perf_counter()
        reply = await self._carrier.handle(call)
        self._count(call, reply, perf_counter() - began)
        return reply

    async def refuse(self, call: Call, error: GatewayError) -> Reply:
        reply = await self._carrier.refuse(call, error)
        self._count(call, reply, 0.0)
        return reply

    def _count(self, call: Call, reply: Reply, seconds: float) -> None:
        method = call.message.method if call.message.method in _COUNTED else _other(call)
        outcome = reply.code or (
            "ok" if reply.status < HTTPStatus.BAD_REQUEST else "upstream_error"
        )
        self._metrics.requests.labels(call.server, method, outcome).inc()
        self._metrics.seconds.labels(call.server, method).observe(seconds)
        if method in ("initialize", "server/discover"):
            result = "success" if outcome == "ok" else "failure"
            self._metrics.sessions.labels(call.server, result).inc()
        if reply.code is not None:
            self._metrics.refusals.labels(reply.code).inc()


def _count(kept: Callable[[], Mapping[ApprovalState, int]], state: ApprovalState) -> float:
    return float(kept().get(state, 0))


def _other(call: Call) -> str:
    return "other" if call.message.form is Form.REQUEST else call.message.form.value
