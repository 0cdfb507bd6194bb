"""Sign-ins under way: bound to one browser, in time, and used once (RFC 9700 section 4.7)."""

import asyncio
import hmac
import re

from gateway.domain._value import value
from gateway.domain.grants import AuthorizationRequest, Transaction
from gateway.domain.throttle import Throttle
from gateway.ports import Clock
from gateway.ports.grants import BrowserStore
from gateway.signin.browser import Browser, Random, digest
from gateway.signin.errors import Ended, Throttled, WrongBrowser

LIFETIME_S = 600
_MOST_BEGUN = 300
_BEGUN_WINDOW_S = 300.0

_ANOTHER = "This was begun in another browser. Begin again in this one."
_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)


@value
class Purpose:
    """What a sign-in is for, and what that needs."""

    name: str
    """`authorize`, `device`, `connect`, `approve`, `approvals`, `desk` or `account`."""
    detail: str = ""
    request: AuthorizationRequest | None = None
    user_id: str = ""
    """Who is signed in already."""


class Transactions:
    """Keeps the transactions of every browser apart."""

    def __init__(self, store: BrowserStore, *, clock: Clock, random: Random) -> None:
        self._store = store
        self._clock = clock
        self._random = random
        # Anybody may begin one, and each is a row on the disk.
        self._begun = Throttle(allowed=_MOST_BEGUN, window_s=_BEGUN_WINDOW_S)

    async def begin(self, browser: Browser, purpose: Purpose) -> Transaction:
        """Begin a transaction of `browser`, good for ten minutes.

        Raises:
            WrongBrowser: It has no secret: every other that has none could go on with it.
            Throttled: Too many were begun from its address.

        """
        if not browser.secret:
            raise WrongBrowser(_ANOTHER)
        now = self._clock()
        if wait_s := self._begun.wait_s(browser.source_ip, now):
            raise Throttled(wait_s)
        self._begun.note(browser.source_ip, now)
        transaction = Transaction(
            id=self._random(16).hex(),
            browser_hash=digest(browser.secret),
            purpose=purpose.name,
            request=purpose.request,
            detail=purpose.detail,
            created_at=now,
            expires_at=now + LIFETIME_S,
            user_id=purpose.user_id,
        )
        await asyncio.to_thread(self._store.begin, transaction)
        return transaction

    async def of(self, transaction_id: str, browser: Browser) -> Transaction:
        """Return the unfinished transaction of that id.

        Raises:
            Ended: There is none, or none any more.
            WrongBrowser: Another browser began it.

        """
        if not _ID.fullmatch(transaction_id):
            raise Ended
        found = await asyncio.to_thread(self._store.transaction, transaction_id, now=self._clock())
        if found is None:
            raise Ended
        if not hmac.compare_digest(found.browser_hash, digest(browser.secret)):
            raise WrongBrowser(_ANOTHER)
        return found

    async def update(self, transaction: Transaction) -> None:
        """Store what changed.

        Raises:
            Ended: It was finished meanwhile.

        """
        if not await asyncio.to_thread(self._store.update, transaction):
            raise Ended

    async def finish(self, transaction: Transaction) -> None:
        """Use the transaction up.

        Raises:
            Ended: Somebody else has.

        """
        if not await asyncio.to_thread(self._store.finish, transaction.id, now=self._clock()):
            raise Ended
