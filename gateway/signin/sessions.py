"""Signed-in browsers: who is behind a cookie of which only the hash is stored."""

import asyncio
from collections.abc import Sequence

from gateway.domain._value import value
from gateway.domain.grants import BrowserSession
from gateway.domain.identity import User
from gateway.ports import Clock
from gateway.ports.grants import BrowserStore
from gateway.ports.identity import UserStore
from gateway.signin.browser import Browser, Random, digest, new_secret
from gateway.signin.errors import NotSignedIn


@value
class SignedIn:
    """Somebody who is signed in in a browser."""

    user: User
    proven_at: float
    """When they last showed who they are, in seconds since the epoch; 0: nobody knows."""


class Sessions:
    """Opens and ends the sessions of browsers."""

    def __init__(
        self,
        store: BrowserStore,
        users: UserStore,
        *,
        clock: Clock,
        random: Random,
        lifetime_s: float,
    ) -> None:
        self._store = store
        self._users = users
        self._clock = clock
        self._random = random
        self.lifetime_s = lifetime_s

    async def user_of(self, browser: Browser) -> User | None:
        """Return who is signed in in `browser`, now."""
        found = await self.signed_in(browser)
        return None if found is None else found.user

    async def signed_in(self, browser: Browser) -> SignedIn | None:
        """Return who is signed in in `browser`, now, and when they showed it."""
        if not browser.session:
            return None
        session = await asyncio.to_thread(
            self._store.session, digest(browser.session), now=self._clock()
        )
        user = None if session is None else self._users.find(session.user_id)
        if session is None or user is None:
            return None
        return SignedIn(user=user, proven_at=session.proven_at)

    async def open(self, user: User, browser: Browser, *, proven_at: float = 0.0) -> str:
        """Sign `user` in and return the cookie, a fresh one; an earlier session here ends.

        `proven_at` is when they showed who they are, of which nothing later than now is believed.

        Raises:
            NotSignedIn: They were removed meanwhile.

        """
        await self.end(browser)
        secret, now = new_secret(self._random), self._clock()
        session = BrowserSession(
            id_hash=digest(secret),
            user_id=user.id,
            created_at=now,
            expires_at=now + self.lifetime_s,
            source_ip=browser.source_ip,
            user_agent=browser.user_agent,
            proven_at=min(proven_at, now),
        )
        try:
            await asyncio.to_thread(self._store.open_session, session)
        except LookupError:
            raise NotSignedIn from None
        return secret

    async def end(self, browser: Browser) -> None:
        """End the session of `browser`, if it has one."""
        if browser.session:
            await asyncio.to_thread(self._store.end_session, digest(browser.session))

    async def all_of(self, user: User) -> Sequence[BrowserSession]:
        """Return the sessions of `user` that have not expired, the newest first."""
        return await asyncio.to_thread(self._store.sessions, user.id)
