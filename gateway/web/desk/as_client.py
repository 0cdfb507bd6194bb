"""The desk on a listener of its own: a client of our authorization server, like any other.

The browser gets an opaque cookie; the tokens stay in the process. What ends the grant, the person or the
client ends the desk at the next request, for each request asks whether the token is good.
"""

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any
from urllib.parse import quote, urlencode

from starlette.responses import Response
from starlette.routing import Route

from gateway.domain._value import value
from gateway.domain.bounded import ENTRY, Bounded
from gateway.domain.identity import BearerToken, User
from gateway.errors import IdentityUnavailable, Unauthenticated
from gateway.oauth.metadata import AUTHORIZE_PATH
from gateway.oauth.records import TokenAnswer, TokenRequest
from gateway.oauth.resources import ADMIN_API
from gateway.ports import Authenticator, Clock
from gateway.signin.browser import Browser, Random, digest, new_secret
from gateway.signin.errors import Forged, SignInRefused
from gateway.signin.sessions import SignedIn
from gateway.signin.sign_in import ACCOUNT_PATH, AFTER, DESK_PATH
from gateway.web.signin import place_at_the_desk
from gateway.web.visits import Visit, Visits
from gateway.web.words import href

ENTER_PATH = f"{DESK_PATH}/enter"
ENTERED_PATH = f"{DESK_PATH}/entered"
LEAVE_PATH = f"{DESK_PATH}/leave"

_MOST_SEATS = 1_000
_MOST_OF_ONE = 8
"""Seats of one person: for another one, that which they took first is gone."""
_OCTETS = 16 * 1024**2
_OK = 200
_PASSING = frozenset({429, 503})
"""Answers after which the same may be asked again."""
_STATE, _VERIFIER = "desk-state", "desk-verifier"

Ask = Callable[[TokenRequest], Awaitable[TokenAnswer]]


@value
class Seat:
    """What somebody at the desk was given for it."""

    access: str = field(repr=False)
    refresh: str = field(repr=False)
    user_id: str
    """Whose it is."""
    proven_at: float
    ends_at: float


class Seats:
    """Who is at the desk, by the hash of their cookie. It lasts as long as the process."""

    def __init__(self) -> None:
        self._seats: Bounded[str, Seat] = Bounded(most=_MOST_SEATS, octets=_OCTETS)
        self._of: Bounded[str, tuple[str, ...]] = Bounded(most=_MOST_SEATS, octets=_OCTETS)
        """By whose they are, in the order in which they were taken: nobody's take another's place."""
        self.refreshing = asyncio.Lock()
        """One at a time: a refresh token is used once."""

    def __len__(self) -> int:
        return len(self._seats)

    def of(self, session: str, *, now: float) -> Seat | None:
        """Return the seat of that cookie, unless its time is over."""
        seat = self._seats.get(digest(session)) if session else None
        return seat if seat is not None and now < seat.ends_at else None

    def keep(self, session: str, seat: Seat) -> None:
        key, octets = digest(session), ENTRY + len(seat.access) + len(seat.refresh)
        earlier = self._of.get(seat.user_id) or ()
        own = [one for one in earlier if one in self._seats and one != key]
        for gone in own[: 1 - _MOST_OF_ONE]:
            self._seats.pop(gone)
        self._seats.put(key, seat, octets)
        self._of.put(seat.user_id, (*own[1 - _MOST_OF_ONE :], key), _MOST_OF_ONE * ENTRY)

    def leave(self, session: str) -> None:
        self._seats.pop(digest(session))


@value
class Own:
    """The client that the desk is, and where it and its authorization server are."""

    url: str
    """The origin that browsers know the desk by."""
    issuer: str
    client_id: str
    secret: str = field(repr=False)
    lifetime_s: float

    @property
    def redirect_uri(self) -> str:
        return self.url + ENTERED_PATH

    @property
    def authorization(self) -> str:
        """The header by which it proves itself (RFC 6749 section 2.3.1)."""
        pair = f"{quote(self.client_id, safe='')}:{quote(self.secret, safe='')}"
        return "Basic " + base64.b64encode(pair.encode()).decode()


