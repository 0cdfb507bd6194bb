"""One request of a person's browser: who it is, what it sends, and a page whatever happens."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from gateway.domain._value import value
from gateway.domain.decisions import Verdict
from gateway.domain.identity import User
from gateway.domain.throttle import Throttle
from gateway.errors import AuditUnavailable, Fault, NotFound, Refusal
from gateway.oauth.errors import OAuthError
from gateway.signin.browser import Browser
from gateway.signin.errors import NotSignedIn, SignInRefused, Throttled
from gateway.signin.journal import Event, Journal
from gateway.web.cookies import BrowserCookies, FromBrowser
from gateway.web.forms import MOST_FIELDS, BadForm, form_of, query_of
from gateway.web.guard import UNREAD
from gateway.web.pages import DESK_SCRIPT_PATH, DESK_STYLE_PATH, ICON_PATH, STYLE_PATH, Pages

logger = logging.getLogger(__name__)

_MOST_RECORDED = 300
"""Refusals of one address that are a record each, in a minute; the others are counted."""
_LONGEST_TOLD = 300


@value
class Visit:
    """A GET of a page, or a form of ours that came back."""

    request: Request
    browser: Browser
    form: Mapping[str, str] = field(repr=False)
    """The fields of the form; empty for a GET."""

    @property
    def query(self) -> Mapping[str, str]:
        """The parameters behind `?`.

        Raises:
            BadForm: They cannot be read, or one is repeated.

        """
        return query_of(self.request)

    def token(self, form: str, *bound: str) -> str:
        """Return the token of a form that only this person can send from this browser."""
        return self.browser.token(form, self.browser.session, *bound)

    def require_token(self, form: str, *bound: str) -> None:
        """Go on only if the form carries it.

        Raises:
            Forged: It does not.

        """
        self.browser.require(self.form.get("csrf", ""), form, self.browser.session, *bound)


Handler = Callable[[Visit], Awaitable[Response]]


class Visits:
    """Makes routes whose every answer is a page of ours."""

    def __init__(
        self,
        pages: Pages,
        cookies: BrowserCookies,
        *,
        origin: str,
        journal: Journal,
        user_of: Callable[[Browser], Awaitable[User | None]],
    ) -> None:
        """Take forms from pages of `origin` alone: scheme and authority of the public URL.

        What is refused stands in `journal`, with whom `user_of` finds signed in.
        """
        self.pages = pages
        self.cookies = cookies
        self._origin = origin
        self._journal = journal
        self._user_of = user_of
        self._refusals = Throttle(allowed=_MOST_RECORDED, window_s=60.0)

    def route(
        self,
        path: str,
        *,
        get: Handler | None = None,
        post: Handler | None = None,
        most_fields: int = MOST_FIELDS,
    ) -> Route:
        """Return the route of one page, whose form has at most so many fields."""
        handlers = {"GET": get, "HEAD": get, "POST": post}
        taken = {method: handler for method, handler in handlers.items() if handler}
        return Route(path, _Page(self, taken, most_fields))

    @property
    def assets(self) -> list[Route]:
        """The routes of what pages are made of beside themselves."""

        async def style(_: Visit) -> Response:
            return self.pages.style()

        async def icon(_: Visit) -> Response:
            return self.pages.icon()

        async def desk_style(_: Visit) -> Response:
            return self.pages.desk_style()

        async def desk_script(_: Visit) -> Response:
            return self.pages.desk_script()

        return [
            self.route(DESK_SCRIPT_PATH, get=desk_script),
            self.route(STYLE_PATH, get=style),
            self.route(DESK_STYLE_PATH, get=desk_style),
            self.route(ICON_PATH, get=icon),
        ]

    async def answer(
        self, request: Request, handlers: Mapping[str, Handler], most_fields: int
    ) -> Response:
        """Return the page that answers `request`."""
        handler = handlers.get(request.method)
        if handler is None:
            allow = {"allow": ", ".join(handlers)}
            return self.pages.message(
                "Not here", "This page takes no such request.", 405, headers=allow
            )
        browser = self.cookies.browser(request)
        try:
            if request.method == "POST":
                form = await form_of(request, self._origin, most_fields)
                return await handler(Visit(request=request, browser=browser, form=form))
            known = self.cookies.known(browser)
            response = await handler(Visit(request=request, browser=known, form={}))
            return response if known == browser else self.cookies.bind(response, known)
        except (Refusal, Fault) as error:
            try:
                await self.record(error, request, browser)
            except AuditUnavailable as fault:
                return self.refused(fault)
            return self.refused(error)

    async def record(self, error: Refusal | Fault, request: Request, browser: Browser) -> None:
        """Put a refusal on record that is not yet; of one address so many a minute, then counted.

        Raises:
            AuditUnavailable: It could not be recorded.

        """
        if error.recorded or isinstance(error, AuditUnavailable):
            return
        now = asyncio.get_running_loop().time()
        if self._refusals.wait_s(browser.source_ip, now):
            request.scope[UNREAD] = error.code
            return
        self._refusals.note(browser.source_ip, now)
        # A server that is not there is whatever somebody wrote.
        server = "" if isinstance(error, NotFound) else request.path_params.get("server", "")
        await self._journal.write(
            Event(
                code=error.code,
                method=request.scope["route"].path.partition("/{")[0].strip("/"),
                source_ip=browser.source_ip,
                verdict=Verdict.DENY,
                user=await self._known(browser),
                server=str(server),
                message=(error.detail or error.public)[:_LONGEST_TOLD],
            )
        )
        error.recorded = True

    async def _known(self, browser: Browser) -> User | None:
        try:
            return await self._user_of(browser)
        except (Refusal, Fault):
            return None

    def refused(self, error: Refusal | Fault) -> Response:
        """Return the page that says why not; it shows nothing of what was sent."""
        match error:
            case Throttled():
                headers = {"retry-after": str(error.wait_s)}
                return self.pages.message("Too many attempts", error.public, 429, headers=headers)
            case NotSignedIn():
                link = ("/sign-in", "Sign in")
                return self.pages.message("Signed out", error.public, error.status, link=link)
            case OAuthError():
                return self.pages.message("This did not work", error.public, error.error.status)
            case SignInRefused() | BadForm():
                return self.pages.message("This did not work", error.public, error.status)
            case Refusal():
                return self.pages.message("This did not work", error.public, 400)
            case _:
                # Those who could mend it learn why; whoever sees the page does not.
                logger.warning("a page is not available: %s", error)
                text = "This is not available at the moment. Try again later."
                return self.pages.message("Not available", text, 503)


class _Page:
    """Starlette gives an object every method; a function would get a bare 405 of its own."""

    def __init__(self, visits: Visits, handlers: Mapping[str, Handler], most_fields: int) -> None:
        self._visits = visits
        self._handlers = handlers
        self._most_fields = most_fields

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = FromBrowser(scope, receive)
        response = await self._visits.answer(request, self._handlers, self._most_fields)
        await response(scope, receive, send)
