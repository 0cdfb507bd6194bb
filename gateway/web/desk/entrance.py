"""How people come to the desk where it stands on the public listener: by the sessions that are there."""

from collections.abc import Sequence
from typing import Protocol

from starlette.routing import Route

from gateway.signin.browser import Browser
from gateway.signin.sessions import Sessions, SignedIn
from gateway.signin.sign_in import ACCOUNT_PATH
from gateway.signin.sign_in import PATH as SIGN_IN_PATH
from gateway.web.signin import SIGN_OUT_PATH
from gateway.web.words import href


class Entrance(Protocol):
    """Knows who is signed in, and the way in, out and to one's account."""

    @property
    def account(self) -> str: ...

    @property
    def sign_out(self) -> str: ...

    @property
    def routes(self) -> Sequence[Route]:
        """The routes of the way in and out, where it has some of its own."""
        ...

    async def signed_in(self, browser: Browser) -> SignedIn | None:
        """Return who is signed in in `browser` now.

        Raises:
            Fault: It cannot be told now.

        """
        ...

    def way_in(self, to: str, *, anew: bool = False) -> str:
        """Return the address that leads to the page `to` once somebody has signed in.

        `anew` has them show who they are though that is known.
        """
        ...


class OwnSessions:
    """The entrance of the public listener."""

    account = ACCOUNT_PATH
    sign_out = SIGN_OUT_PATH
    routes: Sequence[Route] = ()

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def signed_in(self, browser: Browser) -> SignedIn | None:
        """Return who is signed in in `browser` now."""
        return await self._sessions.signed_in(browser)

    def way_in(self, to: str, *, anew: bool = False) -> str:
        """Return the address of the page that signs in, which always asks."""
        del anew
        return href(SIGN_IN_PATH, to=to)
