"""A small working gateway: the real pipeline over stores in memory, between two simulators.

`Server` is an upstream that answers as it is told and remembers what reached it; `Rule` is a policy
engine that answers as it is told and remembers what it was asked.
"""

import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import pytest

from gateway import turns
from gateway.dlp.detector import Detector
from gateway.dlp.values import ValueMemory
from gateway.domain.access_requests import Binding
from gateway.domain.approvals import ApprovalRules
from gateway.domain.calls import (
    Call,
    CallId,
    Form,
    Message,
    Permit,
    RawAnswer,
    Reply,
    ServerEvent,
    may_go_on,
)
from gateway.domain.decisions import Decision, Obligation, Reason, Verdict
from gateway.domain.document import Document
from gateway.domain.epoch import Epoch
from gateway.domain.flow import RunHint
from gateway.domain.identity import Asserted, BearerToken, Credential, Principal
from gateway.domain.labels import (
    Confidentiality,
    Effect,
    Integrity,
    Label,
    ServerRule,
    Tenant,
    ToolRule,
)
from gateway.domain.tools import Kind, Manifest, Pinned, Profile, Sighting, Target, UpstreamId
from gateway.errors import Stopped, Unauthenticated
from gateway.pipeline import Pipeline
from gateway.pipeline.access_requests import AccessRequests
from gateway.pipeline.admission import Admission
from gateway.pipeline.approvals import Approvals
from gateway.pipeline.begun import BegunRuns
from gateway.pipeline.conversations import Conversations
from gateway.pipeline.debts import Debts, Indebted
from gateway.pipeline.decision_point import DecisionPoint
from gateway.pipeline.duties import Duties
from gateway.pipeline.grants import Grants
from gateway.pipeline.greetings import Greetings
from gateway.pipeline.keeper import PinKeeper
from gateway.pipeline.labels import Labeller
from gateway.pipeline.late import LateBeginnings, LateLimits
from gateway.pipeline.late_answers import LateAnswers
from gateway.pipeline.late_ends import LateEnds
from gateway.pipeline.late_exchange import LateExchange
from gateway.pipeline.late_handles import LateHandles
from gateway.pipeline.late_requests import LateRequests
from gateway.pipeline.limits import CallLimits
from gateway.pipeline.lists import ListFilter
from gateway.pipeline.memory import ProvenanceMemory
from gateway.pipeline.plane_calls import EVALUATION, profiled
from gateway.pipeline.plane_limits import PlaneLimits
from gateway.pipeline.plane_permits import PlanePermits
from gateway.pipeline.plane_records import PlaneRecords
from gateway.pipeline.plane_results import PlaneResults
from gateway.pipeline.plane_traffic import PlaneTraffic
from gateway.pipeline.prompts import Prompts
from gateway.pipeline.quotas import Quotas
from gateway.pipeline.release import Release
from gateway.pipeline.rules import Rules
from gateway.pipeline.schemas import Schemas
from gateway.pipeline.selections import Selections
from gateway.pipeline.sensitive import Sensitive
from gateway.pipeline.serverside import ServerRequests
from gateway.pipeline.sessions import Sessions
from gateway.pipeline.streams import StreamRelay
from gateway.pipeline.submissions import Submissions
from gateway.pipeline.visibility import Visibility
from gateway.policy.stopping import Stoppable
from gateway.ports import RunStore
from gateway.ports.descriptions import DescriptionGate
from gateway.storage.claims import ProcessClaims
from gateway.storage.ledger import Memory
from gateway.storage.own_sessions import MemorySessionStore
from gateway.turns import Turns
from gateway.wire.jsontext import WireLimits
from gateway.wire.session import seal
from tests.storage.memory import MemoryAuditLog, MemoryLedger, MemoryPinStore, MemoryRunStore
from tests.storage.memory_calls import MemoryDebts, MemoryLateCalls, MemoryScriptStore
from tests.storage.memory_people import MemoryApprovalStore, MemoryChoices, MemoryStandingAnswers

MAIL = UpstreamId("mail")
KEY = b"k" * 32
TRUSTED = Label(integrity=Integrity.TRUSTED, confidentiality=Confidentiality.INTERNAL)
PRIVATE = Label(integrity=Integrity.UNTRUSTED, confidentiality=Confidentiality.PRIVATE)

