"""Where clients' forms come in: bounded, read once, judged in a thread, answered once recorded."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Final, Protocol

from gateway.domain.identity import Client, Proof
from gateway.domain.throttle import Throttle, Throttles
from gateway.errors import (
    AuditUnavailable,
    EgressRefused,
    IdentityUnavailable,
    PolicyUnavailable,
    Unsealable,
    UpstreamFailed,
)
from gateway.oauth.client_authentication import read_presented
from gateway.oauth.errors import ErrorCode, OAuthError
from gateway.oauth.protocol import Attempt, IssuerKey, ProtocolRequest, read_parameters
from gateway.oauth.records import Granted, TokenAnswer, TokenRequest, accept, refuse
from gateway.ports import AuditLog, Clock

Judge = Callable[[ProtocolRequest], Granted]
"""Says yes, or raises `OAuthError`; runs in a thread of `_JUDGES`."""

ProofReader = Callable[[TokenRequest], Proof | None]
"""Reads which key a request's sender proves to hold, or raises `OAuthError`."""

KeySource = Callable[[Mapping[str, str]], Awaitable[IssuerKey | None]]
"""Fetches what a form's assertion is to be verified with."""

_JUDGES: Final = ThreadPoolExecutor(thread_name_prefix="douane-judges")
"""Of this process. A judge may wait for what the loop does, and that for a thread of the loop's own pool:
if judges were in that pool, so many of them at once would wait for ever, and everybody else with them.
"""

_FAULTS = (
    AuditUnavailable,
    EgressRefused,
    IdentityUnavailable,
    PolicyUnavailable,
    Unsealable,
    UpstreamFailed,
)
"""Whatever the answer rests on cannot be read or written now."""


class Directory(Protocol):
    """Every client there is."""

    async def resolve(self, client_id: str, source_ip: str) -> Client | None:
        """Return the client of that id, as it is now."""
        ...


FAILED_SIGN_INS_A_MINUTE = 20
"""From one address."""


def failed_sign_ins(throttles: Throttles | None = None) -> Throttle:
    """Return the bound on guessing secrets at the authorization server, with what was counted by now."""
    found = throttles or Throttles()
    return found.of("failed sign-ins", allowed=FAILED_SIGN_INS_A_MINUTE, window_s=60.0)


def no_proof(request: TokenRequest) -> None:
    """Read nothing: only at the token endpoint is there something to bind to a key."""
    del request


async def no_key(form: Mapping[str, str]) -> None:
    """Fetch nothing: most endpoints take no assertion of an identity provider."""
    del form


class Intake:
    """What the token endpoint and its neighbours have in common.

    They share one bound on failed sign-ins: a secret that is guessed at one is guessed at all.
    """

    def __init__(
        self,
        *,
        directory: Directory,
        audit: AuditLog,
        clock: Clock,
        new_id: Callable[[], str],
        throttles: Throttles | None = None,
    ) -> None:
        self._directory = directory
        self._audit = audit
        self._clock = clock
        self._new_id = new_id
        self._failures = failed_sign_ins(throttles)

    async def answer(
        self,
        request: TokenRequest,
        method: str,
        judge: Judge,
        *,
        key_source: KeySource = no_key,
        proof_of: ProofReader = no_proof,
        bound: Throttle | None = None,
    ) -> TokenAnswer:
        """Return what `judge` makes of `request` once it is on record, else a 503.

        With `bound`, every request of an address counts, also one that is granted.
        """
        attempt = Attempt(source_ip=request.source_ip, time=self._clock(), record_id=self._new_id())
        wait_s = self._wait_s(attempt, bound)
        if wait_s:
            # Before the secret is looked at: a right guess must not stand out.
            refusal = OAuthError(ErrorCode.RATE_LIMITED, "too many failed sign-ins or requests")
            answer = refuse(refusal, method, attempt, retry_after_s=wait_s)
        else:
            reading = self._read(request, attempt, key_source, proof_of)
            answer = await self._judged(reading, attempt, method, judge)
        if answer.status == ErrorCode.INVALID_CLIENT.status:
            self._failures.note(attempt.source_ip, attempt.time)
        try:
            await self._audit.append(answer.record)
        except AuditUnavailable as fault:
            return refuse(_unavailable(fault.detail), method, attempt)
        return answer

    def _wait_s(self, attempt: Attempt, bound: Throttle | None) -> int:
        """Return for how many seconds the address must wait; if it need not, count the request."""
        wait_s = self._failures.wait_s(attempt.source_ip, attempt.time)
        if wait_s or bound is None:
            return wait_s
        wait_s = bound.wait_s(attempt.source_ip, attempt.time)
        if not wait_s:
            bound.note(attempt.source_ip, attempt.time)
        return wait_s

    async def _judged(
        self,
        reading: Awaitable[ProtocolRequest],
        attempt: Attempt,
        method: str,
        judge: Judge,
    ) -> TokenAnswer:
        try:
            granted = await _by_a_judge(partial(_by_known_client, judge, await reading))
        except OAuthError as refusal:
            return refuse(refusal, method, attempt)
        except _FAULTS as fault:
            return refuse(_unavailable(fault.detail or fault.public), method, attempt)
        return accept(granted, method, attempt)

    async def _read(
        self,
        request: TokenRequest,
        attempt: Attempt,
        key_source: KeySource,
        proof_of: ProofReader,
    ) -> ProtocolRequest:
        if request.query:
            # A secret in a URL ends up in logs: nothing may stand there (RFC 6749 section 2.3.1).
            raise OAuthError(ErrorCode.INVALID_REQUEST, "parameters belong in the form")
        if len(request.authorization) > 1:
            raise OAuthError(ErrorCode.INVALID_REQUEST, "more than one Authorization header")
        form = read_parameters(request.body)
        proof = proof_of(request)
        presented = read_presented(next(iter(request.authorization), None), form)
        return ProtocolRequest(
            form,
            attempt,
            presented=presented,
            known=await self._directory.resolve(presented.client_id, attempt.source_ip),
            issuer_key=await key_source(form),
            proof=proof,
            loop=asyncio.get_running_loop(),
        )


async def _by_a_judge(work: Callable[[], Granted]) -> Granted:
    """Return what `work` returns, done in a thread that the loop itself never wants."""
    in_context = partial(copy_context().run, work)
    return await asyncio.get_running_loop().run_in_executor(_JUDGES, in_context)


def _by_known_client(judge: Judge, request: ProtocolRequest) -> Granted:
    """Judge, and let a refusal name the client that it is about, if that has proved itself."""
    try:
        return judge(request)
    except OAuthError as refusal:
        refusal.told = request.told
        if request.client is not None:
            refusal.client_id = request.client.get_client_id()
        raise


def _unavailable(detail: str) -> OAuthError:
    return OAuthError(ErrorCode.TEMPORARILY_UNAVAILABLE, "try again later", detail=detail)
