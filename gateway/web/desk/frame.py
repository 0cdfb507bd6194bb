"""What every page of the desk has in common: who comes in, how it asks, how it looks, how it says no."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import orjson
from starlette.responses import Response
from starlette.routing import Route

from gateway.admin.clients import MOST_NAMED
from gateway.admin.commands import Commands
from gateway.admin.names import Names, ids_in
from gateway.admin.person import Person, Role
from gateway.domain._value import value
from gateway.domain.identity import User
from gateway.errors import (
    BadCommand,
    ConfigError,
    Denied,
    Fault,
    Forbidden,
    GatewayError,
    NotFound,
    PinMismatch,
    RateLimited,
    Refusal,
)
from gateway.ports import Clock
from gateway.signin.errors import NotSignedIn, SignInRefused
from gateway.signin.links import NOBODY_YET
from gateway.signin.sign_in import DESK_PATH
from gateway.web.desk.entrance import Entrance
from gateway.web.desk.rooms import READERS, rooms_of
from gateway.web.desk.streams import Streams
from gateway.web.forms import BadForm
from gateway.web.visits import Handler, Visit, Visits

RECENT_S = 15 * 60.0
"""For how long after a sign-in somebody may change things without being asked again."""

_MOST_FIELDS = 256
"""Of a form at the desk: one with a tick for each definition of a page has the most. As much longer
than another form may it be: 256 KiB, which a lock file takes.
"""
_STATUS: tuple[tuple[type[GatewayError], int], ...] = (
    (Forbidden, 403),
    (NotFound, 404),
    (Denied, 409),
    (PinMismatch, 409),
    (RateLimited, 429),
    (BadCommand, 400),
    (ConfigError, 400),
)
_WENT_WRONG = 503
_NOTHING = "There is nothing here, or nothing for you."


class ReadOnly(Denied):
    """Nothing is changed at this desk."""


class SignInAgain(Denied):
    """The person's sign-in is too old for a change."""


@value
class Guest:
    """Somebody at the desk, and the page they ask for."""

    visit: Visit
    person: Person
    user: User
    recent: bool
    """Whether they have signed in lately enough to change things."""

    @property
    def query(self) -> Mapping[str, str]:
        return self.visit.query

    @property
    def form(self) -> Mapping[str, str]:
        return self.visit.form

    @property
    def here(self) -> str:
        """The address of the page, without a host."""
        url = self.visit.request.url
        return f"{url.path}?{url.query}" if url.query else url.path


GuestHandler = Callable[[Guest], Awaitable[Response]]