UNHINTED = RunHint()

ALICE = Principal(
    issuer="https://gateway.example",
    subject="alice",
    client_id="agent",
    client_name="Agent",
    groups=frozenset({"users"}),
    scopes=frozenset({"tools:list", "tools:call", "tools:write", "prompts", "resources"}),
    token_id="t1",
    expires_at=2e9,
    people=0,
)

TOOLS: dict[str, dict[str, Any]] = {
    "search": {
        "name": "search",
        "description": "Search the mail.",
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
    },
    "send": {"name": "send", "description": "Send mail.", "inputSchema": {"type": "object"}},
}

Answer = Callable[[Permit], RawAnswer]


def result(permit: Permit, content: Mapping[str, Any], **more: Any) -> RawAnswer:
    """Answer the permit's request with a JSON result."""
    body = {"jsonrpc": "2.0", "id": permit.call.message.id, "result": content}
    return whole(json.dumps(body).encode(), **more)


def whole(body: bytes, *, status: int = 200, session: str | None = None) -> RawAnswer:
    headers = (("content-type", "application/json"),)
    return RawAnswer(status=status, headers=headers, session=session, body=body)


def text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


def event(message: Mapping[str, Any]) -> ServerEvent:
    data = json.dumps(message).encode()
    return ServerEvent(raw=b"data: " + data + b"\n\n", data=data)


DETECTOR = Detector()


@dataclass
class Events:
    """A stream of events that a test can watch being read and closed."""

    events: Sequence[ServerEvent | Exception]
    taken: int = 0
    closed: bool = False

    def __aiter__(self) -> AsyncIterator[ServerEvent]:
        return self

    async def __anext__(self) -> ServerEvent:
        if self.taken == len(self.events):
            raise StopAsyncIteration
        self.taken += 1
        found = self.events[self.taken - 1]
        if isinstance(found, Exception):
            raise found
        return found

    async def aclose(self) -> None:
        self.closed = True

    def answer(self) -> RawAnswer:
        headers = (("content-type", "text/event-stream"),)
        return RawAnswer(status=200, headers=headers, session=None, body=self)


@dataclass
class Server:
    """An upstream."""

    answer: Answer = lambda permit: result(permit, text("hello"))
    saw: list[Permit] = field(default_factory=list)
    rejected: list[Any] = field(default_factory=list)
    announced: list[Kind] = field(default_factory=list)

    async def forward(self, permit: Permit) -> RawAnswer:
        self.saw.append(permit)
        return self.answer(permit)

    async def reject(self, permit: Permit, body: bytes) -> None:
        self.rejected.append(json.loads(body))

    def of(self, server: UpstreamId) -> "Server":
        return self

    def announce(self, server: UpstreamId, kind: Kind) -> None:
        self.announced.append(kind)


Says = Callable[[Mapping[str, Any]], Verdict | Decision]
_DIGEST = "sha256:policy"


def decision(verdict: Verdict, *reasons: str, obligations: Sequence[Obligation] = ()) -> Decision:
    return Decision(
        id="d_policy",
        verdict=verdict,
        reasons=tuple(Reason(code=code, message=code) for code in reasons),
        obligations=tuple(obligations),
        policy_digest=_DIGEST,
    )


@dataclass
class Rule:
    """A policy engine. Its digest is its name: under another one it is another policy."""

    says: Says = lambda question: Verdict.ALLOW
    pin: str = "hold"
    themselves: Callable[[Mapping[str, Any]], bool] = lambda question: False
    asked: list[Mapping[str, Any]] = field(default_factory=list)
    digest: str = _DIGEST
    epoch: Epoch = field(default_factory=Epoch)

    def __setattr__(self, name: str, content: Any) -> None:
        super().__setattr__(name, content)
        if name == "digest" and hasattr(self, "epoch"):
            self.epoch.turn()

    async def evaluate(self, question: Mapping[str, Any]) -> Decision:
        self.asked.append(question)
        digest, said = self.digest, self.says(question)
        if not isinstance(said, Decision):
            said = decision(said, *([] if said is Verdict.ALLOW else ["because"]))
        return replace(said, policy_digest=digest) if said.policy_digest == _DIGEST else said

    async def evaluate_many(self, questions: Sequence[Mapping[str, Any]]) -> Sequence[Decision]:
        return [await self.evaluate(question) for question in questions]

    def holds(self, digest: str) -> bool:
        return digest == self.digest

    async def judge_pin(self, question: Mapping[str, Any]) -> str:
        return self.pin

    async def pin_approvals(self, question: Mapping[str, Any]) -> int:
        return 1

    async def self_approval(self, question: Mapping[str, Any]) -> bool:
        return self.themselves(question)


