"""What people do, wired to the stores: behind the door of a running gateway, and without one."""

import json
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from functools import partial
from typing import Any

from gateway.admin import Admin
from gateway.admin.access import AccessDesk
from gateway.admin.alerts import AlertDesk
from gateway.admin.approvals import ApprovalDesk
from gateway.admin.ask import AskDesk
from gateway.admin.audit import AuditDesk
from gateway.admin.clients import ClientDesk
from gateway.admin.counts import CountDesk
from gateway.admin.discovery import DiscoveryDesk
from gateway.admin.exporting import Following
from gateway.admin.journal import Journal
from gateway.admin.labels import LabelDesk
from gateway.admin.lock import LockSigner
from gateway.admin.operations import KeyDesk, Look, ServerDesk, ServerRegistry
from gateway.admin.people import People
from gateway.admin.pins import PinDesk
from gateway.admin.policy import PolicyDesk, PolicyInForce
from gateway.admin.reaching import advised
from gateway.admin.runs import RunDesk
from gateway.admin.scripts import ScriptDesk
from gateway.admin.stop import StopDesk
from gateway.admin.usage import UsageDesk
from gateway.admin.users import UserDesk
from gateway.admin.verifying import VerifyDesk
from gateway.builtin.names import public_name
from gateway.config import Config, Server
from gateway.config.auth import Enterprise
from gateway.domain._value import value
from gateway.domain.descriptions import NO_GUIDANCE, Guidance
from gateway.domain.labels import ServerRule
from gateway.domain.tools import Target, UpstreamId
from gateway.errors import (
    BadCommand,
    IdentityUnavailable,
    Unauthenticated,
    UpstreamFailed,
)
from gateway.oauth.foreign.keys import RemoteKeys
from gateway.oauth.foreign.metadata import RemoteMetadata
from gateway.oauth.resources import Resources
from gateway.ports import Authenticator
from gateway.ports.scripts import ScriptStore
from gateway.signin.links import SetupLinks
from gateway.upstream.egress import EgressPolicy, GuardedFetcher
from gateway.upstream.probe import probe_unauthenticated
from gateway.upstream.settings import LocalSettings
from gateway.wiring.alerts import Alerting
from gateway.wiring.authorization import authorization
from gateway.wiring.exporting import export_desk
from gateway.wiring.foundation import new_id, now
from gateway.wiring.identity import Identity, opened
from gateway.wiring.indexing import archive_of
from gateway.wiring.made_clients import made_client
from gateway.wiring.on_demand import PolicyOnDemand
from gateway.wiring.policy_files import PolicyFilesOf
from gateway.wiring.registration import Nowhere, Registration, nothing_to_take_up
from gateway.wiring.replaying import replay_desk
from gateway.wiring.retaining import keeping_desk
from gateway.wiring.standing import standing
from gateway.wiring.stores import Switch
from gateway.wiring.upstreams import bounds_of, upstreams_of
from gateway.wiring.witnessing import witness_keys_of

ServerRows = Callable[[], Sequence[Mapping[str, Any]]]


@asynccontextmanager
async def open_admin(config: Config) -> AsyncIterator[Admin]:
    """Open the use cases on the files of a gateway that is not running.

    Raises:
        ConfigError: One is running, or its files cannot be used.

    """
    async with opened(config) as identity:
        resources = Resources.of(public_url=config.public_url, servers=config.servers)
        policy = PolicyOnDemand(config)
        lasting = standing(lambda: config, identity, policy)
        async with authorization(config, identity, resources, _nowhere, lasting=lasting) as who:
            with admin_of(
                lambda: config,
                identity,
                who.authenticator,
                links=lasting.links,
                questions=lasting.questions,
                scripts=lasting.scripts,
                policy=policy,
                stop=lasting.stop,
                servers=partial(_not_running, config),
                look=_nobody_looks,
                followers=tuple,
                registry=(
                    Registration(lambda: config, environ=None, take_up=nothing_to_take_up)
                    if identity.store.board is None
                    else Nowhere()
                ),
                alerting=Alerting.of_files(config, identity.store),
            ) as admin:
                yield admin


