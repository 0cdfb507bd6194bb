"""Who signs in how, for one configuration: the authorization server, its pages, and the gate."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from starlette.routing import Route
from starlette.types import Scope

from gateway.admin.people import person_of
from gateway.admin.person import How, Person
from gateway.broker import Broker, client_metadata
from gateway.builtin.named_tools import NamedTools
from gateway.config import Config
from gateway.config.auth import Auth, External, Provider
from gateway.domain._value import value
from gateway.domain.calls import Call, may_go_on
from gateway.domain.identity import User
from gateway.errors import GatewayError
from gateway.oauth.authorization import AuthorizationEndpoint, must_ask
from gateway.oauth.builtin import with_builtin
from gateway.oauth.device import DeviceEndpoint
from gateway.oauth.documents import ClientDirectory, DocumentRules
from gateway.oauth.foreign.gate import ExternalGate, ExternalIssuer
from gateway.oauth.gate import TokenGate
from gateway.oauth.intake import Intake
from gateway.oauth.keys import KeyRing
from gateway.oauth.looking_again import Look, LooksAgain, nothing_to_see
from gateway.oauth.metadata import Metadata, Offers
from gateway.oauth.possession import Possession, ProvenTokens
from gateway.oauth.programs import Programs
from gateway.oauth.protocol import Lifetimes, ProtocolServer, Reuse, Stores
from gateway.oauth.registration import RegistrationEndpoint, RegistrationRules
from gateway.oauth.resources import Resources
from gateway.oauth.revocation import RevocationEndpoint
from gateway.oauth.token_endpoint import TokenEndpoint, TrustedIssuer
from gateway.ports import Authenticator
from gateway.signin.account import Account
from gateway.signin.browser import CookieNames
from gateway.signin.code_exchange import ProviderSettings
from gateway.signin.consent import Consents
from gateway.signin.federation import OpenIdFederation
from gateway.signin.granting import Granting
from gateway.signin.journal import Journal
from gateway.signin.new_task import NewTasks
from gateway.signin.people import PasswordCheck
from gateway.signin.sessions import Sessions
from gateway.signin.sign_in import SignIn
from gateway.web.account import AccountPages
from gateway.web.approvals import ApprovalPages
from gateway.web.connect import ConnectPages
from gateway.web.cookies import BrowserCookies
from gateway.web.desk.streams import Streams
from gateway.web.oauth import IssuingEndpoints, oauth_routes
from gateway.web.pages import Pages
from gateway.web.signin import SignInPages
from gateway.web.visits import Visits
from gateway.wiring.background import begun, ended
from gateway.wiring.connections import broker_of
from gateway.wiring.copies import copies_of
from gateway.wiring.desk import Desk, own_client, way_to_desk
from gateway.wiring.foundation import new_id, now
from gateway.wiring.identity import Identity
from gateway.wiring.proofs import proof_rules, proven_tokens
from gateway.wiring.standing import Standing

logger = logging.getLogger(__name__)

_TIDY_S = 600.0


@value
class Authorization:
    """What of a configuration concerns who is who."""

    authenticator: Authenticator
    require_still: Callable[[Call], None]
    """Says whether a caller whom it has known may call still, where they can lose that here."""
    metadata: Metadata
    broker: Broker
    routes: tuple[Route, ...]
    """Of the public listener: documents, endpoints and pages."""
    desk: tuple[Route, ...] = ()
    """Of the desk's own listener, where it has one."""
    streams: Streams
    """Of either: whoever listens at the desk."""
    proven: ProvenTokens
    """Reads what comes by the scheme DPoP."""
    tools: NamedTools  # what hosts' programs may be given leave for, once it is connected


