"""The production pipeline, wired as a gateway wires it, over stores that forget at the end."""

from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.domain.identity import Credential, Principal
from gateway.domain.tools import Kind, Profile, UpstreamId
from gateway.pipeline import Pipeline
from gateway.pipeline.admission import Admission, Rules
from gateway.pipeline.conversations import Conversations
from gateway.pipeline.keeper import PinKeeper
from gateway.pipeline.labels import Labeller
from gateway.pipeline.limits import CallLimits
from gateway.pipeline.lists import ListFilter
from gateway.pipeline.memory import ProvenanceMemory
from gateway.pipeline.prompts import Prompts
from gateway.pipeline.release import Release
from gateway.pipeline.schemas import Schemas
from gateway.pipeline.serverside import ServerRequests
from gateway.pipeline.streams import StreamRelay
from gateway.pipeline.visibility import Visibility
from gateway.ports import Clock, PolicyEngine, UpstreamDirectory
from gateway.storage.memory import MemoryAuditLog, MemoryPinStore, MemoryRunStore
from gateway.wire.jsontext import WireLimits

_SEAL_KEY = bytes(32)


@dataclass(frozen=True, kw_only=True)
class Lasting:
    """What stays while one trace after the other is replayed."""

    principal: Principal
    """Whoever calls: every credential is this one's."""
    policy: PolicyEngine
    rules: Rules
    pins: MemoryPinStore
    schemas: Schemas
    wire_limits: WireLimits
    calls_per_minute: int
    refuse_results: bool
    clock: Clock
    new_id: Callable[[], str]

    def keeper(self, audit: MemoryAuditLog) -> PinKeeper:
        """Return what takes note of definitions."""
        return PinKeeper(
            pins=self.pins,
            policy=self.policy,
            audit=audit,
            clock=self.clock,
            new_id=self.new_id,
            identities=self.rules.identities,
        )


@dataclass(frozen=True, kw_only=True)
class _Stores:
    """What a run fills."""

    audit: MemoryAuditLog = field(default_factory=MemoryAuditLog)
    runs: MemoryRunStore = field(default_factory=MemoryRunStore)
    memory: ProvenanceMemory = field(default_factory=ProvenanceMemory)
    conversations: Conversations = field(default_factory=Conversations)


def new_pipeline(lasting: Lasting, upstreams: UpstreamDirectory) -> Pipeline:
    """Return a pipeline that has seen nothing yet."""
    stores = _Stores()
    visibility = Visibility(
        policy=lasting.policy, servers=lasting.rules.servers, clock=lasting.clock
    )
    labels = Labeller(runs=stores.runs, rules=lasting.rules)
    requests = ServerRequests(
        policy=lasting.policy,
        pins=lasting.pins,
        rules=lasting.rules,
        labels=labels,
        audit=stores.audit,
        clock=lasting.clock,
        new_id=lasting.new_id,
    )
    release = _release(lasting, stores, visibility, labels, requests)
    streams = StreamRelay(
        release=release,
        requests=requests,
        labels=labels,
        conversations=stores.conversations,
        upstreams=upstreams,
        audit=stores.audit,
        limits=lasting.wire_limits,
    )
    return Pipeline(
        admission=_admission(lasting, stores, visibility),
        release=release,
        streams=streams,
        labels=labels,
        runs=stores.runs,
        upstreams=upstreams,
        audit=stores.audit,
        challenge=lambda endpoint: (f"{lasting.principal.issuer}{endpoint}", ()),
        seal_key=_SEAL_KEY,
        limits=lasting.wire_limits,
        clock=lasting.clock,
        new_id=lasting.new_id,
    )


def _release(
    lasting: Lasting,
    stores: _Stores,
    visibility: Visibility,
    labels: Labeller,
    requests: ServerRequests,
) -> Release:
    lists = ListFilter(
        keeper=lasting.keeper(stores.audit),
        pins=lasting.pins,
        visibility=visibility,
        identities=lasting.rules.identities,
    )
    return Release(
        policy=lasting.policy,
        pins=lasting.pins,
        rules=lasting.rules,
        lists=lists,
        labels=labels,
        memory=stores.memory,
        requests=requests,
        schemas=lasting.schemas,
        prompts=Prompts(pins=lasting.pins, refuse_results=lasting.refuse_results),
    )


def _admission(lasting: Lasting, stores: _Stores, visibility: Visibility) -> Admission:
    return Admission(
        authenticator=_Gate(lasting.principal),
        runs=stores.runs,
        pins=lasting.pins,
        catalogs=_Fresh(),
        policy=lasting.policy,
        visibility=visibility,
        rules=lasting.rules,
        memory=stores.memory,
        conversations=stores.conversations,
        limits=CallLimits(calls_per_minute=lasting.calls_per_minute, clock=lasting.clock),
        schemas=lasting.schemas,
        seal_key=_SEAL_KEY,
        clock=lasting.clock,
    )


class _Fresh:
    """Catalogs that are recent enough."""

    async def refresh(self, server: UpstreamId, profile: Profile, kind: Kind) -> None:
        """Do nothing: what is recorded does not change."""


class _Gate:
    """Knows one principal."""

    def __init__(self, principal: Principal) -> None:
        self._principal = principal

    async def authenticate(self, credential: Credential, endpoint: str) -> Principal:  # noqa: ARG002 - the port's
        return self._principal
