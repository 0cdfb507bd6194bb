"""A gateway for one suite, between a recorded agent and recorded tools."""

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from benchmarks.flow.traces import Step, Suite, Trace
from benchmarks.flow.wiring import Lasting, new_pipeline
from gateway.domain.calls import Call, CallId, Form, Message, Permit, RawAnswer
from gateway.domain.identity import BearerToken, Principal
from gateway.domain.tools import Kind, Profile, Target, UpstreamId
from gateway.pipeline.admission import Rules
from gateway.pipeline.schemas import Schemas
from gateway.ports import PolicyEngine
from gateway.storage.memory import MemoryAuditLog, MemoryPinStore
from gateway.wire.jsontext import WireLimits
from gateway.wiring.settings import upstream_settings

BEGIN = 1_800_000_000.0
"""When the first call is made, in seconds since the epoch; each further one a second later."""

_REVISION, _PROFILE = "2026-07-28", Profile.MODERN
_SCOPES = frozenset({"tools:list", "tools:call", "tools:write"})
_JSON = (("content-type", "application/json"),)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one step."""

    step: Step
    code: str | None
    """Of the refusal that the agent got; `None`: it got the recorded result."""
    reasons: tuple[str, ...] = ()
    """Codes of why it was refused."""
    executed: bool
    """Whether the call reached its server."""

    @property
    def is_hold(self) -> bool:
        return self.code == "approval_required"

    @property
    def is_decided(self) -> bool:
        """Whether it ended by a decision, and not because it could not be carried at all."""
        return self.code in {None, "approval_required", "denied"}


class Stage:
    """The tools of a suite, pinned and approved, and the rules that its labels make."""

    def __init__(self, suite: Suite, policy: PolicyEngine, *, declared: bool) -> None:
        """`declared`: the host is trusted to declare the user's task, and does."""
        self._declared = declared
        self._now = BEGIN
        self._ids = itertools.count()
        config = suite.config
        refuse_results = config.pins.results == "refuse"
        self._lasting = Lasting(
            principal=_principal(suite, trusted_host=declared),
            policy=policy,
            rules=_rules(suite),
            pins=MemoryPinStore(clock=self._clock),
            schemas=Schemas(refuse_results=refuse_results),
            wire_limits=WireLimits(json_depth=config.limits.json_depth),
            calls_per_minute=config.limits.calls_per_minute,
            refuse_results=refuse_results,
            clock=self._clock,
            new_id=self._new_id,
        )

    @classmethod
    async def of(cls, suite: Suite, policy: PolicyEngine, *, declared: bool) -> Self:
        """Return the stage of `suite`, with its tools approved."""
        stage = cls(suite, policy, declared=declared)
        keeper = stage._lasting.keeper(MemoryAuditLog())
        for server, tools in suite.tools.items():
            seen = await keeper.compare(UpstreamId(server), _PROFILE, Kind.TOOL, tools, "1")
            for target in seen:
                await stage._approve(target)
        return stage

    async def _approve(self, target: Target) -> None:
        pins = self._lasting.pins
        pin = pins.find(target, _PROFILE)
        if pin is not None:
            expected = str(pin.observed.digest)
            await pins.approve(target, _PROFILE, expected=expected, by="administrator", note="")

    async def replay(self, trace: Trace) -> list[Outcome]:
        """Make every call of `trace`, in order, in a run of its own."""
        tools = RecordedTools()
        pipeline = new_pipeline(self._lasting, tools)
        outcomes = []
        for step in trace.steps:
            self._now += 1
            tools.begin(step)
            reply = await pipeline.handle(self._call(trace, step))
            refusal = _refusal(reply.body if isinstance(reply.body, bytes) else b"{}")
            outcomes.append(
                Outcome(
                    step=step,
                    code=None if refusal is None else str(refusal.get("code", "failed")),
                    reasons=tuple(reason["code"] for reason in (refusal or {}).get("reasons", ())),
                    executed=tools.reached,
                )
            )
        return outcomes

    def _call(self, trace: Trace, step: Step) -> Call:
        params: dict[str, Any] = {"name": step.tool, "arguments": step.arguments}
        if self._declared:
            params["_meta"] = {"douane/task": {"prompt": trace.prompt}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return Call(
            id=CallId(self._new_id()),
            endpoint=f"/mcp/{step.server}",
            server=UpstreamId(step.server),
            message=Message(
                form=Form.REQUEST,
                method="tools/call",
                id=1,
                params=params,
                body=json.dumps(body).encode(),
            ),
            revision=_REVISION,
            profile=_PROFILE,
            headers=_JSON,
            credential=BearerToken(text="t"),
            session=None,
            source_ip="127.0.0.1",
        )

    def _clock(self) -> float:
        return self._now

    def _new_id(self) -> str:
        return f"id{next(self._ids)}"


class RecordedTools:
    """All servers of a trace: whatever is called answers what was recorded of the step."""

    def __init__(self) -> None:
        self._result: Mapping[str, Any] = {}
        self.reached = False
        """Whether a server was called since the step began."""

    def begin(self, step: Step) -> None:
        """Make ready for the call of `step`."""
        self._result = step.result
        self.reached = False

    async def forward(self, permit: Permit) -> RawAnswer:
        self.reached = True
        body = {"jsonrpc": "2.0", "id": permit.call.message.id, "result": self._result}
        return RawAnswer(status=200, headers=_JSON, session=None, body=json.dumps(body).encode())

    async def reject(self, permit: Permit, body: bytes) -> None:
        """Do nothing: recorded tools ask for nothing that could be rejected."""

    def of(self, server: UpstreamId) -> Self:  # noqa: ARG002 - the port's
        return self

    def announce(self, server: UpstreamId, kind: Kind) -> None:
        """Do nothing: recorded definitions do not change."""


def _rules(suite: Suite) -> Rules:
    config = suite.config
    settings = [upstream_settings(*item, config) for item in config.servers.items()]
    return Rules(
        servers={UpstreamId(name): server.rule for name, server in config.servers.items()},
        tenant=config.tenant.value,
        roles={name: frozenset(role.groups) for name, role in config.roles},
        identities={one.server: one.identity for one in settings},
        extensions={one.server: one.extensions for one in settings},
    )


def _principal(suite: Suite, *, trusted_host: bool) -> Principal:
    """Return a user with every scope that calls need: what is refused is refused for its flow."""
    return Principal(
        issuer=suite.config.public_url,
        subject="user",
        client_id="host",
        client_name="Host",
        groups=frozenset(suite.config.roles.user.groups),
        scopes=_SCOPES,
        token_id="t",
        expires_at=BEGIN + 1e9,
        trusted_host=trusted_host,
    )


def _refusal(body: bytes) -> Mapping[str, Any] | None:
    """Return what a reply says of why it is no result; an error may have no code of ours."""
    message = json.loads(body)
    if "result" not in message:
        data: Mapping[str, Any] = (message.get("error") or {}).get("data") or {}
        return data
    found: Mapping[str, Any] | None = (message["result"].get("_meta") or {}).get("douane/refusal")
    return found