@asynccontextmanager
async def authorization(
    config: Config,
    identity: Identity,
    resources: Resources,
    client_address: Callable[[Scope], str],
    *,
    lasting: Standing,
) -> AsyncIterator[Authorization]:
    """Build what `config` says of sign-in, and take it down again."""
    broker = broker_of(config, identity)
    building = _Building(
        config, identity, resources, client_address, broker=broker, lasting=lasting
    )
    metadata = Metadata(resources, _offers(config.auth), building.possession.rules)
    try:
        if config.auth.external is not None:
            yield _external(config.auth.external, building, metadata)
            return
        async with _own(building, metadata) as built:
            yield built
    finally:
        await broker.aclose()


class _Building:
    """What the parts have in common."""

    def __init__(
        self,
        config: Config,
        identity: Identity,
        resources: Resources,
        client_address: Callable[[Scope], str],
        *,
        broker: Broker,
        lasting: Standing,
    ) -> None:
        self.lasting = lasting
        rules = proof_rules(config, resources)
        self.possession = Possession(rules, lasting.proofs, clock=now)
        self.proven = proven_tokens(config, self.possession)
        stores, auth, url = identity.store.identity, config.auth, config.public_url
        # Where nobody shares this store, memory lacks nothing.
        self.look = None if identity.store.board is None else Look(stores.follow)
        self.config, self.auth, self.identity, self.stores = config, auth, identity, stores
        self.resources, self.client_address, self.broker = resources, client_address, broker
        self.desk = own_client(config, lasting)
        self.journal = Journal(identity.store.audit, clock=now, new_id=new_id, issuer=url)
        self.names = CookieNames.of(url)
        self.sessions = Sessions(
            stores.browsers,
            identity.users,
            clock=now,
            random=os.urandom,
            lifetime_s=auth.session_lifetime,
        )
        self.visits = Visits(
            Pages(),
            BrowserCookies(
                self.names, client_address, random=os.urandom, session_s=auth.session_lifetime
            ),
            origin=url,
            journal=self.journal,
            user_of=self.sessions.user_of,
        )

    def person_of(self, user: User) -> Person:
        """Return who a signed-in person is, as to what people may do."""
        return person_of(
            user, How.PAGE, issuer=self.config.public_url, roles_of=self.config.roles.of
        )


def _external(trusted: External, building: _Building, metadata: Metadata) -> Authorization:
    settings = ExternalIssuer(
        issuer=str(trusted.issuer),
        profile=trusted.profile,
        audience=trusted.audience,
        algorithm=trusted.algorithm,
        groups_claim=trusted.groups_claim,
        groups=_groups(trusted.groups),
        everybody=frozenset(trusted.everybody),
    )
    gate = ExternalGate(
        settings,
        resources=building.resources,
        tokens=building.identity.foreign_tokens,
        clock=now,
    )
    routes = oauth_routes(metadata, None, _own_document(building), building.client_address)
    return Authorization(
        authenticator=gate,
        require_still=may_go_on,
        metadata=metadata,
        broker=building.broker,
        routes=tuple(routes),
        streams=Streams(),
        proven=building.proven,
        tools=NamedTools(),
    )


