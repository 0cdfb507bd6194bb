"""Everything that a reload replaces: policy, upstreams, rules and the pipeline over them."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, MutableMapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from gateway.builtin.aggregate import Aggregate
from gateway.builtin.discovery import Discovery
from gateway.builtin.offers import Offers
from gateway.builtin.server import OwnServer
from gateway.builtin.shelf import Shelf
from gateway.config import Config
from gateway.domain._value import value
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.tools import OWN, UpstreamId
from gateway.errors import AuditUnavailable
from gateway.oauth.resources import Resources
from gateway.pipeline import Pipeline
from gateway.pipeline.admission import Admission, Rules
from gateway.pipeline.approvals import Approvals
from gateway.pipeline.begun import BegunRuns
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
from gateway.policy.reload import PolicyHolder, load
from gateway.policy.settings import PolicyEvent
from gateway.ports import ApprovalStore, Upstream
from gateway.search.catalog import Catalog
from gateway.search.finder import Finder
from gateway.storage.store import Store
from gateway.upstream.crawler import Crawler
from gateway.upstream.directory import Directory
from gateway.upstream.http import HttpUpstream
from gateway.upstream.own_client import OwnClient
from gateway.upstream.settings import LocalSettings, UpstreamSettings
from gateway.upstream.stdio import StdioUpstream
from gateway.web.metrics import Metered, Metrics
from gateway.web.peers import client_address
from gateway.wire.jsontext import WireLimits
from gateway.wiring.authorization import Authorization, authorization
from gateway.wiring.foundation import new_id, now
from gateway.wiring.identity import Identity
from gateway.wiring.settings import policy_data, policy_settings
from gateway.wiring.standing import Standing
from gateway.wiring.upstreams import upstreams_of

logger = logging.getLogger(__name__)


@value
class Runtime:
    """One configuration in force."""

    config: Config
    authorization: Authorization
    policy: PolicyHolder
    crawler: Crawler
    keeper: PinKeeper
    pipeline: Pipeline
    aggregate: Aggregate


@value
class Carried:
    """What outlives a reload although it is only in memory: what runs have seen, what is open."""

    memory: ProvenanceMemory
    conversations: Conversations
    limits: CallLimits


@asynccontextmanager
async def runtime(
    config: Config, identity: Identity, lasting: Standing, metrics: Metrics, carried: Carried
) -> AsyncIterator[Runtime]:
    """Build a runtime for `config`, and take it down again.

    Raises:
        ConfigError: The policy cannot be used.

    """
    store = identity.store
    async with AsyncExitStack() as stack:
        reporter = PolicyReporter(store, metrics)
        policy = await load(
            policy_settings(config), policy_data(config), on_change=reporter, clock=now
        )
        stack.push_async_callback(policy.close)
        stack.push_async_callback(reporter.settle)
        await reporter.settle()
        settings = await upstreams_of(config)
        keeper = PinKeeper(
            pins=store.pins,
            policy=policy,
            audit=store.audit,
            clock=now,
            new_id=new_id,
            identities={one.server: one.identity for one in settings},
            exclude_meta=frozenset(config.pins.exclude_meta),
        )
        crawler = Crawler(
            settings,
            sink=keeper,
            clock=now,
            recheck_s=config.pins.recheck,
            fresh_s=config.pins.fresh,
        )
        stack.push_async_callback(crawler.aclose)
        resources = Resources.of(public_url=config.public_url, servers=config.servers)
        who = await stack.enter_async_context(
            authorization(
                config, identity, resources, client_address(config.trusted_proxies), lasting=lasting
            )
        )
        upstreams = {
            one.server: StdioUpstream(one)
            if isinstance(one, LocalSettings)
            else HttpUpstream(one, who.broker if one.per_person else None)
            for one in settings
        }
        for upstream in upstreams.values():
            stack.push_async_callback(upstream.aclose)
        catalog = Catalog(Finder())
        stack.callback(catalog.close)
        levels: dict[str, str] = {}
        clients = {
            one.server: OwnClient(
                one.server,
                upstreams[one.server],
                wire=one.limits.wire,
                levels=levels,
                apart=not isinstance(one, LocalSettings),
            )
            for one in settings
        }
        for client in clients.values():
            stack.push_async_callback(client.aclose)
        pipeline, aggregate = _pipelines(
            config=config,
            settings=settings,
            store=store,
            approvals=lasting.approvals,
            who=who,
            policy=policy,
            keeper=keeper,
            crawler=crawler,
            upstreams=upstreams,
            clients=clients,
            levels=levels,
            catalog=catalog,
            carried=carried,
            metrics=metrics,
        )
        yield Runtime(
            config=config,
            authorization=who,
            policy=policy,
            crawler=crawler,
            keeper=keeper,
            pipeline=pipeline,
            aggregate=aggregate,
        )


def _pipelines(
    *,
    config: Config,
    settings: Sequence[UpstreamSettings | LocalSettings],
    store: Store,
    approvals: ApprovalStore,
    who: Authorization,
    policy: PolicyHolder,
    keeper: PinKeeper,
    crawler: Crawler,
    upstreams: Mapping[UpstreamId, Upstream],
    clients: Mapping[UpstreamId, Upstream],
    levels: MutableMapping[str, str],
    catalog: Catalog,
    carried: Carried,
    metrics: Metrics,
) -> tuple[Pipeline, Aggregate]:
    """Return the one path twice: to servers as they are, and through clients of our own."""
    wire_limits = WireLimits(json_depth=config.limits.json_depth)
    schemas = Schemas(refuse_results=config.pins.results == "refuse")
    rules = Rules(
        servers={UpstreamId(name): server.rule for name, server in config.servers.items()},
        tenant=config.tenant.value,
        roles={name: frozenset(role.groups) for name, role in config.roles},
        identities={one.server: one.identity for one in settings},
        extensions={one.server: one.extensions for one in settings},
        per_person=frozenset(one.server for one in settings if one.per_person),
    )
    visibility = Visibility(policy=policy, servers=rules.servers, clock=now)
    labels = Labeller(runs=store.runs, rules=rules)
    requests = ServerRequests(
        policy=policy,
        pins=store.pins,
        rules=rules,
        labels=labels,
        audit=store.audit,
        clock=now,
        new_id=new_id,
    )
    release = Release(
        policy=policy,
        pins=store.pins,
        rules=rules,
        lists=ListFilter(
            keeper=keeper, pins=store.pins, visibility=visibility, identities=rules.identities
        ),
        labels=labels,
        memory=carried.memory,
        requests=requests,
        schemas=schemas,
        prompts=Prompts(pins=store.pins, refuse_results=config.pins.results == "refuse"),
    )
    admission = Admission(
        authenticator=who.authenticator,
        runs=store.runs,
        pins=store.pins,
        catalogs=crawler,
        policy=policy,
        approvals=Approvals(
            store=approvals,
            policy=policy,
            audit=store.audit,
            rules=config.approvals.value,
            # Whom another authorization server vouches for cannot sign in to pages of ours.
            pages_at="" if config.auth.external is not None else config.public_url,
            issuer=config.public_url,
            seal_key=store.keys.seal,
            clock=now,
            new_id=new_id,
        ),
        visibility=visibility,
        rules=rules,
        memory=carried.memory,
        conversations=carried.conversations,
        limits=carried.limits,
        schemas=schemas,
        seal_key=store.keys.seal,
        clock=now,
    )
    begun = BegunRuns(
        admission=admission, runs=store.runs, audit=store.audit, idle_s=store.runs.idle_s
    )

    def over(reached: Mapping[UpstreamId, Upstream]) -> Pipeline:
        directory = Directory(reached, announce=crawler.announce)
        return Pipeline(
            admission=admission,
            release=release,
            streams=StreamRelay(
                release=release,
                requests=requests,
                labels=labels,
                conversations=carried.conversations,
                upstreams=directory,
                audit=store.audit,
                limits=wire_limits,
            ),
            labels=labels,
            begun=begun,
            upstreams=directory,
            audit=store.audit,
            challenge=who.metadata.challenge_for,
            seal_key=store.keys.seal,
            limits=wire_limits,
            clock=now,
            new_id=new_id,
        )

    offers = Offers(
        pins=store.pins, identities=rules.identities, sight=visibility, spoken=crawler.spoken
    )
    own = OwnServer(
        offers=offers,
        shelf=Shelf(),
        tools=[Discovery(offers=offers, catalog=catalog)],
        levels=levels,
        new_nonce=new_id,
    )
    front = over({OWN: own, **clients})
    aggregate = Aggregate(
        carrier=Metered(front, metrics), offers=offers, limits=wire_limits, new_id=new_id
    )
    return over(upstreams), aggregate


class PolicyReporter:
    """Tells the log, the metrics and the audit log of every policy change, in order."""

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics
        self._last: asyncio.Task[None] | None = None

    def __call__(self, event: PolicyEvent) -> None:
        self._metrics.reloads.labels("ok" if event.ok else "refused").inc()
        if event.ok:
            logger.info("policy %s is in force", event.new)
        else:
            logger.error(
                "a new policy was refused, %s stays in force: %s", event.old, event.problems
            )
        self._last = asyncio.create_task(self._record(event, self._last))

    async def settle(self) -> None:
        """Return once every change so far is recorded, or known not to be."""
        if self._last is not None:
            await self._last

    async def _record(self, event: PolicyEvent, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await before
        problems = event.problems or ("in force",)
        fields = {
            "method": "policy.reload",
            "verdict": "allow" if event.ok else "deny",
            "code": "in_force" if event.ok else "refused",
            "policy_digest": event.new,
            "reasons": [{"code": "policy", "message": text} for text in problems[:50]],
        }
        record = AuditRecord(kind=RecordKind.POLICY, time=now(), id=new_id(), fields=fields)
        try:
            await self._store.audit.append(record)
        except AuditUnavailable:
            # Every decision names the policy that made it, and none is given unrecorded.
            logger.exception("a policy change could not be recorded")
