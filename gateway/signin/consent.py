"""What a person is asked before a client may act for them, and whether they were asked before."""

import asyncio
import re
from collections.abc import Callable

from gateway.domain.grants import AuthorizationRequest, Consent
from gateway.domain.identity import Client, User
from gateway.ports import Clock
from gateway.ports.grants import BrowserStore
from gateway.signin.errors import NotSignedIn

MustAsk = Callable[[Client, str], bool]
"""Whether a client with this redirect URI is asked about every time: nobody can tell who it is."""

_WORDS = {
    "tools:list": "See which tools there are",
    "tools:call": "Use tools",
    "tools:write": "Use tools that change, send, pay or delete something",
    "prompts": "Read prompts",
    "resources": "Read resources, such as files and records",
    "code:run": "Run programs that use tools",
    "servers:manage": "Turn servers on and off for you",
    "admin": "Administer this gateway with all of your roles",
}
"""In the order in which they are shown."""

_LOOPBACK_PORT = re.compile(r"(http://(?:127\.0\.0\.1|\[::1\]|localhost)):\d+", re.ASCII)


def in_words(scopes: frozenset[str]) -> tuple[str, ...]:
    """Return what `scopes` mean to people; an unknown one stands for itself."""
    known = [words for scope, words in _WORDS.items() if scope in scopes]
    return (*known, *sorted(scopes - _WORDS.keys()))


class Consents:
    """Remembers what people said yes to."""

    def __init__(self, store: BrowserStore, *, clock: Clock, must_ask: MustAsk) -> None:
        self._store = store
        self._clock = clock
        self._must_ask = must_ask

    async def given(self, user: User, client: Client, request: AuthorizationRequest) -> bool:
        """Whether `user` need not be asked: they have allowed this client all of this before."""
        if self._must_ask(client, request.redirect_uri):
            return False
        place = _remembered(request.redirect_uri)
        asked = client.id, request.endpoint, place
        return any(
            (consent.client_id, consent.endpoint, consent.redirect_uri) == asked
            and request.scopes <= consent.scopes
            # A yes that is older than what the client's document says now was given to another.
            and client.created_at <= consent.given_at
            # Nor is one from before the clock went back: which came first cannot be told.
            and consent.given_at <= self._clock()
            for consent in await asyncio.to_thread(self._store.consents, user.id)
        )

    async def remember(self, user: User, request: AuthorizationRequest) -> None:
        """Remember that `user` allows what `request` asks for.

        Raises:
            NotSignedIn: They were removed meanwhile.

        """
        consent = Consent(
            user_id=user.id,
            client_id=request.client_id,
            endpoint=request.endpoint,
            redirect_uri=_remembered(request.redirect_uri),
            scopes=request.scopes,
            given_at=self._clock(),
        )
        try:
            await asyncio.to_thread(self._store.consent, consent)
        except LookupError:
            raise NotSignedIn from None


def _remembered(redirect_uri: str) -> str:
    """Return what is kept of it: a program of this machine has another port each time."""
    return _LOOPBACK_PORT.sub(r"\1", redirect_uri)
