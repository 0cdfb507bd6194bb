"""Signing in with a user name and a password of our own."""

import asyncio
import re
from contextlib import suppress
from dataclasses import field

from gateway.domain._value import value
from gateway.domain.decisions import Verdict
from gateway.domain.identity import User
from gateway.ports.identity import UserStore
from gateway.signin.browser import Browser
from gateway.signin.errors import Throttled, Unacceptable, WrongCredentials
from gateway.signin.journal import Event, Journal
from gateway.signin.passwords import Passwords, outgrown
from gateway.signin.throttle import Attempts

_LONGEST_TYPED = 65
"""One more than a user name has: what is longer is nobody's, and is not kept to count attempts."""
_USER_NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}", re.ASCII)


def user_name(text: str) -> str:
    """Return the user name that a person typed, in its one spelling.

    Raises:
        Unacceptable: It cannot be one.

    """
    name = text.strip().lower()
    if not _USER_NAME.fullmatch(name):
        raise Unacceptable(
            "A user name is 1 to 64 of a-z, 0-9 and . _ @ -, and begins with a letter or a digit."
        )
    return name


@value
class Proven:
    """A person, and the hash of the password that they proved it by."""

    user: User
    phc: str = field(repr=False)


class PasswordCheck:
    """Tells whether a person is who they say. Every failure is recorded before it is told."""

    def __init__(
        self,
        users: UserStore,
        passwords: Passwords,
        journal: Journal,
        attempts: Attempts,
        *,
        issuer: str,
    ) -> None:
        """Check the people of `issuer`, which is ourselves."""
        self._users = users
        self._passwords = passwords
        self._journal = journal
        self._attempts = attempts
        self._issuer = issuer

    async def person(self, name: str, password: str, browser: Browser) -> Proven:
        """Return whose name and password these are.

        Raises:
            WrongCredentials: Nobody's, or nobody's who may sign in; told alike, after the same time.
            Throttled: There were too many attempts, from this address or at this name.

        """
        try:
            typed = name.strip().lower()[:_LONGEST_TYPED]
            return await self._checked(typed, password, browser.source_ip)
        except (WrongCredentials, Throttled) as refusal:
            # Without the name: people type their password into the wrong field.
            await self._journal.write(
                Event(
                    code=refusal.code,
                    method="sign-in",
                    source_ip=browser.source_ip,
                    verdict=Verdict.DENY,
                    message=refusal.detail or refusal.code,
                )
            )
            refusal.recorded = True
            raise

    async def holds(self, proven: Proven) -> bool:
        """Whether that password is still the person's: it may have been replaced meanwhile."""
        phc = await asyncio.to_thread(self._users.password_of, proven.user.id)
        return bool(phc) and phc == proven.phc

    async def _checked(self, name: str, password: str, source_ip: str) -> Proven:
        # Before the password is looked at: a right guess must not stand out.
        await self._attempts.begin(source_ip, name)
        user = self._users.by_subject(self._issuer, name)
        phc = "" if user is None else await asyncio.to_thread(self._users.password_of, user.id)
        try:
            right = await self._passwords.matches(password, phc)
        except Throttled:
            await self._attempts.take_back(source_ip, name)
            raise
        if user is None or user.disabled or not right:
            raise WrongCredentials(detail=_why(user, phc))
        await self._attempts.take_back(source_ip, name)
        if outgrown(phc):
            with suppress(Throttled):  # there will be a next time
                costlier = await self._passwords.hashed(password)
                if await asyncio.to_thread(self._users.rehash, user.id, phc, costlier):
                    phc = costlier
        return Proven(user=user, phc=phc)


def _why(user: User | None, phc: str) -> str:
    if user is None:
        return "unknown user"
    if user.disabled:
        return f"{user.subject} is disabled"
    return f"wrong password for {user.subject}" if phc else f"{user.subject} has no password yet"
