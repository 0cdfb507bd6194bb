"""Saying yes or no to a device that waits for a person with a browser (RFC 8628 section 3.3)."""

import asyncio
from collections.abc import Callable

from gateway.domain.decisions import Verdict
from gateway.domain.grants import DeviceRequest, DeviceStatus, Grant
from gateway.domain.identity import User
from gateway.ports import Clock
from gateway.ports.buckets import SharedThrottle
from gateway.ports.grants import GrantStore
from gateway.signin.browser import Browser
from gateway.signin.errors import NoSuchCode, Throttled
from gateway.signin.journal import Event, Journal
from gateway.signin.throttle import Attempts

_MOST_CODE_CHARACTERS = 32


def user_code(typed: str) -> str:
    """Return the code that a person means by what they typed: case and punctuation are theirs."""
    return "".join(filter(str.isalnum, typed.upper()))[:_MOST_CODE_CHARACTERS]


class Devices:
    """Finds what waits for a user code, and answers it."""

    def __init__(
        self,
        grants: GrantStore,
        journal: Journal,
        *,
        clock: Clock,
        new_id: Callable[[], str],
        grant_lifetime_s: float,
        shared: SharedThrottle | None = None,
    ) -> None:
        """Wrong codes count at all gateways together, where they have a `shared` throttle."""
        self._grants = grants
        self._journal = journal
        self._clock = clock
        self._new_id = new_id
        self._grant_lifetime_s = grant_lifetime_s
        # RFC 8628 section 5.1: the code is short, so guesses have to be few.
        self._attempts = Attempts(clock, by_address=20, by_target=10, shared=shared, what="device")

    async def waiting(self, typed: str, user: User, browser: Browser) -> DeviceRequest:
        """Return the pending request whose user code `user` typed.

        Raises:
            NoSuchCode: There is none.
            Throttled: Too many wrong codes, by this person or from this address.

        """
        try:
            return await self._found(user_code(typed), user, browser)
        except (NoSuchCode, Throttled) as refusal:
            await self._record(refusal.code, Verdict.DENY, user, browser)
            refusal.recorded = True
            raise

    async def answer(
        self, request: DeviceRequest, user: User, browser: Browser, *, yes: bool
    ) -> None:
        """Let the device act for `user`, or not. Either is said once.

        Raises:
            NoSuchCode: Somebody answered before, or it has expired.

        """
        code, verdict = (
            ("device_approved", Verdict.ALLOW) if yes else ("device_denied", Verdict.DENY)
        )
        await self._record(code, verdict, user, browser, request)
        now = self._clock()
        grant = Grant(
            id=self._new_id(),
            user_id=user.id,
            client_id=request.client_id,
            endpoint=request.endpoint,
            scopes=request.scopes,
            created_at=now,
            expires_at=now + self._grant_lifetime_s,
        )
        answered = await asyncio.to_thread(
            self._grants.answer_device,
            request.device_hash,
            DeviceStatus.APPROVED if yes else DeviceStatus.DENIED,
            grant if yes else None,
            now=now,
        )
        if not answered:
            raise NoSuchCode

    async def _found(self, code: str, user: User, browser: Browser) -> DeviceRequest:
        await self._attempts.begin(browser.source_ip, user.id)
        request = await asyncio.to_thread(self._grants.device_of, code, now=self._clock())
        if request is None:
            raise NoSuchCode
        await self._attempts.take_back(browser.source_ip, user.id)
        return request

    async def _record(
        self,
        code: str,
        verdict: Verdict,
        user: User,
        browser: Browser,
        request: DeviceRequest | None = None,
    ) -> None:
        await self._journal.write(
            Event(
                code=code,
                method="device",
                source_ip=browser.source_ip,
                verdict=verdict,
                user=user,
                client=request.client_id if request else "",
                endpoint=request.endpoint if request else "",
                message=" ".join(sorted(request.scopes)) if request else "",
            )
        )