@asynccontextmanager
async def _own(building: _Building, metadata: Metadata) -> AsyncIterator[Authorization]:
    identity, stores, auth = building.identity, building.stores, building.auth
    tools, scripts = NamedTools(), building.lasting.scripts
    gate = TokenGate(
        resources=building.resources,
        keys=identity.ring,
        clients=stores.clients,
        users=identity.users,
        is_revoked=stores.grants.is_revoked,
        scripts=scripts,
        clock=now,
        epoch=stores.epoch,
        people=lambda: stores.people,
        possession=building.possession,
        desk=building.desk,
    )
    server = ProtocolServer(
        resources=building.resources,
        lifetimes=Lifetimes(
            access_s=int(auth.token_lifetime),
            device_s=int(auth.device_token_lifetime or 0),
            refresh_s=auth.refresh_lifetime,
            grace_s=auth.refresh_grace,
            lost_s=auth.refresh_lost,
            grant_s=auth.grant_lifetime,
        ),
        stores=Stores(users=identity.users, grants=stores.grants, sealer=identity.vault),
        keys=identity.ring,
        new_id=new_id,
        random=os.urandom,
        programs=Programs(authenticator=gate, tools=tools, scripts=scripts),
        reuse=None if auth.refresh_reuse is None else Reuse(auth.refresh_reuse),
        possession=building.possession,
    )

    def use(ring: KeyRing) -> None:
        server.keys = gate.keys = ring

    directory = _directory(building)
    issuing = _issuing(building, server, directory)
    sign_in = _sign_in(building)
    pages = _pages(building, server, directory, sign_in)
    desk = Desk(
        config=building.config,
        identity=identity,
        lasting=building.lasting,
        journal=building.journal,
        sessions=building.sessions,
        person_of=building.person_of,
        nobody_yet=lambda: sign_in.nobody_yet,
        client_address=building.client_address,
        streams=Streams(),
    )
    routes = oauth_routes(metadata, issuing, _own_document(building), building.client_address)
    unused = identity.on_rotation(use)
    tidying = begun(_tidy(building, issuing.registration), "tidying the identity database")
    try:
        yield Authorization(
            authenticator=_known(building, gate),
            require_still=gate.require_still,
            metadata=metadata,
            broker=building.broker,
            routes=(*routes, *pages, *desk.on(building.visits)),
            desk=desk.apart(building.desk, gate, issuing),
            streams=desk.streams,
            proven=building.proven,
            tools=tools,
        )
    finally:
        unused()
        await ended(tidying)


def _known(building: _Building, gate: TokenGate) -> Authenticator:
    """Return what says no to nobody whom only another gateway knows yet."""
    if building.look is None:
        return gate
    return LooksAgain(gate, look=building.look, epoch=building.stores.epoch)


def _issuing(
    building: _Building, server: ProtocolServer, directory: ClientDirectory
) -> IssuingEndpoints:
    audit, auth, identity = building.identity.store.audit, building.auth, building.identity
    counted = building.lasting.throttles
    intake = Intake(directory=directory, audit=audit, clock=now, new_id=new_id, throttles=counted)
    registration = auth.registration
    token = registration.token
    rules = RegistrationRules(
        mode=registration.mode,
        token="" if token is None else token.resolve(os.environ).reveal(),
        private_redirects=frozenset(registration.redirect_uris),
        most_clients=registration.most_clients,
        unused_after_s=registration.unused_after,
    )
    return IssuingEndpoints(
        jwks=lambda: identity.ring.jwks,
        token=TokenEndpoint(
            server=server,
            intake=intake,
            trusted=[
                TrustedIssuer(
                    issuer=str(one.issuer),
                    algorithm=one.algorithm,
                    jwks_url="" if one.jwks_url is None else str(one.jwks_url),
                )
                for one in auth.enterprise.values()
            ],
            issuer_keys=identity.remote_keys,
        ),
        registration=RegistrationEndpoint(
            rules=rules,
            clients=building.stores.clients,
            audit=audit,
            clock=now,
            new_id=new_id,
            random=os.urandom,
            throttles=counted,
        ),
        revocation=RevocationEndpoint(server=server, intake=intake, throttles=counted),
        device=DeviceEndpoint(server=server, intake=intake, throttles=counted),
    )


def _directory(building: _Building) -> ClientDirectory:
    registration = building.auth.registration
    return ClientDirectory(
        find=with_builtin(building.stores.clients, building.desk),
        clients=building.stores.clients,
        fetcher=building.identity.documents,
        audit=building.identity.store.audit,
        clock=now,
        new_id=new_id,
        rules=DocumentRules(
            enabled=registration.documents,
            private_redirects=frozenset(registration.redirect_uris),
            most_clients=registration.most_clients,
            copies=copies_of(registration),
        ),
        look=building.look or nothing_to_see,
        throttles=building.lasting.throttles,
    )


