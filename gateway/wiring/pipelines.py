"""The one path, wired twice: to servers as they are, and to clients of our own in front of all."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from gateway.builtin.aggregate import Aggregate
from gateway.builtin.descriptions import Descriptions
from gateway.builtin.discovery import Discovery
from gateway.builtin.notices import Notices
from gateway.builtin.offers import Offers
from gateway.builtin.run_code import RULE, own_pins
from gateway.builtin.server import OwnServer
from gateway.builtin.servers import ServerTools
from gateway.builtin.shelf import Shelf
from gateway.config import Config
from gateway.domain._value import value
from gateway.domain.calls import Permit
from gateway.domain.planes import Plane
from gateway.domain.tools import OWN, UpstreamId
from gateway.oauth.present import Present
from gateway.pipeline import Pipeline
from gateway.pipeline.admission import Admission
from gateway.pipeline.approvals import Approvals
from gateway.pipeline.begun import BegunRuns
from gateway.pipeline.debts import Indebted
from gateway.pipeline.duties import Duties
from gateway.pipeline.grants import Grants
from gateway.pipeline.greetings import Greetings
from gateway.pipeline.keeper import PinKeeper
from gateway.pipeline.labels import Labeller
from gateway.pipeline.late_answers import LateAnswers
from gateway.pipeline.late_ends import LateEnds
from gateway.pipeline.late_exchange import LateExchange
from gateway.pipeline.late_handles import LateHandles
from gateway.pipeline.late_requests import LateRequests
from gateway.pipeline.lists import ListFilter
from gateway.pipeline.prompts import Prompts
from gateway.pipeline.release import Release
from gateway.pipeline.rules import Rules
from gateway.pipeline.schemas import Schemas
from gateway.pipeline.selections import Selections
from gateway.pipeline.sensitive import Sensitive
from gateway.pipeline.serverside import ServerRequests
from gateway.pipeline.sessions import Sessions
from gateway.pipeline.streams import StreamRelay
from gateway.pipeline.visibility import Visibility
from gateway.ports import ApprovalStore, Ledger, PolicyEngine, Upstream
from gateway.ports.late import LateCalls
from gateway.ports.scripts import ScriptStore
from gateway.ports.standing import StandingAnswers
from gateway.sandbox.languages import Engines
from gateway.upstream.crawler import Crawler, SentElsewhere
from gateway.upstream.directory import Directory
from gateway.upstream.settings import LocalSettings, UpstreamSettings
from gateway.web.call_metrics import Metered
from gateway.web.carrier import Carrier
from gateway.web.metrics import Metrics
from gateway.wire.jsontext import WireLimits
from gateway.wire.own_session import is_over
from gateway.wiring.authorization import Authorization
from gateway.wiring.carried import Carried
from gateway.wiring.code import code_mode, models_of, stub_of
from gateway.wiring.deciding import Deciding, deciding
from gateway.wiring.foundation import new_id, now
from gateway.wiring.front import Front
from gateway.wiring.identity import Identity
from gateway.wiring.lookalikes import LookalikeReporter
from gateway.wiring.plane_paths import for_planes
from gateway.wiring.searching import Searching
from gateway.wiring.sensitive import detector_of
from gateway.wiring.settings import always_on, described, portable, shelving
from gateway.wiring.stores import Stores
from gateway.wiring.tasks import beginnings_of, extensions_of, watching_of


@value
class Carriers:
    """Whatever carries calls, or some stages of them."""

    pipeline: Carrier
    aggregate: Carrier
    notices: Notices
    planes: Deciding


def pipelines(
    *,
    config: Config,
    identity: Identity,
    planes: Mapping[str, Plane],
    settings: Sequence[UpstreamSettings | LocalSettings],
    store: Stores,
    approvals: ApprovalStore,
    answers: StandingAnswers,
    scripts: ScriptStore,
    late: LateCalls,
    late_ends: LateEnds,
    who: Authorization,
    policy: PolicyEngine,
    ledger: Ledger,
    require_going: Callable[[], None],
    keeper: PinKeeper,
    crawler: Crawler,
    upstreams: Mapping[UpstreamId, Upstream],
    front: Front,
    lookalikes: LookalikeReporter,
    search: Searching,
    engine: Engines | None,
    carried: Carried,
    metrics: Metrics,
) -> Carriers:
    """Return the one path twice, to servers as they are and through clients of our own; and for
    planes the part of it that is before a server, and the part behind.
    """
    seals = tuple(key for key in (store.keys.seal, store.keys.former_seal) if key is not None)
    wire_limits = WireLimits(json_depth=config.limits.json_depth)
    schemas = Schemas(refuse_results=config.pins.results == "refuse")
    identities = {one.server: one.identity for one in settings}
    models = models_of(config)
    rules = Rules(
        servers={
            OWN: RULE,
            **{UpstreamId(name): server.rule for name, server in config.servers.items()},
        },
        tenant=config.tenant.value,
        roles={name: frozenset(role.groups) for name, role in config.roles},
        identities={OWN: "", **identities},
        extensions=extensions_of(settings),
        per_person=frozenset(one.server for one in settings if one.per_person),
        own={}
        if engine is None
        else own_pins(extracts=models is not None, languages=engine.languages),
    )
    visibility = Visibility(policy=policy, servers=rules.servers, clock=now)
    # Where planes ask, what they owe counts at every door; where none do, nobody looks.
    owes = carried.debts.are_possible(asked=bool(planes))
    runs = Indebted(store.runs, carried.debts) if owes else store.runs
    labels = Labeller(runs=runs, rules=rules)
    sensitive = Sensitive(detector_of(config.dlp), carried.values)
    duties = Duties(policy=policy, labels=labels, limits=carried.limits, sensitive=sensitive)
    requests = ServerRequests(
        policy=policy,
        pins=store.pins,
        rules=rules,
        labels=labels,
        memory=carried.memory,
        duties=duties,
        audit=store.audit,
        clock=now,
        new_id=new_id,
    )
    hosts = portable(config)
    lists = ListFilter(
        keeper=keeper,
        pins=store.pins,
        visibility=visibility,
        identities=rules.identities,
        portable=hosts,
    )
    beginnings = beginnings_of(config, store, late, rules)
    late_handles = LateHandles(late, seals, now)
    release = Release(
        rules=rules,
        lists=lists,
        greetings=Greetings(pins=store.pins, rules=rules, lists=lists),
        labels=labels,
        memory=carried.memory,
        requests=requests,
        duties=duties,
        schemas=schemas,
        prompts=Prompts(pins=store.pins, refuse_results=config.pins.results == "refuse"),
        beginnings=beginnings,
        seal_key=store.keys.seal,
    )
    offers = Offers(
        pins=store.pins,
        identities=identities,
        sight=visibility,
        spoken=crawler.spoken,
        alarm=lookalikes,
        portable=hosts,
    )
    who.tools.connect(offers)
    shelf = Shelf(shelving(config), known=offers.knows)
    descriptions = Descriptions(
        described(config), offers=offers, scale=shelf, store=store.disclosures, clock=now
    )
    selections = Selections(store.choices, always_on=always_on(config))
    sessions = Sessions(store.sessions, is_over=lambda session: is_over(session, now()))
    people = Approvals(
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
        submitting={name for name, plane in planes.items() if plane.access_requests},
    )
    admitting = partial(
        Admission,
        runs=runs,
        pins=store.pins,
        catalogs=crawler,
        policy=policy,
        approvals=people,
        answers=answers,
        grants=Grants(scripts=scripts, policy=policy, clock=now),
        visibility=visibility,
        selections=selections,
        descriptions=descriptions,
        rules=rules,
        memory=carried.memory,
        conversations=carried.conversations,
        limits=carried.limits,
        quotas=carried.quotas,
        sensitive=sensitive,
        schemas=schemas,
        epoch=store.epoch,
        seal_key=store.keys.seal,
        former_seal_key=store.keys.former_seal,
        clock=now,
        sessions=sessions,
        require_going=require_going,
    )
    admission = admitting(
        authenticator=who.authenticator,
        rights=store.identity.database,
        require_still=who.require_still,
    )
    begun = BegunRuns(
        admission=admission, runs=store.runs, audit=store.audit, idle_s=store.runs.idle_s
    )

    late_answers = LateAnswers(
        store=late,
        ends=late_ends,
        release=release,
        requests=requests,
        labels=labels,
        rules=rules,
        pins=store.pins,
        catalogs=crawler,
        seal_key=store.keys.seal,
        clock=now,
        new_id=new_id,
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
                sessions=sessions,
                require_going=require_going,
            ),
            labels=labels,
            begun=begun,
            late=LateRequests(
                admission=admission,
                beginnings=beginnings,
                answers=late_answers,
                release=release,
                store=late,
                pins=store.pins,
                exchange=LateExchange(
                    admission=admission,
                    upstreams=directory,
                    ledger=ledger,
                    limits=wire_limits,
                ),
                audit=store.audit,
                handles=late_handles,
                clock=now,
            ),
            upstreams=directory,
            audit=store.audit,
            ledger=ledger,
            challenge=who.metadata.challenge_for,
            proofs=who.metadata.proofs_for,
            seal_key=store.keys.seal,
            limits=wire_limits,
            clock=now,
            new_id=new_id,
        )

    choosing = ServerTools(
        offers=offers,
        choices=store.choices,
        always_on=always_on(config),
        runs=store.runs,
        audit=store.audit,
        end_sessions=lambda server, key: front.clients[server].end_sessions(key),
        clock=now,
        new_id=new_id,
    )
    search.begin(offers.approved_tools)
    found = Discovery(
        offers=offers,
        catalog=search.catalog,
        descriptions=descriptions,
        subagent=search.subagent,
        strategy=config.discovery.strategy,
        stub=None if engine is None else stub_of,
        languages=() if engine is None else engine.languages,
    )
    notices = front.notices(
        config,
        store,
        offers=offers,
        shelf=shelf,
        descriptions=descriptions,
        sight=visibility,
        authenticator=who.authenticator,
        policy=policy,
        crawler=crawler,
        selections=selections,
    )
    front_door: list[Aggregate] = []
    programs = code_mode(
        config,
        engine,
        offers=offers,
        sight=visibility,
        scripts=scripts,
        carrier=lambda: front_door[0],
        models=models,
        tasks=bool(beginnings.servers),
        present=Present(
            users=store.identity.users,
            clients=store.identity.clients,
            planes=dict,
            elsewhere=config.auth.external is not None,
        ),
    )
    own = OwnServer(
        offers=offers,
        shelf=shelf,
        descriptions=descriptions,
        tools=[found, choosing, *([programs] if programs else [])],
        withheld=programs.withheld if programs else _nothing,
        models=models,
        tasks=bool(beginnings.servers),
        levels=front.levels,
        new_nonce=new_id,
        chosen=lambda key: store.choices.of(key).number,
        notices=notices,
        clock=now,
        listed=metrics.listed,
    )
    aggregate = Aggregate(
        carrier=Metered(over({OWN: own, **front.clients}), metrics),
        offers=offers,
        limits=wire_limits,
        new_id=new_id,
        notices=notices,
        brief=descriptions.are_possible,
        priority=config.discovery.priority,
    )
    front_door.append(aggregate)  # whose calls programs make
    elsewhere = SentElsewhere(crawler)
    point = partial(
        for_planes,
        release=release,
        labels=labels,
        visibility=visibility,
        catalogs=elsewhere,
        runs=runs,
        identities=rules.identities,
        servers=rules.servers,
        debts=carried.debts,
        store=store,
        ledger=ledger,
        limits=wire_limits,
    )
    watching = watching_of(beginnings.servers, late_handles, wire_limits)
    return Carriers(
        pipeline=watching(Metered(over(upstreams), metrics)),
        aggregate=watching(aggregate),
        notices=notices,
        planes=deciding(
            config,
            identity,
            planes,
            store,
            admitting=partial(admitting, catalogs=elsewhere),
            approvals=people,
            questions=approvals,
            runs=runs,
            point=point,
        ),
    )


async def _nothing(permit: Permit) -> Collection[str]:  # noqa: ARG001 - nothing of ours is decided on
    return ()