class Frame:
    """Lets people in who have a role here, and shows nobody else that there is a desk."""

    def __init__(
        self,
        visits: Visits,
        entrance: Entrance,
        *,
        person_of: Callable[[User], Person],
        commands: Callable[[], Commands],
        read_only: bool,
        nobody_yet: Callable[[], bool],
        clock: Clock,
        streams: Streams | None = None,
    ) -> None:
        self._visits = visits
        self._entrance = entrance
        self._person_of = person_of
        self._commands = commands
        self._nobody_yet = nobody_yet
        self._clock = clock
        self.read_only = read_only
        self.streams = streams or Streams()

    def route(
        self,
        path: str,
        *,
        get: GuestHandler | None = None,
        post: GuestHandler | None = None,
    ) -> Route:
        """Return the route of one page below `/desk`, for whoever may come in.

        It takes the same methods and sizes as what is not there, so that none tells them apart.
        """
        return self._visits.route(
            DESK_PATH + path,
            get=partial(self._answered, get or self._none),
            post=partial(self._answered, post or self._none),
            most_fields=_MOST_FIELDS,
        )

    async def _none(self, _: Guest) -> Response:
        return self.nowhere()

    async def ask(self, guest: Guest, command: str, /, **arguments: Any) -> Any:
        """Return what a use case says to the guest, of one that streams all of it.

        An argument that is `None` is not given.

        Raises:
            GatewayError: Whatever the use case raises; so does an argument that it does not take.

        """
        said = {name: told for name, told in arguments.items() if told is not None}
        answer = self._commands().run(guest.person, command, orjson.dumps(said))
        if isinstance(answer, AsyncGenerator):
            return [item async for item in answer]
        return await answer

    async def names(self, guest: Guest, rows: Iterable[Mapping[str, Any]]) -> Names:
        """Return what people call the clients whose ids stand in `rows`."""
        wanted = ids_in(rows)[:MOST_NAMED]
        return Names(await self.ask(guest, "clients.names", clients=wanted) if wanted else [])

    def require_change(self, guest: Guest, form: str, *bound: str, ends: bool = False) -> None:
        """Go on only if the guest may send this form now.

        With `ends` it takes something away, which never waits for another sign-in.

        Raises:
            Forged: It is no form that we gave this person in this browser for these things.
            ReadOnly: Nothing is changed here.
            SignInAgain: Their sign-in is too old.

        """
        guest.visit.require_token(form, *bound)
        if self.read_only:
            raise ReadOnly("this desk only shows things; use the command line")
        if not ends and not guest.recent:
            raise SignInAgain("sign in again first: your last sign-in is more than 15 minutes ago")

    async def page(
        self, guest: Guest, template: str, *, http_status: int = 200, room: str = "", **context: Any
    ) -> Response:
        """Return a page of the desk; it is put together beside the event loop.

        `approves` and `administers` say which buttons it may show: who may press them, the use
        cases decide.
        """
        roles = guest.person.roles
        make = partial(
            self._visits.pages.page,
            f"desk/{template}",
            http_status,
            room=room,
            rooms=rooms_of(roles),
            person=guest.person,
            user=guest.user,
            here=guest.here,
            read_only=self.read_only,
            approves=not self.read_only and not roles.isdisjoint({Role.APPROVER, Role.ADMIN}),
            administers=not self.read_only and Role.ADMIN in roles,
            recent=guest.recent,
            again=self._entrance.way_in(guest.here, anew=True),
            account=self._entrance.account,
            sign_out=self._entrance.sign_out,
            as_of=self._clock(),
            **context,
        )
        return await asyncio.to_thread(make)

    def go(self, path: str) -> Response:
        """Return an answer that leads to another page of the desk, with a GET."""
        return self._visits.pages.redirect(path)

    def file(self, content: bytes, name: str, media_type: str) -> Response:
        """Return a file to keep; `name` is one of ours."""
        return self._visits.pages.file(content, name, media_type)

    def nowhere(self) -> Response:
        """Return what everybody gets where there is nothing, or nothing for them."""
        if self._nobody_yet():
            return self._visits.pages.message("Nothing here", f"{_NOTHING} {NOBODY_YET}", 404)
        return self._visits.pages.message(
            "Nothing here",
            f"{_NOTHING} If it is meant for you, sign in.",
            404,
            link=(self._entrance.way_in(DESK_PATH), "Sign in"),
        )

    async def _answered(self, handler: GuestHandler, visit: Visit) -> Response:
        guest = await self.guest(visit)
        if guest is None:
            return await self.turned_away(visit)
        try:
            return await handler(guest)
        except (SignInRefused, BadForm):
            raise
        except GatewayError as error:
            return await self._refused(guest, error)

    async def turned_away(self, visit: Visit) -> Response:
        """Return what everybody gets; that a person without a role tried, or a form came, is on record.

        Raises:
            AuditUnavailable: It could not be recorded.

        """
        no: Refusal | None = NotSignedIn() if visit.request.method == "POST" else None
        if await self._entrance.signed_in(visit.browser) is not None:
            no = Forbidden("the desk is for people with another role")
        if no is not None:
            await self._visits.record(no, visit.request, visit.browser)
        return self.nowhere()

    async def guest(self, visit: Visit) -> Guest | None:
        """Return who asks, if they may come in now."""
        found = await self._entrance.signed_in(visit.browser)
        if found is None:
            return None
        person = replace(self._person_of(found.user), source_ip=visit.browser.source_ip)
        if person.roles.isdisjoint(READERS):
            return None
        recent = self._clock() - found.proven_at < RECENT_S
        return Guest(visit=visit, person=person, user=found.user, recent=recent)

    async def _refused(self, guest: Guest, error: GatewayError) -> Response:
        """Say why not, in the frame, once it is on record."""
        if isinstance(error, Refusal | Fault):
            await self._visits.record(error, guest.visit.request, guest.visit.browser)
        status = next((code for kind, code in _STATUS if isinstance(error, kind)), _WENT_WRONG)
        return await self.page(
            guest,
            "refused.html",
            http_status=status,
            error=error,
            asks_again=isinstance(error, SignInAgain),
            back=_back(guest),
        )


def elsewhere(visits: Visits, frame: Frame) -> list[Route]:
    """Return the routes of everything else below `/desk`: whoever asks learns nothing."""

    async def nowhere(visit: Visit) -> Response:
        is_guest = await frame.guest(visit) is not None
        return frame.nowhere() if is_guest else await frame.turned_away(visit)

    handler: Handler = nowhere
    paths = (DESK_PATH, f"{DESK_PATH}/{{rest:path}}")
    return [
        visits.route(path, get=handler, post=handler, most_fields=_MOST_FIELDS) for path in paths
    ]


def _back(guest: Guest) -> str:
    return guest.here if guest.visit.request.method == "GET" else DESK_PATH