@contextmanager
def admin_of(
    current: Callable[[], Config],
    identity: Identity,
    authenticator: Authenticator,
    *,
    links: SetupLinks,
    questions: ApprovalDesk,
    scripts: ScriptStore,
    policy: PolicyInForce,
    stop: Switch,
    servers: ServerRows,
    look: Look,
    followers: Callable[[], Sequence[Following]],
    registry: ServerRegistry,
    alerting: Alerting,
) -> Iterator[Admin]:
    """Open every use case over what is stored; `current` gives the configuration in force."""
    store, issuer = identity.store, current().public_url
    stores = store.identity
    journal = Journal(store.audit, clock=now, new_id=new_id, place=store.log.placed)

    def roles_of(groups: frozenset[str]) -> frozenset[str]:
        return current().roles.of(groups)

    def labelled(server: UpstreamId) -> Collection[str]:
        known = current().servers.get(server)
        return known.labelled if known else ()

    def rule(server: UpstreamId) -> ServerRule:
        known = current().servers.get(server)
        return known.rule if known else ServerRule(tools={})

    def guidance(target: Target) -> Guidance:
        known = current().servers.get(target.server)
        return known.guidance.get(target.name, NO_GUIDANCE) if known else NO_GUIDANCE

    people = People(
        identity.users,
        authenticator,
        journal,
        roles_of=roles_of,
        issuer=issuer,
    )
    with (
        closing(store.log.reader()) as reader,
        closing(store.log.reader()) as past,
        archive_of(store) as archive,
        export_desk(current, store, journal, followers) as export,
    ):
        audit = AuditDesk(
            reader,
            archive,
            journal,
            hashes_of=store.hashes_of,
            clock=now,
        )
        verifying = VerifyDesk(
            lambda kept: store.log.verify(
                store.verifier,
                checkpoints=kept,
                witnesses=witness_keys_of(current()),
            ),
            archive,
            journal,
            clock=now,
        )
        yield Admin(
            people=people,
            users=UserDesk(
                stores.users,
                people,
                journal,
                issuer=issuer,
                links=None if current().auth.mode != "embedded" else links,
                clock=now,
                new_id=new_id,
            ),
            access=AccessDesk(
                users=stores.users,
                clients=stores.clients,
                browsers=stores.browsers,
                grants=stores.grants,
                connections=stores.connections,
                people=people,
                journal=journal,
                issuer=issuer,
                clock=now,
            ),
            pins=PinDesk(
                store.pins,
                journal,
                LockSigner("douane", store.keys.audit),
                policy=policy,
                expire_s=lambda: current().pins.expire,
                labelled=labelled,
                rule=rule,
                guidance=guidance,
                may_approve=people.may_approve,
                clock=now,
            ),
            approvals=questions,
            alerts=AlertDesk(alerting, journal),
            clients=ClientDesk(stores.clients, journal, partial(made_client, current)),
            servers=ServerDesk(servers, store.pins, registry, journal, look=look),
            labels=LabelDesk(store.pins, labelled),
            discovery=DiscoveryDesk(
                store.pins,
                audit.calls_since,
                core=lambda: current().discovery.core,
                servers=lambda: current().servers,
                name_of=public_name,
            ),
            runs=RunDesk(
                store.runs,
                audit.of_run,
                journal,
                clients=stores.clients,
                policy=policy,
                issuer=issuer,
                clock=now,
            ),
            scripts=ScriptDesk(scripts, journal, clock=now),
            policy=PolicyDesk(policy, PolicyFilesOf(current), journal),
            stop=(stopping := StopDesk(stop, journal, clock=now)),
            counts=CountDesk(questions, store.pins, servers, stopping),
            replay=replay_desk(current, past, journal, audit.explain, store.hashes_of),
            audit=audit,
            verifying=verifying,
            export=export,
            keeping=keeping_desk(current, store, journal),
            ask=AskDesk(archive, journal, hashes_of=store.hashes_of, clock=now),
            usage=UsageDesk(
                lambda: [one.value for one in current().limits.quotas], store.usage, clock=now
            ),
            keys=KeyDesk(partial(_keys, identity), identity, journal),
        )


