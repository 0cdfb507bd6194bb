"""From somebody unknown to a signed-in person, and on to what they came for."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from urllib.parse import quote

from gateway.domain._value import value
from gateway.domain.decisions import Verdict
from gateway.domain.grants import Transaction
from gateway.domain.identity import User
from gateway.errors import Fault, Refusal, Unsealable
from gateway.ports import Clock
from gateway.ports.identity import UserStore
from gateway.ports.secrets import Sealer
from gateway.signin.browser import Browser, CookieNames
from gateway.signin.errors import Ended, SignInRefused, WrongCredentials
from gateway.signin.journal import Event, Journal
from gateway.signin.people import PasswordCheck
from gateway.signin.providers import Federation, Identity, transaction_of
from gateway.signin.sessions import Sessions
from gateway.signin.transactions import Purpose, Transactions

PATH = "/sign-in"
CONSENT_PATH = "/consent"
DEVICE_PATH = "/device"
ACCOUNT_PATH = "/account"
APPROVE_PATH = "/approve/"
APPROVALS_PATH = "/approvals"
DESK_PATH = "/desk"

After = Callable[[str], str]
"""From a purpose's detail to the path that goes on with it."""


def _connect(detail: str) -> str:
    """Return the page of the server that `detail` names, with what stands behind its `?`."""
    server, mark, query = detail.partition("?")
    return f"/connect/{quote(server, safe='')}{mark}{query}"


AFTER: Mapping[str, After] = {
    "account": lambda _: ACCOUNT_PATH,
    "approve": lambda approval: f"{APPROVE_PATH}{quote(approval, safe='')}",
    "approvals": lambda _: APPROVALS_PATH,
    "connect": lambda server: f"/connect/{quote(server, safe='?=&+%')}",
    "desk": lambda place: DESK_PATH + quote(place, safe="/?=&%+~"),
    "device": lambda code: f"{DEVICE_PATH}?user_code={quote(code, safe='')}",
}
"""What follows a sign-in, by purpose; `authorize` goes on to consent."""

_AUTHORIZE = "authorize"


@value
class Entered:
    """A sign-in that is done."""

    user: User
    session: str = field(repr=False)
    """The new session's cookie."""
    path: str
    """Where the browser goes on."""