class Fresh:
    """Catalogs that are recent enough, unless a test says what is to be done first."""

    def __init__(self) -> None:
        self.asked: list[tuple[UpstreamId, Profile, Kind, Principal]] = []
        self.first: Callable[[], Awaitable[None]] | None = None
        self.apart: Collection[str] = ()
        """Names under which a list shows something else than what is in force."""

    async def refresh(
        self, server: UpstreamId, profile: Profile, kind: Kind, principal: Principal
    ) -> Collection[str]:
        self.asked.append((server, profile, kind, principal))
        if self.first is not None:
            await self.first()
        return self.apart


class EverythingRead:
    """A description gate that lets everything through, but for what a test puts in its place."""

    def __init__(self) -> None:
        self.gate: DescriptionGate | None = None

    async def require_read(self, call: Call, principal: Principal, pinned: Pinned) -> None:
        if self.gate is not None:
            await self.gate.require_read(call, principal, pinned)


@dataclass
class Gate:
    """Knows every principal by the token that is its subject."""

    people: dict[str, Principal] = field(default_factory=lambda: {"alice": ALICE})

    async def authenticate(self, credential: Credential, endpoint: str) -> Principal:
        if credential is None or credential.text not in self.people:
            raise Unauthenticated("an access token is required")
        return self.people[credential.text]


class SaidByPlanes:
    """Takes a plane's word for it that it is Alice, or anybody else."""

    said: Asserted | None = None
    """What a plane said last."""
    whom: Principal = ALICE
    """Who is behind whatever it says."""
    unregistered: Collection[UpstreamId] = ()
    """Servers that no client is registered for."""

    async def authenticate(self, credential: Credential, endpoint: str) -> Principal:
        assert endpoint == EVALUATION or endpoint.startswith(
            ("/planes/", "/envoy.", "/agentgateway.")
        )
        assert isinstance(credential, Asserted)
        if credential.server in self.unregistered:
            raise Unauthenticated("the client may not use this server")
        self.said = credential
        return replace(self.whom, subject=credential.subject, client_id=credential.client_id)


class Bindings:
    """Tokens of refusals that say nothing, but for whoever gave them."""

    def __init__(self) -> None:
        self._sealed: list[Binding] = []

    def seal(self, binding: Binding) -> str:
        self._sealed.append(binding)
        return f"b_{len(self._sealed) - 1}"

    def open(self, text: str) -> Binding | None:
        number = text.removeprefix("b_")
        known = number.isdecimal() and int(number) < len(self._sealed)
        return self._sealed[int(number)] if known else None


