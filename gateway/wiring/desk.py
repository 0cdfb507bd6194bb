"""Where the desk stands: on the public listener, or as a client of ours on one of its own."""

import os
from collections.abc import Callable, Iterable

from starlette.routing import Route
from starlette.types import Scope

from gateway.admin.person import Person
from gateway.config import Config
from gateway.domain._value import value
from gateway.domain.identity import Client, User
from gateway.oauth.clients import DESK_ID, desk_client
from gateway.ports import Authenticator
from gateway.signin.browser import Browser, CookieNames
from gateway.signin.journal import Journal
from gateway.signin.sessions import Sessions
from gateway.signin.sign_in import DESK_PATH
from gateway.web.app import desk_app
from gateway.web.cookies import BrowserCookies
from gateway.web.desk import desk_routes
from gateway.web.desk.as_client import ENTER_PATH, ENTERED_PATH, AsClient, Own
from gateway.web.desk.entrance import Entrance, OwnSessions
from gateway.web.desk.frame import Frame, elsewhere
from gateway.web.desk.rooms import READERS
from gateway.web.desk.streams import Streams
from gateway.web.guard import Guarded, guard_for
from gateway.web.metrics import Metrics
from gateway.web.oauth import IssuingEndpoints
from gateway.web.pages import Pages
from gateway.web.peers import client_address
from gateway.web.visits import Visits
from gateway.web.words import href
from gateway.wiring.foundation import now
from gateway.wiring.identity import Identity
from gateway.wiring.standing import Standing


def own_client(config: Config, lasting: Standing) -> Client | None:
    """Return the client that the desk is, if it has a listener of its own."""
    if config.console.listen is None:
        return None
    return desk_client(config.desk_url + ENTERED_PATH, lasting.desk_secret)


def way_to_desk(
    config: Config, lasting: Standing, person_of: Callable[[User], Person]
) -> Callable[[User], str]:
    """Return what gives the address at which a person who is signed in comes to the desk; empty if none."""
    console = config.console

    def way(user: User) -> str:
        if not console.enabled or lasting.commands is None:
            return ""
        if person_of(user).roles.isdisjoint(READERS):
            return ""
        if console.listen is None:
            return DESK_PATH
        return config.desk_url + href(ENTER_PATH, to=DESK_PATH)

    return way


@value
class Desk:
    """What its routes are made of, wherever they are."""

    config: Config
    identity: Identity
    lasting: Standing
    journal: Journal
    sessions: Sessions
    person_of: Callable[[User], Person]
    nobody_yet: Callable[[], bool]
    client_address: Callable[[Scope], str]
    streams: Streams

    def on(self, visits: Visits) -> tuple[Route, ...]:
        """Return the routes of the public listener; where it is not there, what strangers meet."""
        here = self.config.console.listen is None
        return self._routes(visits, OwnSessions(self.sessions), here=here)

    def apart(
        self, client: Client | None, gate: Authenticator, issuing: IssuingEndpoints
    ) -> tuple[Route, ...]:
        """Return the routes of a listener of its own; none where it is not a `client`."""
        if client is None:
            return ()
        lasting, config = self.lasting, self.config
        names = CookieNames.of(config.desk_url, kind="-desk")
        lifetime_s = config.auth.session_lifetime

        async def user_of(browser: Browser) -> User | None:
            found = await entrance.signed_in(browser)
            return None if found is None else found.user

        visits = Visits(
            Pages(),
            BrowserCookies(names, self.client_address, random=os.urandom, session_s=lifetime_s),
            origin=config.desk_url,
            journal=self.journal,
            user_of=user_of,
        )
        entrance = AsClient(
            visits,
            Own(
                url=config.desk_url,
                issuer=config.public_url,
                client_id=DESK_ID,
                secret=lasting.desk_secret,
                lifetime_s=lifetime_s,
            ),
            lasting.seats,
            token=issuing.token.answer,
            revoke=issuing.revocation.answer,
            authenticator=gate,
            find_user=self.identity.users.find,
            clock=now,
            random=os.urandom,
        )
        return (*visits.assets, *self._routes(visits, entrance, here=True))

    def _routes(self, visits: Visits, entrance: Entrance, *, here: bool) -> tuple[Route, ...]:
        if self.lasting.commands is None:
            return ()
        console = self.config.console
        frame = Frame(
            visits,
            entrance,
            person_of=self.person_of,
            commands=self.lasting.commands,
            read_only=console.read_only,
            nobody_yet=self.nobody_yet,
            clock=now,
            streams=self.streams,
        )
        pages = [*entrance.routes, *desk_routes(frame)] if here and console.enabled else []
        return (*pages, *elsewhere(visits, frame))


def app_apart(config: Config, routes: Iterable[Route], metrics: Metrics) -> Guarded:
    """Return the application of the desk's own listener, behind a guard that knows its origin."""
    listen = config.console.listen or config.listen
    address = (listen.host, listen.port)
    guard = guard_for(config.desk_url, address, (), config.limits.request_bytes)
    peers = client_address(config.trusted_proxies)
    return desk_app(routes, guard, metrics=metrics, client_address=peers)
