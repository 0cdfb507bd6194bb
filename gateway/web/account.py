"""The pages for people's own affairs: a first password, devices, what is theirs to take back."""

from collections.abc import Callable

from starlette.responses import Response
from starlette.routing import Route

from gateway.domain.grants import DeviceRequest
from gateway.domain.identity import User
from gateway.signin.account import Account
from gateway.signin.consent import in_words
from gateway.signin.device import Devices, user_code
from gateway.signin.errors import NoSuchCode, NotSignedIn, SignInRefused, Unacceptable
from gateway.signin.granting import FindClient
from gateway.signin.links import PATH as SETUP_PATH
from gateway.signin.links import Chosen, Invitation, SetupLinks
from gateway.signin.sign_in import ACCOUNT_PATH, DESK_PATH, DEVICE_PATH, SignIn
from gateway.signin.sign_in import PATH as SIGN_IN_PATH
from gateway.signin.transactions import Purpose
from gateway.web.forms import BadForm
from gateway.web.signin import answer_of, described
from gateway.web.visits import Visit, Visits
from gateway.web.words import href


class AccountPages:
    """Setup links, devices, and the account."""

    def __init__(
        self,
        visits: Visits,
        sign_in: SignIn,
        *,
        links: SetupLinks,
        devices: Devices,
        account: Account,
        find_client: FindClient,
        desk_of: Callable[[User], str],
        origin: str,
    ) -> None:
        """Show resources as URIs under `origin`, the public URL.

        `desk_of` gives the address of the desk, for a person who is signed in; empty for whoever has
        none.
        """
        self._visits = visits
        self._pages = visits.pages
        self._sign_in = sign_in
        self._links = links
        self._devices = devices
        self._account = account
        self._find_client = find_client
        self._desk_of = desk_of
        self._origin = origin

    @property
    def routes(self) -> list[Route]:
        route = self._visits.route
        return [
            route(SETUP_PATH, get=self._setup_page, post=self._setup),
            route(DEVICE_PATH, get=self._device_page, post=self._device),
            route(ACCOUNT_PATH, get=self._account_page, post=self._take_back),
        ]

    async def _setup_page(self, visit: Visit) -> Response:
        link = visit.query.get("link", "")
        invitation = await self._links.invitation(link, visit.browser)
        return self._setup_form(visit, link, invitation)

    async def _setup(self, visit: Visit) -> Response:
        form = visit.form
        link = form.get("link", "")
        visit.browser.require(form.get("csrf", ""), "setup", link)
        chosen = Chosen(
            name=form.get("username", ""),
            password=form.get("password", ""),
            repeated=form.get("repeated", ""),
        )
        try:
            user = await self._links.redeem(link, chosen, visit.browser)
        except Unacceptable as refusal:
            await self._visits.record(refusal, visit.request, visit.browser)
            invitation = await self._links.invitation(link, visit.browser)
            return self._setup_form(visit, link, invitation, refusal)
        desk = self._desk_of(user)
        if desk == DESK_PATH:
            desk = href(SIGN_IN_PATH, to=desk)
        onward = (desk, "Sign in and open the desk") if desk else (SIGN_IN_PATH, "Sign in")
        return self._pages.message("Welcome", "Your password is set.", link=onward)

    async def _device_page(self, visit: Visit) -> Response:
        code = user_code(visit.query.get("user_code", ""))
        if await self._sign_in.user_of(visit.request.cookies) is None:
            return await self._ask_to_sign_in(visit, Purpose(name="device", detail=code))
        return self._code_form(visit, code)

    async def _device(self, visit: Visit) -> Response:
        user = await self._required(visit)
        code = user_code(visit.form.get("user_code", ""))
        if visit.form.get("action") == "check":
            visit.require_token("device")
            return await self._device_question(visit, code, user)
        since = visit.form.get("since", "")
        visit.require_token("device", code, since)
        yes = answer_of(visit.form)
        request = await self._devices.waiting(code, user, visit.browser)
        client = self._find_client(request.client_id)
        if client is None or str(client.created_at) != since:
            raise NoSuchCode  # its document has changed since: it is another one than was shown
        await self._devices.answer(request, user, visit.browser, yes=yes)
        if yes:
            return self._pages.message("Done", "Your device is signed in. Go back to it.")
        return self._pages.message("Refused", "Your device was not signed in.")

    async def _account_page(self, visit: Visit) -> Response:
        user = await self._sign_in.user_of(visit.request.cookies)
        if user is None:
            return await self._ask_to_sign_in(visit, Purpose(name="account"))
        overview = await self._account.overview(user, visit.browser)
        clients = {
            access.client_id: self._find_client(access.client_id) for access in overview.access
        }
        return await self._pages.beside(
            "account.html",
            user=user,
            desk=self._desk_of(user),
            overview=overview,
            clients=clients,
            in_words=in_words,
            csrf=visit.token("account"),
            sign_out_csrf=visit.token("sign-out"),
        )

    async def _take_back(self, visit: Visit) -> Response:
        user = await self._required(visit)
        visit.require_token("account")
        which = visit.form.get("which", "")
        match visit.form.get("action"):
            case "end-session":
                await self._account.end_session(user, which, visit.browser)
            case "withdraw":
                await self._account.withdraw(user, which, visit.browser)
            case "disconnect":
                await self._account.disconnect(user, which, visit.browser)
            case _:
                raise BadForm("This form says nothing to do.")
        return self._pages.redirect(ACCOUNT_PATH)

    async def _required(self, visit: Visit) -> User:
        user = await self._sign_in.user_of(visit.request.cookies)
        if user is None:
            raise NotSignedIn
        return user

    async def _ask_to_sign_in(self, visit: Visit, purpose: Purpose) -> Response:
        begun = await self._sign_in.begin(purpose, visit.browser)
        return self._pages.redirect(self._sign_in.path_to(begun))

    def _setup_form(
        self,
        visit: Visit,
        link: str,
        invitation: Invitation,
        refusal: SignInRefused | None = None,
    ) -> Response:
        return self._pages.page(
            "setup.html",
            refusal.status if refusal else 200,
            link=link,
            csrf=visit.browser.token("setup", link),
            user=invitation.user,
            problem=refusal.public if refusal else "",
        )

    def _code_form(self, visit: Visit, code: str, refusal: SignInRefused | None = None) -> Response:
        return self._pages.page(
            "device.html",
            refusal.status if refusal else 200,
            csrf=visit.token("device"),
            code=code,
            problem=refusal.public if refusal else "",
        )

    async def _device_question(self, visit: Visit, code: str, user: User) -> Response:
        try:
            request = await self._devices.waiting(code, user, visit.browser)
        except NoSuchCode as refusal:
            return self._code_form(visit, code, refusal)
        client = self._find_client(request.client_id)
        if client is None:
            gone = NoSuchCode()
            await self._visits.record(gone, visit.request, visit.browser)
            return self._code_form(visit, code, gone)
        return self._pages.page(
            "device_question.html",
            csrf=visit.token("device", code, str(client.created_at)),
            code=_grouped(request),
            client=client,
            resource=self._origin + request.endpoint,
            scopes=in_words(request.scopes),
            user=user,
            **described(client),
        )


def _grouped(request: DeviceRequest) -> str:
    """Return the code as the device shows it (RFC 8628 section 6.1)."""
    middle = len(request.user_code) // 2
    return f"{request.user_code[:middle]}-{request.user_code[middle:]}"