class SignIn:
    """Who is signed in, and how they come to be."""

    def __init__(
        self,
        *,
        names: CookieNames,
        sessions: Sessions,
        transactions: Transactions,
        passwords: PasswordCheck | None,
        federation: Federation | None,
        providers: Mapping[str, str],
        users: UserStore,
        sealer: Sealer,
        journal: Journal,
        clock: Clock,
        new_id: Callable[[], str],
        after: Mapping[str, After] = AFTER,
    ) -> None:
        """Name `providers` as people read them, by their names in URLs."""
        self.names = names
        self.providers = providers
        self._sessions = sessions
        self._transactions = transactions
        self._passwords = passwords
        self._federation = federation
        self._users = users
        self._sealer = sealer
        self._journal = journal
        self._clock = clock
        self._new_id = new_id
        self._after = after
        self._anybody = False

    @property
    def by_password(self) -> bool:
        """Whether people sign in with a password here."""
        return self._passwords is not None

    @property
    def nobody_yet(self) -> bool:
        """Whether people sign in with a password here, and there is nobody at all."""
        # Once there was anybody it is told no more: a stranger's request sorts no list of people.
        self._anybody = self._anybody or not self.by_password or bool(self._users.all())
        return not self._anybody

    async def user_of(self, cookies: Mapping[str, str]) -> User | None:
        """Return who is signed in in the browser that sent `cookies`."""
        browser = Browser.of(self.names, cookies, source_ip="", user_agent="")
        return await self._sessions.user_of(browser)

    async def begin(self, purpose: Purpose, browser: Browser) -> Transaction:
        """Begin a sign-in; `path_to` says where the browser goes."""
        return await self._transactions.begin(browser, purpose)

    def path_to(self, transaction: Transaction) -> str:
        """Return where a browser goes on with `transaction`."""
        page = CONSENT_PATH if transaction.user_id else PATH
        return f"{page}?transaction={transaction.id}"

    async def transaction(self, transaction_id: str, browser: Browser) -> Transaction:
        """Return the sign-in of `browser` that is under way.

        Raises:
            Ended: There is none of that id.
            WrongBrowser: Another browser began it.

        """
        return await self._transactions.of(transaction_id, browser)

    async def with_password(
        self, transaction: Transaction, name: str, password: str, browser: Browser
    ) -> Entered:
        """Sign a person in by name and password.

        Raises:
            WrongCredentials: They are nobody's.
            Throttled: There were too many attempts.

        """
        if self._passwords is None:
            raise SignInRefused("Nobody has a password here.")
        proven = await self._passwords.person(name, password, browser)
        entered = await self._enter(
            transaction, proven.user, browser, "password", proven_at=self._clock()
        )
        if await self._passwords.holds(proven):
            return entered
        # Choosing a new password ends every session; this one would have come just after.
        await self._sessions.end(replace(browser, session=entered.session))
        refusal = WrongCredentials(detail="the password was replaced meanwhile")
        await self._refused(refusal, "", browser)
        raise refusal

    async def to_provider(self, transaction: Transaction, provider: str, browser: Browser) -> str:
        """Return the URL at which the person signs in with `provider`.

        Raises:
            Refusal, Fault: There is none, or the provider cannot be used now; that is recorded.

        """
        federation = self._required(provider)
        try:
            departure = await federation.begin(provider, transaction)
        except (Refusal, Fault) as error:
            await self._refused(error, provider, browser)
            raise
        sealed = self._sealer.seal(departure.secrets, _row(transaction))
        await self._transactions.update(replace(transaction, provider=provider, secrets=sealed))
        return departure.url

    async def from_provider(
        self, provider: str, query: Mapping[str, str], browser: Browser
    ) -> Entered:
        """Sign in whom `provider` vouches for in the answer `query`, which counts once.

        Raises:
            Ended, WrongBrowser: The answer is to nothing that this browser asked.
            Refusal: It is not a valid answer, or the person may not sign in.
            Fault: The provider cannot be used now.

        """
        federation = self._required(provider)
        try:
            transaction, secrets = await self._returned(provider, query, browser)
            identity = await federation.finish(provider, transaction, secrets, query)
            vouched = self._vouched(identity)
            known = self._users.by_subject(vouched.issuer, vouched.subject) or vouched
            _require_enabled(known)
        except (Refusal, Fault) as error:
            await self._refused(error, provider, browser)
            raise
        how, at = provider, identity.proven_at
        if known is vouched or known.groups != vouched.groups:
            how += f"; groups {', '.join(sorted(vouched.groups)) or 'none'}"
        return await self._enter(transaction, known, browser, how, proven_at=at, vouched=vouched)

    async def out(self, browser: Browser) -> None:
        """Sign the browser out."""
        user = await self._sessions.user_of(browser)
        if user is not None:
            await self._journal.write(
                Event(code="signed_out", method="sign-out", source_ip=browser.source_ip, user=user)
            )
        await self._sessions.end(browser)

    def _required(self, provider: str) -> Federation:
        if self._federation is None or provider not in self.providers:
            raise SignInRefused("There is no such identity provider.")
        return self._federation

    async def _returned(
        self, provider: str, query: Mapping[str, str], browser: Browser
    ) -> tuple[Transaction, bytes]:
        """Return the sign-in that `query` answers, and use its secrets up."""
        transaction = await self._transactions.of(transaction_of(query.get("state", "")), browser)
        if transaction.provider != provider:
            raise Ended
        try:
            secrets = self._sealer.open(transaction.secrets, _row(transaction))
        except Unsealable:
            raise Ended from None
        kept = replace(transaction, provider="", secrets="")
        await self._transactions.update(kept)
        return kept, secrets

    def _vouched(self, identity: Identity) -> User:
        """Return the person of `identity` as they are if they are new; they are kept once it is on record."""
        return User(
            id=self._new_id(),
            issuer=identity.issuer,
            subject=identity.subject,
            name=identity.name,
            groups=identity.groups,
            created_at=self._clock(),
            created_by=identity.issuer,
        )

    async def _kept(self, vouched: User, known: User) -> User:
        """Return the person as their provider says they are from now on."""
        user = await asyncio.to_thread(self._users.signed_in, vouched)
        _require_enabled(user)
        if user.id != known.id:
            raise Ended  # they came to be, or were removed, in this moment
        return user

    async def _enter(
        self,
        transaction: Transaction,
        user: User,
        browser: Browser,
        how: str,
        *,
        proven_at: float,
        vouched: User | None = None,
    ) -> Entered:
        if transaction.purpose == _AUTHORIZE:
            await self._transactions.update(replace(transaction, user_id=user.id))
            path = f"{CONSENT_PATH}?transaction={transaction.id}"
        else:
            await self._transactions.finish(transaction)
            path = self._after[transaction.purpose](transaction.detail)
        await self._journal.write(
            Event(
                code="signed_in",
                method="sign-in",
                source_ip=browser.source_ip,
                user=user,
                message=f"by {how}",
            )
        )
        # What a provider says gives rights to all that the person has open: once it is on record.
        user = user if vouched is None else await self._kept(vouched, user)
        session = await self._sessions.open(user, browser, proven_at=proven_at)
        return Entered(user=user, session=session, path=path)

    async def _refused(self, error: Refusal | Fault, provider: str, browser: Browser) -> None:
        await self._journal.write(
            Event(
                code=error.code,
                method=f"sign-in/{provider}" if provider else "sign-in",
                source_ip=browser.source_ip,
                verdict=Verdict.DENY,
                message=error.detail or error.public,
            )
        )
        error.recorded = True


def _require_enabled(user: User) -> None:
    if user.disabled:
        raise SignInRefused("You may not sign in here.", detail=f"{user.subject} is disabled")


def _row(transaction: Transaction) -> str:
    return f"transactions:{transaction.id}:secrets"
