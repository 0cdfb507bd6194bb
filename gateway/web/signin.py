"""The pages on which people sign in and answer what clients ask for."""

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from gateway.domain.grants import Transaction
from gateway.domain.identity import Client
from gateway.oauth.authorization import RedirectedError
from gateway.oauth.redirects import is_on_the_device, shown_host
from gateway.signin.consent import in_words
from gateway.signin.errors import NotSignedIn, Throttled, WrongCredentials
from gateway.signin.granting import Granting, Question
from gateway.signin.links import NOBODY_YET
from gateway.signin.sign_in import ACCOUNT_PATH, CONSENT_PATH, DESK_PATH, Entered, SignIn
from gateway.signin.sign_in import PATH as SIGN_IN_PATH
from gateway.signin.transactions import Purpose
from gateway.web.forms import BadForm
from gateway.web.visits import Visit, Visits

AUTHORIZE_PATH = "/oauth/authorize"
SIGN_OUT_PATH = "/sign-out"

_LONGEST_PLACE = 1000
_OWN_PAGES = frozenset({"authorize", "desk", "device", "account"})
"""Purposes that go on with a page of ours, whatever happens; what follows others may lead away."""


class SignInPages:
    """Authorization requests, signing in and out, consent."""

    def __init__(self, visits: Visits, sign_in: SignIn, granting: Granting, *, origin: str) -> None:
        """Show resources as URIs under `origin`, the public URL."""
        self._visits = visits
        self._pages = visits.pages
        self._cookies = visits.cookies
        self._sign_in = sign_in
        self._granting = granting
        self._origin = origin

    @property
    def routes(self) -> list[Route]:
        route = self._visits.route
        return [
            route(AUTHORIZE_PATH, get=self._authorize),
            route(SIGN_IN_PATH, get=self._sign_in_page, post=self._with_password),
            route(SIGN_IN_PATH + "/{provider}", get=self._to_provider),
            route(SIGN_IN_PATH + "/{provider}/callback", get=self._from_provider),
            route(CONSENT_PATH, get=self._consent_page, post=self._consent),
            route(SIGN_OUT_PATH, get=self._sign_out_page, post=self._sign_out),
        ]

    async def _authorize(self, visit: Visit) -> Response:
        try:
            begun = await self._granting.begin(visit.request.scope["query_string"], visit.browser)
        except RedirectedError as refusal:
            return await self._told_to_client(refusal, visit)
        if isinstance(begun, str):
            return self._pages.redirect(begun)
        return self._pages.redirect(self._sign_in.path_to(begun))

    async def _told_to_client(self, refusal: RedirectedError, visit: Visit) -> Response:
        """Send the error on at once only for somebody whom we know (RFC 9700 section 4.11.2)."""
        if await self._sign_in.user_of(visit.request.cookies) is not None:
            return self._pages.redirect(refusal.location)
        return self._pages.page(
            "refused.html",
            400,
            text=refusal.public,
            location=refusal.location,
            host=shown_host(refusal.redirect_uri),
        )

    async def _sign_in_page(self, visit: Visit) -> Response:
        transaction_id = visit.query.get("transaction")
        if transaction_id is None:
            begun = await self._sign_in.begin(_purpose(visit.query.get("to", "")), visit.browser)
            return self._pages.redirect(self._sign_in.path_to(begun))
        transaction = await self._sign_in.transaction(transaction_id, visit.browser)
        providers = self._sign_in.providers
        if len(providers) == 1 and not self._sign_in.by_password and "choose" not in visit.query:
            (only,) = providers
            return self._pages.redirect(
                await self._sign_in.to_provider(transaction, only, visit.browser)
            )
        return self._form(transaction, visit)

    async def _with_password(self, visit: Visit) -> Response:
        form = visit.form
        transaction = await self._sign_in.transaction(form.get("transaction", ""), visit.browser)
        visit.browser.require(form.get("csrf", ""), "sign-in", transaction.id)
        name, password = form.get("username", ""), form.get("password", "")
        try:
            entered = await self._sign_in.with_password(transaction, name, password, visit.browser)
        except (WrongCredentials, Throttled) as refusal:
            await self._visits.record(refusal, visit.request, visit.browser)
            return self._form(transaction, visit, refusal)
        if transaction.purpose in _OWN_PAGES:
            return self._entered(entered)
        # A form's answer must not redirect to somewhere that may redirect to another site.
        return self._cookies.sign_in(self._leave(entered.path), entered.session)

    async def _to_provider(self, visit: Visit) -> Response:
        transaction = await self._sign_in.transaction(
            visit.query.get("transaction", ""), visit.browser
        )
        provider = visit.request.path_params["provider"]
        return self._pages.redirect(
            await self._sign_in.to_provider(transaction, provider, visit.browser)
        )

    async def _from_provider(self, visit: Visit) -> Response:
        provider = visit.request.path_params["provider"]
        entered = await self._sign_in.from_provider(provider, visit.query, visit.browser)
        return self._entered(entered)

    async def _consent_page(self, visit: Visit) -> Response:
        transaction_id = visit.query.get("transaction", "")
        try:
            question = await self._granting.question(transaction_id, visit.browser)
        except NotSignedIn:
            return self._pages.redirect(f"{SIGN_IN_PATH}?transaction={transaction_id}")
        try:
            location = await self._granting.settled(question, visit.browser)
        except RedirectedError as refusal:
            location = refusal.location
        if location is not None:
            return self._leave(location)
        return self._pages.page("consent.html", **self._asked(question, visit))

    async def _consent(self, visit: Visit) -> Response:
        transaction_id = visit.form.get("transaction", "")
        question = await self._granting.question(transaction_id, visit.browser)
        visit.require_token("consent", *_bound(question))
        yes = answer_of(visit.form)
        try:
            location = await self._granting.answer(
                question, visit.browser, yes=yes, new_task=_is_new_task(visit.form)
            )
        except RedirectedError as refusal:
            location = refusal.location
        return self._leave(location)

    async def _sign_out_page(self, visit: Visit) -> Response:
        return self._pages.page(
            "sign_out.html",
            csrf=visit.token("sign-out"),
            action=SIGN_OUT_PATH,
            account=ACCOUNT_PATH,
        )

    async def _sign_out(self, visit: Visit) -> Response:
        visit.require_token("sign-out")
        await self._sign_in.out(visit.browser)
        page = self._pages.message(
            "Signed out", "You are signed out in this browser.", link=(SIGN_IN_PATH, "Sign in")
        )
        return self._cookies.sign_out(page)

    def _entered(self, entered: Entered) -> Response:
        return self._cookies.sign_in(self._pages.redirect(entered.path), entered.session)

    def _leave(self, location: str) -> Response:
        """Return a page that leads to `location` by itself.

        Not a redirect: browsers hold every hop after a form to `form-action`, the client's own too.
        """
        return self._pages.page("leave.html", location=location)

    def _form(
        self,
        transaction: Transaction,
        visit: Visit,
        refusal: WrongCredentials | Throttled | None = None,
    ) -> Response:
        headers = {"retry-after": str(refusal.wait_s)} if isinstance(refusal, Throttled) else {}
        return self._pages.page(
            "sign_in.html",
            refusal.status if refusal else 200,
            headers=headers,
            transaction=transaction.id,
            csrf=visit.browser.token("sign-in", transaction.id),
            nobody=NOBODY_YET if self._sign_in.nobody_yet else "",
            by_password=self._sign_in.by_password,
            providers=self._sign_in.providers,
            problem=refusal.public if refusal else "",
        )

    def _asked(self, question: Question, visit: Visit) -> Mapping[str, Any]:
        request = question.request
        return {
            "client": question.client,
            "resource": self._origin + request.endpoint,
            "scopes": in_words(request.scopes),
            "host": shown_host(request.redirect_uri),
            "on_the_device": is_on_the_device(request.redirect_uri),
            "user": question.user,
            "read": question.read,
            "read_by_all": question.read_by_all,
            "transaction": question.transaction.id,
            "csrf": visit.token("consent", *_bound(question)),
            **described(question.client),
        }