class House:
    """Everything, wired as in production but for the two simulators and the memory."""

    def __init__(
        self,
        *,
        tools: Mapping[str, ToolRule] | None = None,
        default: Label = TRUSTED,
        tenant: Tenant | None = None,
        runs: RunStore | None = None,
        refuse_results: bool = False,
        extensions: frozenset[str] = frozenset(),
        always_on: Collection[UpstreamId] = (),
    ) -> None:
        self.identities = {MAIL: "https://mail.example:443/mcp"}
        self.portable: dict[UpstreamId, tuple[str, ...]] = {}
        """Hosts that are to be able to take a server's schemas."""
        self.refuse_results = refuse_results
        self.schemas = Schemas(refuse_results=refuse_results)
        self.now = 1_800_000_000.0
        self.server = Server()
        self.epoch = Epoch()
        self.people = ALICE.people or 0
        self.rule = Rule(epoch=self.epoch)
        self.stopped = False
        self.gate = Gate()
        self.audit = MemoryAuditLog()
        self.pins = MemoryPinStore(clock=self.clock, epoch=self.epoch)
        self.approvals = MemoryApprovalStore()
        self.answers = MemoryStandingAnswers()
        self.scripts = MemoryScriptStore()
        self.late = MemoryLateCalls(most_open=3)
        self.late_handles = LateHandles(self.late, (KEY,), self.clock)
        self.runs = cast("Any", runs or MemoryRunStore())
        self.memory = ProvenanceMemory(self.runs.find)
        self.conversations = Conversations()
        self.choices = MemoryChoices()
        self.selections = Selections(self.choices, always_on=frozenset(always_on))
        self.descriptions = EverythingRead()
        self.seal_key = KEY
        self.former_seal_key: bytes | None = None
        self.kept = MemorySessionStore(KEY)
        """Which sessions have ended."""
        self.limits = CallLimits(calls_per_minute=1000, clock=self.clock)
        self.quotas = Quotas([], prices={}, clock=self.clock)
        self.detector = DETECTOR
        counted = itertools.count(1)
        self.values = ValueMemory(lambda _: next(counted))
        self.catalogs = Fresh()
        self.rules = Rules(
            servers={MAIL: ServerRule(default=default, tools=dict(tools or {}))},
            tenant=tenant or Tenant(),
            roles={"user": frozenset({"users"})},
            identities=self.identities,
            extensions={MAIL: extensions},
        )
        self.plane_gate = SaidByPlanes()
        self.submitting: set[str] = set()
        """Planes that submit what is refused."""
        self.bindings = Bindings()
        self.owed = MemoryDebts(self.audit.records)
        self.debts = Debts(self.owed, runs=self.runs, audit=self.audit, clock=self.clock)
        """What planes owe."""
        self._ids = itertools.count()
        self.pipeline = self._wired()

    def clock(self) -> float:
        return self.now

    def new_id(self) -> str:
        return f"id{next(self._ids)}"

    def require_going(self) -> None:
        if self.stopped:
            raise Stopped("an operator has stopped all calls")

    def _wired(self) -> Pipeline:
        shared: dict[str, Any] = {"clock": self.clock, "new_id": self.new_id}
        policy = Stoppable(self.rule, require_none=self.require_going, holds=lambda: self.stopped)
        self.keeper = PinKeeper(
            pins=self.pins,
            policy=self.rule,
            audit=self.audit,
            identities=self.identities,
            **shared,
        )
        self.ledger = MemoryLedger(
            self.audit,
            Memory(
                runs=self.runs,
                pins=self.pins,
                answers=self.approvals,
                standing=self.answers,
                policy=policy,
                people=lambda: self.people,
                clock=self.clock,
            ),
            approvals=self.approvals,
            scripts=self.scripts,
        )
        visibility = Visibility(policy=policy, servers=self.rules.servers, clock=self.clock)
        runs = Indebted(self.runs, self.debts)
        labels = Labeller(runs=runs, rules=self.rules)
        sensitive = self.sensitive = Sensitive(self.detector, self.values)
        duties = Duties(policy=policy, labels=labels, limits=self.limits, sensitive=sensitive)
        requests = ServerRequests(
            policy=policy,
            pins=self.pins,
            rules=self.rules,
            labels=labels,
            memory=self.memory,
            duties=duties,
            audit=self.audit,
            **shared,
        )
        lists = ListFilter(
            keeper=self.keeper,
            pins=self.pins,
            visibility=visibility,
            identities=self.identities,
            portable=self.portable,
        )
        beginnings = LateBeginnings(
            store=self.late,
            rules=self.rules,
            limits=LateLimits(longest_s=86_400.0, poll_s=1.0),
            seal_key=KEY,
            **shared,
        )
        self.claims = ProcessClaims(clock=self.clock)
        self.ends = LateEnds(store=self.late, audit=self.audit, claims=self.claims, **shared)
        release = Release(
            rules=self.rules,
            lists=lists,
            greetings=Greetings(pins=self.pins, rules=self.rules, lists=lists),
            labels=labels,
            memory=self.memory,
            requests=requests,
            duties=duties,
            schemas=self.schemas,
            prompts=Prompts(pins=self.pins, refuse_results=self.refuse_results),
            beginnings=beginnings,
            seal_key=KEY,
        )
        sessions = Sessions(self.kept, is_over=lambda _: False)
        streams = StreamRelay(
            release=release,
            requests=requests,
            labels=labels,
            conversations=self.conversations,
            upstreams=self.server,
            audit=self.audit,
            limits=WireLimits(),
            sessions=sessions,
            require_going=self.require_going,
        )
        people = Approvals(
            store=self.approvals,
            policy=policy,
            audit=self.audit,
            rules=ApprovalRules(),
            pages_at="https://gateway.example",
            issuer="https://gateway.example",
            seal_key=KEY,
            submitting=self.submitting,
            **shared,
        )
        admitting = partial(
            Admission,
            runs=runs,
            pins=self.pins,
            catalogs=self.catalogs,
            policy=policy,
            answers=self.answers,
            approvals=people,
            grants=Grants(scripts=self.scripts, policy=policy, clock=self.clock),
            visibility=visibility,
            selections=self.selections,
            descriptions=self.descriptions,
            rules=self.rules,
            memory=self.memory,
            conversations=self.conversations,
            limits=self.limits,
            quotas=self.quotas,
            sensitive=sensitive,
            schemas=self.schemas,
            epoch=self.epoch,
            seal_key=self.seal_key,
            former_seal_key=self.former_seal_key,
            clock=self.clock,
            sessions=sessions,
            require_going=self.require_going,
            rights=None,
            require_still=may_go_on,
        )
        admission = admitting(authenticator=self.gate)
        late = LateRequests(
            admission=admission,
            beginnings=beginnings,
            answers=LateAnswers(
                store=self.late,
                ends=self.ends,
                release=release,
                requests=requests,
                labels=labels,
                rules=self.rules,
                pins=self.pins,
                catalogs=self.catalogs,
                seal_key=KEY,
                **shared,
            ),
            release=release,
            store=self.late,
            pins=self.pins,
            exchange=LateExchange(
                admission=admission,
                upstreams=self.server,
                ledger=self.ledger,
                limits=WireLimits(),
            ),
            audit=self.audit,
            handles=self.late_handles,
            clock=self.clock,
        )
        asked = admitting(authenticator=self.plane_gate)
        self.submissions = Submissions(
            store=self.approvals,
            tokens=self.bindings,
            endpoint="https://gateway.example/access/v1/requests",
            seal_key=KEY,
            clock=self.clock,
        )
        self.requests = AccessRequests(
            admission=asked,
            approvals=people,
            submissions=self.submissions,
            store=self.approvals,
            audit=self.audit,
            profiled=partial(profiled, self.pins),
            **shared,
        )
        possible = PlaneLimits(
            visibility=visibility,
            pins=self.pins,
            catalogs=self.catalogs,
            identities=self.identities,
        )
        results = PlaneResults(
            admission=asked,
            release=release,
            labels=labels,
            debts=self.debts,
            audit=self.audit,
            limits=WireLimits(),
        )
        for_planes: dict[str, Any] = {
            "permits": PlanePermits(
                admission=asked,
                possible=possible,
                labels=labels,
                debts=self.debts,
                ledger=self.ledger,
            ),
            "results": results,
            "debts": self.debts,
            "records": PlaneRecords(self.audit, **shared),
        }
        self.traffic = PlaneTraffic(**for_planes, seal_key=KEY)
        self.decisions = DecisionPoint(
            admission=asked,
            requests=self.requests,
            possible=possible,
            pins=self.pins,
            runs=runs,
            servers=self.rules.servers,
            **for_planes,
        )
        return Pipeline(
            late=late,
            admission=admission,
            release=release,
            streams=streams,
            labels=labels,
            begun=BegunRuns(
                admission=admission, runs=self.runs, audit=self.audit, idle_s=self.runs.idle_s
            ),
            upstreams=self.server,
            audit=self.audit,
            ledger=self.ledger,
            challenge=lambda endpoint: (f"https://gateway.example/meta{endpoint}", ("tools:call",)),
            seal_key=KEY,
            limits=WireLimits(),
            **shared,
        )

    async def show(
        self,
        *definitions: Mapping[str, Any],
        kind: Kind = Kind.TOOL,
        profile: Profile = Profile.MODERN,
    ) -> None:
        """Let the upstream be seen with these definitions."""
        await self.keeper.compare(MAIL, profile, kind, list(definitions), "1.0")

    async def approve(self, kind: Kind, name: str, profile: Profile = Profile.MODERN) -> None:
        """Approve what was last seen, as a person does."""
        target = Target(server=MAIL, kind=kind, name=name)
        pin = self.pins.find(target, profile)
        assert pin is not None
        expected = str(pin.observed.digest)
        await self.pins.approve(target, profile, expected=expected, by="bob", note="")

    async def approve_all(self, profile: Profile = Profile.MODERN) -> None:
        """Show and approve the tools and the server itself."""
        await self.show(*TOOLS.values(), profile=profile)
        await self.show(
            {"name": "mail", "instructions": "Be kind."}, kind=Kind.SERVER, profile=profile
        )
        for name in TOOLS:
            await self.approve(Kind.TOOL, name, profile)
        await self.approve(Kind.SERVER, MAIL, profile)

    def call(
        self,
        tool: str = "search",
        arguments: Mapping[str, Any] | None = None,
        *,
        who: str | None = "alice",
        profile: Profile = Profile.MODERN,
        **more: Any,
    ) -> Call:
        """Make a tools/call."""
        params = {"name": tool, "arguments": arguments or {}, **more}
        return self.request("tools/call", params, who=who, profile=profile)

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        who: str | None = "alice",
        profile: Profile = Profile.MODERN,
        form: Form = Form.REQUEST,
        session: str | None = None,
        id_: str | int | None = 1,
        endpoint: str = "/mcp/mail",
        run: str | None = None,
    ) -> Call:
        """Make a call as the web does; `session` is the upstream's own id, sealed here for `who`."""
        sealed = None
        if session is not None and who is not None:
            sealed = seal(KEY, MAIL, self.gate.people[who].key, session)
        body = {"jsonrpc": "2.0", "id": id_, "method": method, "params": dict(params or {})}
        return Call(
            id=CallId(self.new_id()),
            endpoint=endpoint,
            server=MAIL,
            message=Message(
                form=form,
                method=method,
                id=id_,
                params=params or {},
                body=json.dumps(body).encode(),
            ),
            revision="2026-07-28" if profile is Profile.MODERN else "2025-11-25",
            profile=profile,
            headers=(("content-type", "application/json"),),
            credential=None if who is None else BearerToken(text=who),
            session=sealed,
            source_ip="127.0.0.1",
            asker=self.gate.people[who].person if who in self.gate.people else "",
            run_hint=run,
        )

    async def handle(self, call: Call) -> "Seen":
        """Carry a call, and read its reply to the end."""
        return await Seen.of(await self.pipeline.handle(call))

    def kinds(self) -> list[str]:
        """Return the kinds of the calls' records, in order."""
        return [r.kind.value for r in self.audit.records if r.kind.value != "pin"]

    @property
    def last(self) -> Mapping[str, Any]:
        """The fields of the newest record."""
        return self.audit.records[-1].fields


