"""The pages on which people connect their account at an upstream server."""

from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response
from starlette.routing import Route

from gateway.broker import (
    CALLBACK_PATH,
    CONNECT_PATH,
    Connecting,
    Prospect,
    scopes_in,
)
from gateway.domain.identity import User
from gateway.signin.browser import digest
from gateway.signin.errors import NotSignedIn
from gateway.signin.sign_in import ACCOUNT_PATH, SignIn
from gateway.signin.transactions import Purpose
from gateway.web.signin import answer_of
from gateway.web.visits import Visit, Visits


class ConnectPages:
    """Asks before a browser is sent to somebody else's authorization server, and takes it back."""

    def __init__(self, visits: Visits, sign_in: SignIn, connecting: Connecting) -> None:
        self._visits = visits
        self._pages = visits.pages
        self._sign_in = sign_in
        self._connecting = connecting

    @property
    def routes(self) -> list[Route]:
        route = self._visits.route
        return [
            route(CALLBACK_PATH, get=self._returned),
            route(f"{CALLBACK_PATH}/{{place}}", get=self._returned),
            route(f"{CONNECT_PATH}{{server}}", get=self._question, post=self._answer),
        ]

    async def _question(self, visit: Visit) -> Response:
        server = self._connecting.require(_server(visit)).server
        scopes = scopes_in(visit.query.get("scope", "").split())
        user = await self._sign_in.user_of(visit.request.cookies)
        if user is None:
            return await self._ask_to_sign_in(visit, server, scopes)
        prospect = await self._connecting.prospect(server, user.id, scopes=scopes)
        wider = " ".join(scopes)
        return self._pages.page(
            "connect.html",
            user=user,
            prospect=prospect,
            wider=wider,
            csrf=visit.token("connect", *_bound(prospect, wider)),
        )

    async def _answer(self, visit: Visit) -> Response:
        user = await self._required(visit)
        server, form = _server(visit), visit.form
        wider = form.get("scope", "")
        shown = Prospect(
            server=server,
            issuer=form.get("issuer", ""),
            resource=form.get("resource", ""),
            scopes=tuple(form.get("asked", "").split()),
        )
        # Bound to what was shown: nobody is sent to a server, or for something, that they did not agree to.
        visit.require_token("connect", *_bound(shown, wider))
        scopes = scopes_in(wider.split())
        if not answer_of(form):
            await self._connecting.decline(
                server,
                user.id,
                scopes=scopes,
                issuer=shown.issuer,
                source_ip=visit.browser.source_ip,
            )
            return self._pages.message("Not connected", "Nothing was connected.")
        location = await self._connecting.begin(
            shown,
            user.id,
            scopes=scopes,
            browser_hash=digest(visit.browser.secret),
            source_ip=visit.browser.source_ip,
        )
        # A page and not a redirect: `form-action` holds for every hop that follows a form.
        return self._pages.page("leave.html", location=location)

    async def _returned(self, visit: Visit) -> Response:
        user = await self._required(visit)
        connected = await self._connecting.finish(
            visit.request.scope["query_string"],
            user.id,
            path=visit.request.scope["path"],
            browser_hash=digest(visit.browser.secret),
            source_ip=visit.browser.source_ip,
        )
        return self._pages.message(
            "Connected",
            f"Your account at {connected.server} is connected. Go back to your application and try "
            "again.",
            link=(ACCOUNT_PATH, "Your account"),
        )

    async def _required(self, visit: Visit) -> User:
        user = await self._sign_in.user_of(visit.request.cookies)
        if user is None:
            raise NotSignedIn
        return user

    async def _ask_to_sign_in(self, visit: Visit, server: str, scopes: tuple[str, ...]) -> Response:
        detail = server
        if scopes:
            detail += f"?{urlencode({'scope': ' '.join(scopes)})}"
        begun = await self._sign_in.begin(Purpose(name="connect", detail=detail), visit.browser)
        return self._pages.redirect(self._sign_in.path_to(begun))


def _bound(shown: Prospect, wider: str) -> tuple[str, ...]:
    return shown.server, shown.issuer, shown.resource, " ".join(shown.scopes), wider


def _server(visit: Visit) -> str:
    parameters: dict[str, Any] = visit.request.path_params
    return str(parameters["server"])
