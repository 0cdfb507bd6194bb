"""One-time links with which people choose a password, the very first person included."""

import asyncio
from collections.abc import Callable
from dataclasses import field
from functools import partial
from urllib.parse import quote

from gateway.domain._value import value
from gateway.domain.audit import RecordKind
from gateway.domain.identity import User
from gateway.errors import GatewayError
from gateway.ports import Clock
from gateway.ports.buckets import SharedThrottle
from gateway.ports.identity import UserStore
from gateway.signin.browser import Browser, Random, digest, new_secret
from gateway.signin.errors import Ended, Unacceptable
from gateway.signin.journal import Event, Journal
from gateway.signin.passwords import Passwords, require_acceptable
from gateway.signin.people import user_name
from gateway.signin.throttle import Attempts

PATH = "/setup"
LIFETIME_S = 24 * 3600

NOBODY_YET = (
    "Nobody can sign in here yet. The first person opens the link that the gateway printed where it"
    " was started; started again, it prints another."
)
"""Where the way in is, and not what it is: strangers read this."""
_SPENT = "This link is not whole, has expired, or was used already."
_ANOTHER = "An administrator makes another: douane users link NAME"


@value
class Invitation:
    """Whom a link is for. The first person of all has no name yet, and chooses one."""

    user: User | None


@value
class Chosen:
    """What a person filled in."""

    name: str
    password: str = field(repr=False)
    repeated: str = field(repr=False)


class SetupLinks:
    """Makes links and redeems them. A link holds 256 random bits; only its hash is kept.

    The first person's link is in this process's memory: it ends with the process, and as soon as
    there is anybody at all. Of gateways that share who there is each makes the same one, for whoever
    opens it comes to any of them.
    """

    def __init__(
        self,
        users: UserStore,
        passwords: Passwords,
        journal: Journal,
        *,
        public_url: str,
        first_groups: Callable[[], frozenset[str]],
        clock: Clock,
        random: Random,
        new_id: Callable[[], str],
        shared: SharedThrottle | None = None,
        first_secret: Callable[[], str] | None = None,
    ) -> None:
        """`first_groups` tells the groups of the first person: those of every role.

        Looks at links count at all gateways together, where they have a `shared` throttle. What the
        first person's link holds is `first_secret`'s, where it is the same at all of them.
        """
        self._users = users
        self._passwords = passwords
        self._journal = journal
        self._issuer = public_url
        self._first_groups = first_groups
        self._clock = clock
        self._random = random
        self._new_id = new_id
        self._first_secret = first_secret or partial(new_secret, random)
        self._first: tuple[str, float] | None = None
        self._attempts = Attempts(
            clock, by_address=20, by_target=20, shared=shared, what="setup link"
        )

    def first(self) -> str:
        """Return a link for the first person, good for a day; nothing if there is anybody.

        An earlier one ends, unless it is the same.
        """
        if self._users.all():
            return ""
        secret = self._first_secret()
        self._first = (digest(secret), self._clock() + LIFETIME_S)
        return self._url(secret)

    def for_new(self, user: User) -> str:
        """Store a new person and return their link, good for a day. Waits for the disk.

        Raises:
            ValueError: The subject or the operating system's user is taken.

        """
        secret = new_secret(self._random)
        until = self._clock() + LIFETIME_S
        self._users.add(user, link_hash=digest(secret), link_until=until)
        return self._url(secret)

    def another(self, user_id: str) -> str:
        """Return a new link for a person; their older ones end. Waits for the disk."""
        secret = new_secret(self._random)
        self._users.add_link(user_id, digest(secret), until=self._clock() + LIFETIME_S)
        return self._url(secret)

    async def invitation(self, link: str, browser: Browser) -> Invitation:
        """Return whom `link` is for, without using it up: mail scanners look at links, too.

        Raises:
            Ended: It was used or has expired, or never was.
            Throttled: There were too many looks from this address.

        """
        if not link:
            raise self._spent()  # nothing is guessed at, and all who come without one are not one target
        link_hash = digest(link)
        await self._attempts.begin(browser.source_ip, link_hash)
        user = await asyncio.to_thread(self._users.link, link_hash, now=self._clock())
        if user is None and not self._is_first(link_hash):
            raise self._spent()
        await self._attempts.take_back(browser.source_ip, link_hash)
        return Invitation(user=user)

    async def redeem(self, link: str, chosen: Chosen, browser: Browser) -> User:
        """Set the password that the link's person chose, and use the link up.

        Raises:
            Ended: It was used or has expired, or never was.
            Unacceptable: The name or the password cannot be taken; the link is still good.

        """
        invitation = await self.invitation(link, browser)
        if chosen.password != chosen.repeated:
            raise Unacceptable("The two passwords are not the same.")
        name = user_name(chosen.name) if invitation.user is None else invitation.user.subject
        require_acceptable(chosen.password, name)
        phc = await self._passwords.hashed(chosen.password)
        if invitation.user is None:
            return await self._redeem_first(digest(link), name, phc, browser)
        await self._record(invitation.user, "password_set", browser)
        return await self._redeem(digest(link), phc)

    async def _redeem_first(self, link_hash: str, name: str, phc: str, browser: Browser) -> User:
        held = self._first
        if not self._is_first(link_hash):
            raise self._spent()
        self._first = None  # before anything waits: for one caller only
        user = User(
            id=self._new_id(),
            issuer=self._issuer,
            subject=name,
            name=name,
            groups=self._first_groups(),
            created_at=self._clock(),
            created_by="setup link",
        )
        try:
            await self._record(user, "first_person", browser)
            until = self._clock() + LIFETIME_S
            await asyncio.to_thread(
                self._users.add, user, link_hash=link_hash, link_until=until, first=True
            )
        except GatewayError:
            self._first = held
            raise
        except ValueError:
            raise self._spent() from None  # somebody else came first, in another process
        return await self._redeem(link_hash, phc)

    async def _redeem(self, link_hash: str, phc: str) -> User:
        user = await asyncio.to_thread(self._users.redeem_link, link_hash, phc, now=self._clock())
        if user is None:
            raise self._spent()
        return user

    async def _record(self, user: User, code: str, browser: Browser) -> None:
        await self._journal.write(
            Event(
                code=code,
                kind=RecordKind.ADMIN,
                method="setup",
                source_ip=browser.source_ip,
                user=user,
                message=f"{user.subject}, by a one-time link",
            )
        )

    def _spent(self) -> Ended:
        """Return the refusal of a link that opens nothing, which says how there comes to be another."""
        nobody = self._first is not None and not self._users.all()
        return Ended(f"{_SPENT} {NOBODY_YET if nobody else _ANOTHER}")

    def _is_first(self, link_hash: str) -> bool:
        if self._first is None or self._users.all():
            return False
        known, until = self._first
        return known == link_hash and self._clock() < until

    def _url(self, secret: str) -> str:
        return f"{self._issuer}{PATH}?link={quote(secret)}"
