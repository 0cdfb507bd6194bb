"""Everything that a reload replaces: policy, upstreams, rules and the pipeline over them."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from gateway.builtin.aggregate import Aggregate
from gateway.config import Config
from gateway.domain._value import value
from gateway.oauth.resources import Resources
from gateway.pipeline import Pipeline
from gateway.pipeline.keeper import PinKeeper
from gateway.policy.reload import PolicyHolder
from gateway.sandbox.languages import Engines
from gateway.upstream.crawler import Crawler
from gateway.upstream.http import HttpUpstream
from gateway.upstream.settings import LocalSettings
from gateway.upstream.stdio import StdioUpstream
from gateway.web.metrics import Metrics
from gateway.web.peers import client_address
from gateway.wire.jsontext import WireLimits
from gateway.wiring.authorization import Authorization, authorization
from gateway.wiring.carried import Carried
from gateway.wiring.code import engine_of
from gateway.wiring.foundation import new_id, now
from gateway.wiring.front import Front, telling
from gateway.wiring.identity import Identity
from gateway.wiring.lookalikes import LookalikeReporter
from gateway.wiring.pipelines import pipelines
from gateway.wiring.refusals import RefusedEgressReporter
from gateway.wiring.searching import searching
from gateway.wiring.shadow import policies
from gateway.wiring.standing import Standing
from gateway.wiring.upstreams import breakers_of, guarded, upstreams_of


@value
class Runtime:
    """One configuration in force."""

    config: Config
    authorization: Authorization
    policy: PolicyHolder
    candidate: PolicyHolder | None
    """Asked beside it, and held to by nobody."""
    crawler: Crawler
    keeper: PinKeeper
    pipeline: Pipeline
    aggregate: Aggregate
    engine: Engines | None
    """What runs programs, where they are run."""

    @property
    def candidate_digest(self) -> str | None:
        """Names the candidate; `None` where none is asked, empty where none could be loaded."""
        return None if self.candidate is None else self.candidate.digest


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
        decided_by = await stack.enter_async_context(policies(config, store, metrics))
        policy = decided_by.in_force
        refused = RefusedEgressReporter(store.audit)
        stack.push_async_callback(refused.settle)
        settings = await upstreams_of(config, refused)
        keeper = PinKeeper(
            pins=store.pins,
            policy=policy,
            audit=store.audit,
            clock=now,
            new_id=new_id,
            identities={one.server: one.identity for one in settings},
            exclude_meta=frozenset(config.pins.exclude_meta),
        )
        breakers = breakers_of(settings, config)
        front = Front(store, carried.boxes)
        crawler = Crawler(
            settings,
            sink=keeper,
            clock=now,
            recheck_s=config.pins.recheck,
            fresh_s=config.pins.fresh,
            breakers=breakers,
            relisted=lambda server: front.followers.relisted(server, ""),
        )
        stack.push_async_callback(crawler.aclose)
        resources = Resources.of(public_url=config.public_url, servers=config.servers)
        who = await stack.enter_async_context(
            authorization(
                config, identity, resources, client_address(config.trusted_proxies), lasting=lasting
            )
        )
        opened = {
            one.server: StdioUpstream(one)
            if isinstance(one, LocalSettings)
            else HttpUpstream(one, who.broker if one.per_person else None)
            for one in settings
        }
        for upstream in opened.values():
            stack.push_async_callback(upstream.aclose)
        upstreams = guarded(opened, breakers, WireLimits(json_depth=config.limits.json_depth))
        engine = await stack.enter_async_context(engine_of(config))
        search = await stack.enter_async_context(searching(config))
        lookalikes = LookalikeReporter(store.audit)
        stack.push_async_callback(lookalikes.settle)
        front.connect(config, settings, upstreams, metrics)
        stack.push_async_callback(front.aclose)
        pipeline, aggregate, notices = pipelines(
            config=config,
            settings=settings,
            store=store,
            approvals=lasting.approvals,
            scripts=lasting.scripts,
            who=who,
            policy=decided_by.deciding,
            keeper=keeper,
            crawler=crawler,
            upstreams=upstreams,
            front=front,
            lookalikes=lookalikes,
            search=search,
            engine=engine,
            carried=carried,
            metrics=metrics,
        )
        await stack.enter_async_context(telling(notices))
        metrics.count_failures({name: one.count for name, one in breakers.items()})
        yield Runtime(
            config=config,
            authorization=who,
            policy=policy,
            candidate=decided_by.candidate,
            crawler=crawler,
            keeper=keeper,
            pipeline=pipeline,
            aggregate=aggregate,
            engine=engine,
        )