class AsClient:
    """The entrance of a listener of the desk's own."""

    def __init__(
        self,
        visits: Visits,
        own: Own,
        seats: Seats,
        *,
        token: Ask,
        revoke: Ask,
        authenticator: Authenticator,
        find_user: Callable[[str], User | None],
        clock: Clock,
        random: Random,
    ) -> None:
        """Trade codes at `token` and give tokens back at `revoke`, as anybody does."""
        self._visits = visits
        self._own = own
        self._seats = seats
        self._token = token
        self._revoke = revoke
        self._authenticator = authenticator
        self._find_user = find_user
        self._clock = clock
        self._random = random
        self.account = own.issuer + ACCOUNT_PATH
        self.sign_out = LEAVE_PATH

    @property
    def routes(self) -> Sequence[Route]:
        route = self._visits.route
        return [
            route(ENTER_PATH, get=self._enter),
            route(ENTERED_PATH, get=self._entered),
            route(LEAVE_PATH, get=self._ask_to_leave, post=self._leave),
        ]

    def way_in(self, to: str, *, anew: bool = False) -> str:
        """Return the address at which the desk asks the authorization server who somebody is."""
        return href(ENTER_PATH, to=to, anew="yes" if anew else None)

    async def signed_in(self, browser: Browser) -> SignedIn | None:
        """Return whose token the browser's seat has, if it is good now.

        Raises:
            IdentityUnavailable: It ran out, and there is no other at the moment.

        """
        seat = self._seats.of(browser.session, now=self._clock())
        if seat is None:
            return None
        user = await self._holder(seat.access)
        if user is None:
            seat = await self._refreshed(browser, seat)
            user = None if seat is None else await self._holder(seat.access)
        if seat is None or user is None:
            self._seats.leave(browser.session)
            return None
        return SignedIn(user=user, proven_at=seat.proven_at)

    async def _holder(self, access: str) -> User | None:
        try:
            credential = BearerToken(text=access)
            principal = await self._authenticator.authenticate(credential, ADMIN_API)
        except Unauthenticated:
            return None
        return self._find_user(principal.user_id)

    async def _refreshed(self, browser: Browser, seat: Seat) -> Seat | None:
        async with self._seats.refreshing:
            held = self._seats.of(browser.session, now=self._clock())
            if held is None or held != seat:
                return held
            form = {"grant_type": "refresh_token", "refresh_token": seat.refresh}
            answer = await self._asked(self._token, form, browser)
            if answer.status in _PASSING:
                raise IdentityUnavailable("your sign-in cannot be looked at now; try again")
            if answer.status != _OK:
                return None
            # Who is too fast, or in a race, gets an access token alone and keeps what they have.
            refresh = answer.body.get("refresh_token", seat.refresh)
            seat = replace(seat, access=answer.body["access_token"], refresh=refresh)
            self._seats.keep(browser.session, seat)
            return seat

    async def _enter(self, visit: Visit) -> Response:
        """Lead to the authorization server, which asks the person."""
        place = place_at_the_desk(visit.query.get("to", "")) or ""
        nonce = new_secret(self._random)
        asked = {
            "response_type": "code",
            "client_id": self._own.client_id,
            "redirect_uri": self._own.redirect_uri,
            "resource": self._own.issuer + ADMIN_API,
            "state": _state(visit.browser, nonce, place),
            "code_challenge": _challenge(_verifier(visit.browser, nonce)),
            "code_challenge_method": "S256",
        }
        if "anew" in visit.query:
            asked["prompt"] = "login"
        return self._visits.pages.redirect(f"{self._own.issuer}{AUTHORIZE_PATH}?{urlencode(asked)}")

    async def _entered(self, visit: Visit) -> Response:
        """Take what the authorization server answered, once it is known to be for this browser."""
        nonce, place = _read(visit.query.get("state", ""), visit.browser)
        if visit.query.get("iss") != self._own.issuer:
            raise Forged  # another server's answer (RFC 9207)
        if "code" not in visit.query:
            raise SignInRefused("You did not let the desk act for you; nothing was opened.")
        form = {
            "grant_type": "authorization_code",
            "code": visit.query["code"],
            "redirect_uri": self._own.redirect_uri,
            "code_verifier": _verifier(visit.browser, nonce),
        }
        answer = await self._asked(self._token, form, visit.browser)
        user = await self._holder(answer.body["access_token"]) if answer.status == _OK else None
        if user is None:
            raise SignInRefused("This sign-in did not work. Begin again.")
        session = new_secret(self._random)
        self._seats.leave(visit.browser.session)
        self._seats.keep(session, self._seat(answer.body, user))
        return self._visits.cookies.sign_in(
            self._visits.pages.redirect(AFTER["desk"](place)), session
        )

    def _seat(self, body: Mapping[str, Any], user: User) -> Seat:
        now = self._clock()
        access, refresh = _tokens(body)
        return Seat(
            access=access,
            refresh=refresh,
            user_id=user.id,
            proven_at=min(float(body.get("auth_time", 0)), now),
            ends_at=now + self._own.lifetime_s,
        )

    async def _ask_to_leave(self, visit: Visit) -> Response:
        return self._visits.pages.page(
            "sign_out.html",
            csrf=visit.token(LEAVE_PATH),
            action=LEAVE_PATH,
            account=self.account,
        )

    async def _leave(self, visit: Visit) -> Response:
        """Give the tokens back and forget them: whoever has the cookie has nothing any more."""
        visit.require_token(LEAVE_PATH)
        seat = self._seats.of(visit.browser.session, now=self._clock())
        self._seats.leave(visit.browser.session)
        if seat is not None:
            await self._asked(self._revoke, {"token": seat.refresh}, visit.browser)
        page = self._visits.pages.message(
            "Signed out",
            "You are signed out of the desk. You may still be signed in at the gateway itself.",
            link=(self.account, "Your account"),
        )
        return self._visits.cookies.sign_out(page)

    async def _asked(self, ask: Ask, form: Mapping[str, str], browser: Browser) -> TokenAnswer:
        return await ask(
            TokenRequest(
                body=urlencode(form).encode(),
                authorization=(self._own.authorization,),
                source_ip=browser.source_ip,
            )
        )


def _tokens(body: Mapping[str, Any]) -> tuple[str, str]:
    return body["access_token"], body["refresh_token"]


def _state(browser: Browser, nonce: str, place: str) -> str:
    """Return what comes back with the answer: whose sign-in it is, and where it leads."""
    return f"{nonce}.{browser.token(_STATE, nonce, place)}.{place}"


def _read(state: str, browser: Browser) -> tuple[str, str]:
    """Return nonce and place of a state that we gave this very browser.

    Raises:
        Forged: We did not.

    """
    nonce, _, rest = state.partition(".")
    token, _, place = rest.partition(".")
    browser.require(token, _STATE, nonce, place)
    return nonce, place


def _verifier(browser: Browser, nonce: str) -> str:
    """Return the secret that only this browser's sign-in of this nonce has (RFC 7636 section 4.1)."""
    return hmac.new(browser.secret.encode(), f"{_VERIFIER}:{nonce}".encode(), "sha256").hexdigest()


def _challenge(verifier: str) -> str:
    hashed = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(hashed).rstrip(b"=").decode()