def noting_whose(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Note whose turns are taken."""
    noted: set[str] = set()

    class Noting(Turns):
        async def finish(self, who: str, work: Callable[..., Any], *args: Any) -> Any:
            noted.add(who)
            return await super().finish(who, work, *args)

    monkeypatch.setattr(turns, "_TURNS", Noting())
    return noted


@dataclass(frozen=True)
class Seen:
    """What a caller got."""

    reply: Reply
    parts: tuple[bytes, ...]

    @classmethod
    async def of(cls, reply: Reply) -> "Seen":
        if isinstance(reply.body, bytes):
            return cls(reply, (reply.body,))
        return cls(reply, tuple([part async for part in reply.body if part]))

    @property
    def bytes(self) -> bytes:
        return b"".join(self.parts)

    @property
    def json(self) -> Any:
        """The one message of a whole body."""
        return json.loads(self.bytes)

    @property
    def messages(self) -> list[Any]:
        """The messages of a stream."""
        return [
            json.loads(line[6:])
            for part in self.parts
            for line in part.splitlines()
            if line.startswith(b"data: ")
        ]

    @property
    def code(self) -> str | None:
        """The refusal's code, from wherever the contract puts it."""
        message = self.json
        if "error" in message:
            return (message["error"].get("data") or {}).get("code")
        meta = message["result"].get("_meta") or {}
        return (meta.get("douane/refusal") or {}).get("code")


def manifest(definition: Mapping[str, Any], profile: Profile = Profile.MODERN) -> Sighting:
    target = Target(server=MAIL, kind=Kind.TOOL, name=definition["name"])
    found = Manifest(target=target, profile=profile, definition=Document.of(dict(definition)))
    return Sighting(manifest=found, seen_at=0.0)


READ = ToolRule(effect=Effect.READ)
