"""Everything that a reload replaces: policy, upstreams, rules and the pipeline over them."""

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from gateway.config import Config
from gateway.domain._value import value
from gateway.domain.planes import InterceptorHost, Plane
from gateway.domain.tools import UpstreamId
from gateway.oauth.resources import Resources
from gateway.pipeline.access_requests import AccessRequests
from gateway.pipeline.decision_point import DecisionPoint
from gateway.pipeline.interceptions import Interceptions
from gateway.pipeline.keeper import PinKeeper
from gateway.pipeline.plane_traffic import PlaneTraffic
from gateway.policy.reload import PolicyHolder
from gateway.policy.stopping import Stoppable
from gateway.ports import PolicyEngine, Upstream
from gateway.sandbox.languages import Engines
from gateway.upstream.crawler import Crawler
from gateway.upstream.http import HttpUpstream
from gateway.upstream.local import LocalExchange
from gateway.upstream.personal import People
from gateway.upstream.settings import LocalSettings
from gateway.web.carrier import Carrier
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
from gateway.wiring.planes import hosts_of, planes_of
from gateway.wiring.refusals import RefusedEgressReporter
from gateway.wiring.searching import Searching, searching
from gateway.wiring.settings import known_as
from gateway.wiring.shadow import policies
from gateway.wiring.standing import Standing
from gateway.wiring.upstreams import guarded, link_of, upstreams_of


class Succession:
    """Whether what was decided under one configuration may still be done: asked of what is in force.

    Calls that are under way when another one comes are carried by the parts that began them, for as long
    as these are there. That they go on deciding by a policy which is retired lets nothing out.
    """

    def __init__(self, policy: PolicyEngine) -> None:
        self._policy: PolicyEngine | Succession | None = policy

    def holds(self, digest: str) -> bool:
        """Whether what the policy of this name decided may still be done."""
        return self._policy is not None and self._policy.holds(digest)

    def succeed(self, later: "Succession", *, decided_alike: bool) -> None:
        """Have `later` say it from now on, which is in force; none holds if it has others asked too."""
        self._policy = later if decided_alike else None


@value
class Runtime:
    """One configuration in force."""

    config: Config
    authorization: Authorization
    policy: PolicyHolder
    succession: Succession
    candidate: PolicyHolder | None
    """Asked beside it, and held to by nobody."""
    crawler: Crawler
    keeper: PinKeeper
    pipeline: Carrier
    """What comes in at a server's own endpoint."""
    aggregate: Carrier
    """What comes in in front of all."""
    planes: Mapping[str, Plane]
    """Those that may ask, by their names."""
    decisions: DecisionPoint
    requests: AccessRequests
    """Where planes submit what was refused."""
    hosts: Mapping[str, InterceptorHost]
    """Those that may invoke interceptors, by their names."""
    interceptions: Interceptions
    traffic: PlaneTraffic
    """Calls that planes show whole."""
    search: Searching
    engine: Engines | None
    """What runs programs, where they are run."""

    announce: Callable[[], None]
    """Tells which policies are in force, once they are."""

    async def catch_up(self, before: "Runtime") -> None:
        """Return once nothing here was read earlier than what is in force in `before`."""
        if self.candidate is not None:
            await self.candidate.agree()
        await self.policy.catch_up(before.policy)

    def succeed(self, before: "Runtime") -> None:
        """Have calls that `before` still carries recorded on what holds here, and on nothing else."""
        alike = before.config.policy.authzen == self.config.policy.authzen
        before.succession.succeed(self.succession, decided_alike=alike)

    @property
    def names_of_planes(self) -> frozenset[str]:
        """The names of all that may ask, whatever they speak."""
        return frozenset((*self.planes, *self.hosts))

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
        links = {
            one.server: carried.links.take(one, partial(link_of, one, config)) for one in settings
        }
        for link in links.values():
            stack.push_async_callback(carried.links.give_back, link)
        breakers = {server: link.breaker for server, link in links.items()}
        front = Front(store, carried.boxes, carried.calls)
        resources = Resources.of(public_url=config.public_url, servers=config.servers)
        who = await stack.enter_async_context(
            authorization(
                config, identity, resources, client_address(config.trusted_proxies), lasting=lasting
            )
        )
        crawler = Crawler(
            settings,
            sink=keeper,
            clock=now,
            recheck_s=config.pins.recheck,
            fresh_s=config.pins.fresh,
            breakers=breakers,
            relisted=lambda server: front.followers.relisted(server, ""),
            known=carried.links.watched,
            people=People(who.broker),
            crawled=metrics.crawled,
            start=LocalExchange,
        )
        stack.push_async_callback(crawler.aclose)
        opened: dict[UpstreamId, Upstream] = {}
        for one in settings:
            shared = links[one.server].upstream
            if shared is None and not isinstance(one, LocalSettings):
                shared = HttpUpstream(one, who.broker)
                stack.push_async_callback(shared.aclose)
            if shared is not None:
                opened[one.server] = shared
        upstreams = guarded(opened, breakers, WireLimits(json_depth=config.limits.json_depth))
        engine = await stack.enter_async_context(engine_of(config))
        search = await stack.enter_async_context(searching(config))
        lookalikes = LookalikeReporter(store.audit)
        stack.push_async_callback(lookalikes.settle)
        front.connect(config, settings, upstreams, metrics)
        stack.push_async_callback(front.aclose)
        planes, hosts = planes_of(config, os.environ), hosts_of(config, os.environ)
        deciding = Stoppable(
            decided_by.deciding,
            require_none=lasting.stop.require_none,
            holds=lambda: lasting.stop.holds is not None,
        )
        succession = Succession(deciding)
        carriers = pipelines(
            config=config,
            identity=identity,
            planes={**planes, **{name: host.plane for name, host in hosts.items()}},
            settings=settings,
            store=store,
            approvals=lasting.approvals,
            answers=lasting.answers,
            scripts=lasting.scripts,
            late=lasting.late,
            late_ends=lasting.late_ends,
            who=who,
            policy=deciding,
            ledger=lasting.ledger(
                succession, known_as(config, store.board.roster if store.board else None)
            ),
            require_going=lasting.stop.require_none,
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
        await stack.enter_async_context(telling(carriers.notices))
        metrics.count_placed(lambda: search.catalog.placed)
        metrics.count_failures({name: one.count for name, one in breakers.items()})
        yield Runtime(
            config=config,
            authorization=who,
            policy=policy,
            succession=succession,
            candidate=decided_by.candidate,
            crawler=crawler,
            keeper=keeper,
            pipeline=carriers.pipeline,
            aggregate=carriers.aggregate,
            planes=planes,
            decisions=carriers.planes.decisions,
            requests=carriers.planes.requests,
            hosts=hosts,
            interceptions=carriers.planes.interceptions,
            traffic=carriers.planes.traffic,
            search=search,
            engine=engine,
            announce=decided_by.announce,
        )
