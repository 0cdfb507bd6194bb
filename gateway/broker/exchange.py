"""A person's identity traded for a token of an upstream's (RFC 8693).

The subject token is an assertion of our own about the person, never a token that a client showed to
us. The gateway acts for the person and says so by signing in as the client, so there is no actor
token (RFC 8693 section 1.1).
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final, Protocol

from gateway.broker.sealing import OurClient
from gateway.broker.settings import TokenExchange
from gateway.broker.token_request import TokenRefused, request_tokens
from gateway.domain._value import value
from gateway.domain.bounded import Bounded
from gateway.errors import CredentialRequired
from gateway.ports import Clock
from gateway.ports.egress import Fetcher
from gateway.ports.identity import UserStore

_GRANT: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_JWT: Final = "urn:ietf:params:oauth:token-type:jwt"
_ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - a name

_ASSERTION_S: Final = 60
_UNSAID_S: Final = 60.0
"""How long a token is used of which nobody says how long it is good."""
_EARLY_S: Final = 30.0
_YOUNG_S: Final = 10.0
_MOST: Final = 10_000
_OCTETS: Final = 32 * 1024**2

Key = tuple[str, str]


class Signer(Protocol):
    def sign(self, claims: Mapping[str, Any]) -> str:
        """Return `claims` as a JWT of ours, of a type (`typ`) that is no access token's."""
        ...


@value
class Traded:
    """A token in memory; it is nowhere else."""

    access_token: str = field(repr=False)
    got_at: float
    due_at: float
    """When to get the next one."""


class Exchanges:
    def __init__(
        self,
        *,
        users: UserStore,
        fetcher: Fetcher,
        signer: Signer,
        clock: Clock,
        new_id: Callable[[], str],
        issuer: str,
    ) -> None:
        """`issuer` is our own: the `iss` of the assertions."""
        self._users = users
        self._fetcher = fetcher
        self._signer = signer
        self._clock = clock
        self._new_id = new_id
        self._issuer = issuer
        self._held: Bounded[Key, Traded] = Bounded(most=_MOST, octets=_OCTETS)
        self._under_way: dict[Key, asyncio.Task[Traded]] = {}

    async def token(self, settings: TokenExchange, user_id: str) -> str:
        """Return a token for the person, kept until it ends.

        Raises:
            CredentialRequired: There is no such person, or their identity was not accepted.
            UpstreamFailed: The token endpoint gave no usable answer.

        """
        key = (user_id, settings.server)
        held = self._held.get(key)
        if held is not None and self._clock() < held.due_at:
            return held.access_token
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(self._trade(settings, user_id))
            task.add_done_callback(lambda done: self._settled(key, done))
        return (await asyncio.shield(task)).access_token

    async def renewed(self, settings: TokenExchange, user_id: str, *, shown: str) -> str:
        """Return another token than `shown`, which the upstream has refused.

        Raises:
            CredentialRequired: A new one would be refused like `shown`, which is new.
            UpstreamFailed: The token endpoint gave no usable answer.

        """
        key = (user_id, settings.server)
        held = self._held.get(key)
        if held is not None and held.access_token == shown:
            if self._clock() - held.got_at < _YOUNG_S:
                raise _only_an_operator("the upstream refuses a new token")
            self._held.pop(key)
        return await self.token(settings, user_id)

    async def aclose(self) -> None:
        """Wait for what is under way."""
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)

    def _settled(self, key: Key, done: "asyncio.Task[Traded]") -> None:
        del self._under_way[key]
        if not done.cancelled():
            done.exception()

    async def _trade(self, settings: TokenExchange, user_id: str) -> Traded:
        now = self._clock()
        client = OurClient(
            id=settings.client_id, secret=settings.client_secret, method="client_secret_basic"
        )
        form = self._form(settings, user_id, now)
        try:
            tokens = await request_tokens(
                self._fetcher, settings.token_url, client, form, who=settings.server
            )
        except TokenRefused as error:
            raise _only_an_operator(error.detail) from error
        lifetime_s = _UNSAID_S if tokens.lifetime_s is None else tokens.lifetime_s
        due_at = now + lifetime_s - min(_EARLY_S, lifetime_s / 2)
        traded = Traded(access_token=tokens.access_token, got_at=now, due_at=due_at)
        self._held.put((user_id, settings.server), traded, len(traded.access_token))
        return traded

    def _form(self, settings: TokenExchange, user_id: str, now: float) -> dict[str, str]:
        form = {
            "grant_type": _GRANT,
            "subject_token": self._signer.sign(self._claims(settings, user_id, int(now))),
            "subject_token_type": _JWT,
            "requested_token_type": _ACCESS_TOKEN,
        }
        if settings.audience:
            form["audience"] = settings.audience
        if settings.sends_resource:
            form["resource"] = settings.url
        if settings.scopes:
            form["scope"] = " ".join(settings.scopes)
        return form

    def _claims(self, settings: TokenExchange, user_id: str, now: int) -> dict[str, Any]:
        """Return what we say of the person: who they are to us, and to their identity provider."""
        user = self._users.find(user_id)
        if user is None or user.disabled:
            raise _only_an_operator("there is no person to speak of")
        return {
            "iss": self._issuer,
            "sub": user.id,
            "aud": settings.token_url,
            "iat": now,
            "exp": now + _ASSERTION_S,
            "jti": self._new_id(),
            # RFC 9493 section 3.2.4: the name by which the provider itself knows them.
            "sub_id": {"format": "iss_sub", "iss": user.issuer, "sub": user.subject},
        }


def _only_an_operator(detail: str) -> CredentialRequired:
    return CredentialRequired(
        "The gateway has no credential for this person at the upstream server.", detail=detail
    )
