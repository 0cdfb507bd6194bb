"""Of identical requests of one sender that come while the first is answered, all get its answer."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from hashlib import sha256
from typing import Final

from gateway.oauth.builtin import REFRESH_TOKEN
from gateway.oauth.errors import OAuthError
from gateway.oauth.protocol import read_parameters
from gateway.oauth.records import TokenAnswer, TokenRequest

Answering = Callable[[TokenRequest], Awaitable[TokenAnswer]]

_PROVEN_BY: Final = frozenset({"client_secret", "client_assertion"})


class _Flight:
    """One request that is being answered, and for how many."""

    def __init__(self, answer: asyncio.Task[TokenAnswer]) -> None:
        self.answer = answer
        self.waiting = 0


class Flights:
    """What is being answered now. An answer is kept for nobody who comes when it was given."""

    def __init__(self) -> None:
        self._under_way: dict[bytes, _Flight] = {}

    async def answer(self, request: TokenRequest, answering: Answering) -> TokenAnswer:
        """Return the answer to `request`, or that to the same one which is under way.

        One that is given to several is nobody's to lose: it says of no token that it used it.
        """
        key = _key_of(request)
        flight = self._under_way.get(key)
        if flight is None:
            task = asyncio.ensure_future(answering(request))
            flight = self._under_way[key] = _Flight(task)
            task.add_done_callback(lambda _: self._under_way.pop(key))
        flight.waiting += 1
        # Whoever goes takes nothing from those who wait with them.
        given = await asyncio.shield(flight.answer)
        return given if flight.waiting == 1 else replace(given, used="")


def is_shared(request: TokenRequest) -> bool:
    """Whether `request` may have an answer in common with others of the same bytes.

    It is a refresh by a client that proves nothing: a proof is good for one request.
    """
    if request.authorization or request.proofs or request.query:
        return False
    try:
        form = read_parameters(request.body)
    except OAuthError:
        return False
    return form.get("grant_type") == REFRESH_TOKEN and _PROVEN_BY.isdisjoint(form)


def _key_of(request: TokenRequest) -> bytes:
    return sha256(request.source_ip.encode() + b"\0" + request.body).digest()