def _purpose(to: str) -> Purpose:
    """Return what a sign-in is for that leads to the page `to`, if that is one of the desk."""
    place = place_at_the_desk(to)
    return Purpose(name="account") if place is None else Purpose(name="desk", detail=place)


def place_at_the_desk(to: str) -> str | None:
    """Return what of the address `to` stands behind the desk's own; `None` if it leads elsewhere."""
    place = to.removeprefix(DESK_PATH)
    if place == to or len(place) > _LONGEST_PLACE or (place and place[0] not in "/?"):
        return None
    return place


def _bound(question: Question) -> tuple[str, str]:
    """Return what an answer is to: a client whose document has changed since is another one."""
    return question.transaction.id, str(question.client.created_at)


def described(client: Client) -> Mapping[str, Any]:
    """Return how a page speaks of `client`: who vouches for its name, and the host of its id."""
    return {"kind": client.kind.value, "document_host": shown_host(client.id)}


def _is_new_task(form: Mapping[str, str]) -> bool:
    """Return whether the person ticked that a new task begins; a browser leaves out what is not."""
    match form.get("new_task"):
        case None:
            return False
        case "yes":
            return True
        case _:
            raise BadForm("This form says neither that a new task begins nor that none does.")


def answer_of(form: Mapping[str, str]) -> bool:
    """Return whether the person said yes; what is neither yes nor no is refused."""
    match form.get("action"):
        case "approve":
            return True
        case "deny":
            return False
        case _:
            raise BadForm("This form says neither yes nor no.")