def _sign_in(building: _Building) -> SignIn:
    auth, identity, url = building.auth, building.identity, building.config.public_url
    passwords, federation = None, None
    if auth.mode == "embedded":
        passwords = PasswordCheck(
            identity.users,
            building.lasting.passwords,
            building.journal,
            building.lasting.attempts,
            issuer=url,
        )
    else:
        federation = OpenIdFederation(
            {name: _provider(provider) for name, provider in auth.providers.items()},
            public_url=url,
            fetcher=identity.fetcher,
            discovery=identity.metadata,
            tokens=identity.foreign_tokens,
            random=os.urandom,
        )
    return SignIn(
        names=building.names,
        sessions=building.sessions,
        transactions=building.lasting.transactions,
        passwords=passwords,
        federation=federation,
        providers={name: name for name in auth.providers},
        users=identity.users,
        sealer=identity.vault,
        journal=building.journal,
        clock=now,
        new_id=new_id,
    )


def _pages(
    building: _Building,
    server: ProtocolServer,
    directory: ClientDirectory,
    sign_in: SignIn,
) -> list[Route]:
    stores, origin, visits = building.stores, building.config.public_url, building.visits
    find_client = with_builtin(stores.clients, building.desk)
    granting = Granting(
        AuthorizationEndpoint(
            server=server, directory=directory, audit=building.identity.store.audit, clock=now
        ),
        find_client,
        sessions=building.sessions,
        transactions=building.lasting.transactions,
        consents=Consents(stores.browsers, clock=now, must_ask=must_ask),
        journal=building.journal,
        new_tasks=NewTasks(
            building.identity.store.runs,
            building.journal,
            offered=building.config.runs.new_task_choice,
            by_person=building.config.runs.of == "person",
        ),
    )
    account = Account(
        stores.browsers,
        stores.grants,
        stores.connections,
        building.sessions,
        building.journal,
        clock=now,
    )
    desk_of = way_to_desk(building.config, building.lasting, building.person_of)
    pages = (
        SignInPages(visits, sign_in, granting, origin=origin),
        AccountPages(
            visits,
            sign_in,
            links=building.lasting.links,
            devices=building.lasting.devices,
            account=account,
            find_client=find_client,
            desk_of=desk_of,
            origin=origin,
        ),
        ConnectPages(visits, sign_in, building.broker.connecting),
        ApprovalPages(
            visits,
            sign_in,
            building.lasting.questions,
            person_of=building.person_of,
            desk_of=desk_of,
        ),
    )
    return [*visits.assets, *(route for page in pages for route in page.routes)]


async def _tidy(building: _Building, registration: RegistrationEndpoint) -> None:
    """Forget what is past its time, until cancelled."""
    while True:
        await asyncio.sleep(_TIDY_S)
        try:
            await registration.forget_unused()
            await asyncio.to_thread(building.stores.grants.forget_expired, now=now())
        except GatewayError as error:
            logger.warning("the identity database could not be tidied: %s", error.detail)


def _offers(auth: Auth) -> Offers:
    return Offers(
        registration=auth.registration.mode != "closed",
        documents=auth.registration.documents or bool(auth.registration.copies),
        enterprise=bool(auth.enterprise),
        external_issuer="" if auth.external is None else str(auth.external.issuer),
    )


def _own_document(building: _Building) -> Callable[[], Mapping[str, object]]:
    document = client_metadata(building.config.public_url)
    return lambda: document


def _provider(provider: Provider) -> ProviderSettings:
    secret = provider.client_secret
    return ProviderSettings(
        issuer=str(provider.issuer),
        client_id=provider.client_id,
        client_secret="" if secret is None else secret.resolve(os.environ).reveal(),
        scopes=provider.scopes,
        algorithm=provider.algorithm,
        groups_claim=provider.groups_claim,
        groups=_groups(provider.groups),
        everybody=frozenset(provider.everybody),
        name_claim=provider.name_claim,
    )


def _groups(table: Mapping[str, tuple[str, ...]]) -> Mapping[str, frozenset[str]]:
    return {theirs: frozenset(ours) for theirs, ours in table.items()}
