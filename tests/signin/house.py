"""The sign-in rooms over real stores and a real authorization endpoint, behind their pages."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.routing import Router

from gateway.domain.grants import DeviceRequest, Transaction
from gateway.domain.identity import AuthMethod, Client, ClientKind, User
from gateway.errors import IdentityUnavailable, Unsealable
from gateway.oauth.authorization import AuthorizationEndpoint, must_ask
from gateway.oauth.builtin import with_builtin
from gateway.oauth.documents import ClientDirectory, DocumentRules
from gateway.oauth.protocol import Lifetimes, ProtocolServer, Stores
from gateway.oauth.resources import Resources
from gateway.signin.account import Account
from gateway.signin.browser import Browser as Known
from gateway.signin.browser import CookieNames, digest
from gateway.signin.consent import Consents
from gateway.signin.device import Devices
from gateway.signin.errors import SignInRefused
from gateway.signin.granting import Granting
from gateway.signin.journal import Journal
from gateway.signin.links import SetupLinks
from gateway.signin.new_task import NewTasks
from gateway.signin.passwords import Passwords
from gateway.signin.people import PasswordCheck
from gateway.signin.providers import Departure, Federation
from gateway.signin.sessions import Sessions
from gateway.signin.sign_in import SignIn
from gateway.signin.throttle import Attempts
from gateway.signin.transactions import Transactions
from gateway.storage.identity.store import IdentityStores
from gateway.storage.runs import RunLimits
from gateway.web.account import AccountPages
from gateway.web.cookies import BrowserCookies
from gateway.web.pages import Pages
from gateway.web.signin import SignInPages
from gateway.web.visits import Visits
from tests.oauth.world import KEYS, NOW, Hand
from tests.signin.browser import Browser, Page, to_app
from tests.storage.memory import MemoryAuditLog, MemoryRunStore

HTTP = "http://127.0.0.1:8080"
HTTPS = "https://gateway.example"
CALLBACK = "https://app.example/cb"
PASSWORD = "four easy words here"
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
SOURCE = "192.0.2.7"

_HASHES: dict[str, str] = {}
"""By password: most tests are about something else than the work of making one."""


class Envelope:
    """A `Sealer` that hides nothing and binds to the row."""

    def seal(self, plain: bytes, row: str) -> str:
        return f"{row}|{plain.hex()}"

    def open(self, sealed: str, row: str) -> bytes:
        where, _, plain = sealed.partition("|")
        if where != row:
            raise Unsealable("sealed for another row")
        return bytes.fromhex(plain)


@dataclass(frozen=True)
class Vouched:
    issuer: str = "https://idp.example"
    subject: str = "bob@idp"
    name: str = "Bob"
    groups: frozenset[str] = frozenset({"users"})
    proven_at: float = 0.0


@dataclass
class Provider:
    """A `Federation` whose provider vouches for `identity` to whoever brings the state back."""

    identity: Vouched = field(default_factory=Vouched)
    outage: str = ""

    async def begin(self, provider: str, transaction: Transaction) -> Departure:
        self._require_up()
        state = f"{transaction.id}.{provider}-state"
        url = f"https://idp.example/{provider}?{urlencode({'state': state})}"
        return Departure(url=url, secrets=state.encode())

    async def finish(
        self, provider: str, transaction: Transaction, secrets: bytes, query: Mapping[str, str]
    ) -> Vouched:
        self._require_up()
        if query["state"].encode() != secrets:
            raise SignInRefused("The answer of the identity provider is not valid.")
        return self.identity

    def _require_up(self) -> None:
        if self.outage:
            raise IdentityUnavailable("not available at the moment", detail=self.outage)


class House:
    def __init__(
        self,
        folder: Path,
        *,
        url: str = HTTP,
        federation: Federation | None = None,
        providers: Mapping[str, str] | None = None,
        offers_new_tasks: bool = True,
        runs: RunLimits | None = None,
        desk: Client | None = None,
    ) -> None:
        self.url = url
        self.clock = Hand()
        self.log = MemoryAuditLog()
        self.stores = stores = IdentityStores.open(folder, clock=self.clock)
        self._numbers = iter(range(1, 1_000_000))
        self.names = CookieNames.of(url)
        resources = Resources.of(public_url=url, servers=["mail", "web"])
        find = with_builtin(stores.clients, desk)
        self.server = ProtocolServer(
            resources=resources,
            lifetimes=Lifetimes(),
            stores=Stores(users=stores.users, grants=stores.grants, sealer=Envelope()),
            keys=KEYS,
            new_id=self.new_id,
            random=self.random,
        )
        self.directory = ClientDirectory(
            find=find,
            clients=stores.clients,
            fetcher=Nowhere(),
            audit=self.log,
            clock=self.clock,
            new_id=self.new_id,
            rules=DocumentRules(),
        )
        self.journal = Journal(self.log, clock=self.clock, new_id=self.new_id, issuer=url)
        self.passwords = Passwords(self.random)
        self.sessions = Sessions(
            stores.browsers, stores.users, clock=self.clock, random=self.random, lifetime_s=3600
        )
        self.transactions = Transactions(stores.browsers, clock=self.clock, random=self.random)
        self.attempts = Attempts(self.clock, by_address=6, by_target=3)
        self.check = PasswordCheck(
            stores.users, self.passwords, self.journal, self.attempts, issuer=url
        )
        self.sign_in = SignIn(
            names=self.names,
            sessions=self.sessions,
            transactions=self.transactions,
            passwords=None if federation else self.check,
            federation=federation,
            providers=providers or {},
            users=stores.users,
            sealer=Envelope(),
            journal=self.journal,
            clock=self.clock,
            new_id=self.new_id,
        )
        self.runs = MemoryRunStore(limits=runs)
        self.consents = Consents(stores.browsers, clock=self.clock, must_ask=must_ask)
        self.granting = Granting(
            AuthorizationEndpoint(
                server=self.server,
                directory=self.directory,
                audit=self.log,
                clock=self.clock,
            ),
            find,
            sessions=self.sessions,
            transactions=self.transactions,
            consents=self.consents,
            journal=self.journal,
            new_tasks=NewTasks(
                self.runs,
                self.journal,
                offered=offers_new_tasks,
                by_person=runs is not None and runs.by_person,
            ),
        )
        self.links = SetupLinks(
            stores.users,
            self.passwords,
            self.journal,
            public_url=url,
            first_groups=lambda: frozenset({"admins", "users"}),
            clock=self.clock,
            random=self.random,
            new_id=self.new_id,
        )
        self.devices = Devices(
            stores.grants,
            self.journal,
            clock=self.clock,
            new_id=self.new_id,
            grant_lifetime_s=90 * 86400,
        )
        self.account = Account(
            stores.browsers,
            stores.grants,
            stores.connections,
            self.sessions,
            self.journal,
            clock=self.clock,
        )
        visits = Visits(
            Pages(),
            BrowserCookies(
                self.names,
                lambda scope: scope["client"][0],
                random=self.random,
                session_s=self.sessions.lifetime_s,
            ),
            origin=url,
            journal=self.journal,
            user_of=self.sessions.user_of,
        )
        self.desks: dict[str, str] = {}
        """The addresses at which some people come to the desk."""
        self.app = Router(
            [
                *visits.assets,
                *SignInPages(visits, self.sign_in, self.granting, origin=url).routes,
                *AccountPages(
                    visits,
                    self.sign_in,
                    links=self.links,
                    devices=self.devices,
                    account=self.account,
                    find_client=find,
                    desk_of=lambda user: self.desks.get(user.subject, ""),
                    origin=url,
                ).routes,
            ],
            redirect_slashes=False,
        )

    def new_id(self) -> str:
        return f"id-{next(self._numbers)}"

    def random(self, octets: int) -> bytes:
        return next(self._numbers).to_bytes(octets, "big")

    def browser(self, *, source_ip: str = SOURCE, **headers: str) -> Browser:
        """Return a browser that has never been here."""
        return Browser(
            to_app(self.app, source_ip=source_ip),
            reaches=lambda url: url.startswith(self.url + "/"),
            headers=headers,
        )

    async def person(self, name: str = "alice", password: str = PASSWORD, **changes: Any) -> User:
        """Store a person, with a password unless it is empty."""
        fields = {
            "id": f"id-of-{name}",
            "issuer": self.url,
            "subject": name,
            "name": name.title(),
            "groups": frozenset({"users"}),
            "created_at": NOW,
            "created_by": "os:root",
        }
        user = User(**{**fields, **changes})
        self.stores.users.add(user, link_hash=digest(name), link_until=NOW + 60)
        if password:
            phc = _HASHES.get(password) or await self.passwords.hashed(password)
            _HASHES[password] = phc
            assert self.stores.users.redeem_link(digest(name), phc, now=NOW)
        return user

    def client(self, **changes: Any) -> Client:
        """Store a client that registered itself, changed as told."""
        fields: dict[str, Any] = {
            "id": "dcr_app",
            "name": "App",
            "kind": ClientKind.DYNAMIC,
            "auth_methods": frozenset({AuthMethod.NONE}),
            "redirect_uris": (CALLBACK,),
            "grants": ("authorization_code", "refresh_token"),
            "created_at": NOW,
            "created_by": SOURCE,
        }
        client = Client(**{**fields, **changes})
        self.stores.clients.add(client)
        return client

    def device(self, **changes: Any) -> DeviceRequest:
        """Store a device that waits for a person."""
        fields: dict[str, Any] = {
            "device_hash": digest("device"),
            "user_code": "BCDFGHJK",
            "client_id": "douane-cli",
            "endpoint": "/api/v1",
            "scopes": frozenset({"admin"}),
            "expires_at": NOW + 600,
            "interval_s": 5,
        }
        request = DeviceRequest(**{**fields, **changes})
        self.stores.grants.add_device(request)
        return request

    def authorize(self, **changes: str) -> str:
        """Return the URL with which a client sends a browser here."""
        parameters = {
            "response_type": "code",
            "client_id": "dcr_app",
            "redirect_uri": CALLBACK,
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            "resource": f"{self.url}/mcp/mail",
            "scope": "tools:list tools:call",
            "state": "x y/z&1",
            **changes,
        }
        return f"{self.url}/oauth/authorize?{urlencode(parameters)}"

    async def enter(
        self, browser: Browser, page: Page, name: str = "alice", password: str = PASSWORD
    ) -> Page:
        """Fill in the sign-in form on `page`."""
        return await browser.submit(page.form("sign-in"), page, username=name, password=password)

    async def signed_in(self, name: str = "alice", **given: Any) -> Browser:
        """Return a browser in which that person is signed in."""
        browser = self.browser(**given)
        page = await self.enter(browser, await browser.get(self.url + "/sign-in"), name)
        assert page.url == self.url + "/account", page.text
        return browser

    def cookies(self, browser: Browser) -> Known:
        """Return what the gateway knows that browser by."""
        (jar,) = browser.cookies.values()
        return Known.of(self.names, jar, source_ip=SOURCE, user_agent="")

    @property
    def told(self) -> list[tuple[str, str, str, str]]:
        """Of each record: kind, verdict, code and principal."""
        return [
            (
                record.kind.value,
                record.fields["verdict"],
                record.fields["code"],
                record.fields.get("principal", ""),
            )
            for record in self.log.records
        ]


class Nowhere:
    """A `Fetcher` for tests in which nothing is fetched."""

    async def get(self, url: str, **_: Any) -> Any:
        raise AssertionError(url)

    async def post(self, url: str, **_: Any) -> Any:
        raise AssertionError(url)


def answer_in(location: str) -> dict[str, str]:
    """Return what a redirect says, each thing once."""
    pairs = parse_qsl(urlsplit(location).query, strict_parsing=True, keep_blank_values=True)
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)