@value
class Probed:
    """What came of asking each server at an address for a conversation, without a credential."""

    open: tuple[str, ...]
    """Those that began one with us, as with anybody."""

    silent: Mapping[str, str]
    """Those that gave no answer of an MCP server, and why."""


async def probe(config: Config) -> Probed:
    """Ask each server that is at an address whether it answers without a credential."""
    found: list[str] = []
    silent: dict[str, str] = {}
    for name, server in config.servers.items():
        if server.url is None:
            continue  # nobody but the gateway reaches it
        try:
            if await probe_unauthenticated(str(server.url), bounds_of(name, config)):
                found.append(name)
        except UpstreamFailed as error:
            silent[name] = advised(error.detail or error.public)
    return Probed(open=tuple(found), silent=silent)


async def probe_local(config: Config) -> Mapping[str, str]:
    """Return the local servers that cannot be started on this machine, and why."""
    return {
        one.server: one.refused
        for one in await upstreams_of(config)
        if isinstance(one, LocalSettings) and one.refused
    }


def place_of(server: Server) -> str:
    """Return where a server is: its URL, or how it is started and what it reaches."""
    if server.url is not None:
        return str(server.url)
    listed = ", ".join(map(str, server.network.allow)) if server.network else ""
    jail = f"in a jail{listed and f', reaches {listed}'}"
    return f"{server.command[0]} ({jail if server.jail == 'auto' else 'no jail'})"


async def probe_issuers(config: Config) -> Mapping[str, str]:
    """Return the configured issuers whose metadata or keys cannot be used, and why, from here."""
    fetcher = GuardedFetcher(EgressPolicy.of(config.egress.allow), ca=config.egress.ca)
    metadata = RemoteMetadata(fetcher, clock=now)
    keys = RemoteKeys(fetcher, metadata=metadata, clock=now)
    wrong = {}
    for where, one in config.auth.trusted.items():
        jwks_url = str((isinstance(one, Enterprise) and one.jwks_url) or "")
        try:
            await keys.key(str(one.issuer), "", one.algorithm, jwks_url=jwks_url)
        except Unauthenticated:
            continue  # it has keys, and none without a name
        except IdentityUnavailable as error:
            wrong[f"{where}.issuer: {one.issuer}"] = error.detail or error.public
    return wrong


def _keys(identity: Identity) -> Sequence[Mapping[str, Any]]:
    store = identity.store
    lock = str(LockSigner("douane", store.keys.audit).verifier)
    sealed = store.identity.signing_keys.keys()
    published = {key["kid"]: key for key in identity.ring.jwks["keys"]}
    return [
        {
            "use": "audit",
            "id": store.verifier.name,
            "state": "active",
            "public": str(store.verifier),
        },
        {"use": "pins export", "id": "douane", "state": "active", "public": lock},
        *(
            {
                "use": "access tokens",
                "id": key.kid,
                "state": key.state.value,
                "public": json.dumps(published.get(key.kid), sort_keys=True),
            }
            for key in sealed
        ),
        *(
            {
                "use": "record-hash",
                "id": f"h{number}",
                "state": "active" if number == store.record_hash_keys else "retired",
                "public": "",
            }
            for number in range(store.record_hash_keys, 0, -1)
        ),
    ]


def _nowhere(_: object) -> str:
    return ""


async def _nobody_looks(name: str) -> None:
    raise BadCommand(f"start the gateway to have it look at {name}")


def _not_running(config: Config) -> Sequence[Mapping[str, Any]]:
    return [
        {
            "server": name,
            "url": place_of(server),
            "status": "not running",
            "profiles": [],
            "checked_at": None,
            "error": "",
        }
        for name, server in config.servers.items()
    ]
