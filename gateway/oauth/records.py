"""What an endpoint answers, and what is written down of it before it is given."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from gateway.domain._value import value
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.decisions import Verdict
from gateway.oauth.errors import ErrorCode, OAuthError
from gateway.oauth.protocol import Attempt

_NEVER_STORED = ("cache-control", "no-store")
_RETRY_S = 5
"""Seconds after which what could not be said may be asked again."""
_SIGN_IN_FAILED = frozenset({ErrorCode.INVALID_CLIENT, ErrorCode.RATE_LIMITED})
# Nothing was decided: a device asks every few seconds until a person has.
_UNDECIDED = frozenset({ErrorCode.AUTHORIZATION_PENDING, ErrorCode.SLOW_DOWN})


@value
class TokenRequest:
    """A POST to the token endpoint, or to one of those at which clients prove themselves alike."""

    body: bytes = field(repr=False)
    """The form, as it was received."""
    authorization: tuple[str, ...] = field(repr=False, default=())
    """Every `Authorization` header of the request."""
    proofs: tuple[str, ...] = field(repr=False, default=())
    """Every `DPoP` header of the request (RFC 9449 section 4.1)."""
    query: bytes = field(repr=False, default=b"")
    """What stood behind `?`: must be nothing."""
    source_ip: str


@value
class TokenAnswer:
    """What to answer, once `record` is durable."""

    status: int
    headers: tuple[tuple[str, str], ...]
    """Lower-case names."""
    body: Mapping[str, Any] = field(repr=False)
    record: AuditRecord
    used: str = ""
    """The hash of the refresh token whose successor it gives; empty where there is none."""


@value
class Granted:
    """What an endpoint says yes with."""

    body: Mapping[str, Any] = field(repr=False)
    told: Mapping[str, Any]
    """Fields of its record."""
    code: str
    """What happened, in a word: `issued`."""
    message: str
    used: str = ""
    """See `TokenAnswer`."""


def accept(granted: Granted, method: str, attempt: Attempt) -> TokenAnswer:
    """Answer with `granted` (RFC 6749 section 5.1)."""
    fields = {
        **granted.told,
        "verdict": Verdict.ALLOW.value,
        "reasons": [{"code": granted.code, "message": granted.message}],
    }
    return TokenAnswer(
        status=200,
        headers=(_NEVER_STORED,),
        body=granted.body,
        record=_record(RecordKind.TOKEN, method, attempt, fields),
        used=granted.used,
    )


def refuse(
    refusal: OAuthError, method: str, attempt: Attempt, *, retry_after_s: int | None = None
) -> TokenAnswer:
    """Answer with `refusal` (RFC 6749 section 5.2)."""
    code = refusal.error.value
    fields: dict[str, Any] = {
        **refusal.told,
        **({} if refusal.error in _UNDECIDED else {"verdict": Verdict.DENY.value}),
        "code": code,
        "reasons": [{"code": refusal.reason, "message": refusal.detail or refusal.public}],
    }
    if refusal.client_id:
        fields["client"] = refusal.client_id
    headers = [_NEVER_STORED]
    if refusal.error is ErrorCode.INVALID_CLIENT:
        headers.append(("www-authenticate", 'Basic realm="douane", charset="UTF-8"'))
    if refusal.error is ErrorCode.INVALID_TOKEN:
        headers.append(("www-authenticate", 'Bearer realm="douane", error="invalid_token"'))
    if refusal.error is ErrorCode.TEMPORARILY_UNAVAILABLE:
        retry_after_s = retry_after_s or _RETRY_S
    if retry_after_s is not None:
        headers.append(("retry-after", str(retry_after_s)))
    kind = RecordKind.AUTH if refusal.error in _SIGN_IN_FAILED else RecordKind.TOKEN
    return TokenAnswer(
        status=refusal.error.status,
        headers=tuple(headers),
        body={"error": code, "error_description": refusal.public},
        record=_record(kind, method, attempt, fields),
    )


def _record(
    kind: RecordKind, method: str, attempt: Attempt, fields: Mapping[str, Any]
) -> AuditRecord:
    told = {"method": method, "source_ip": attempt.source_ip, **fields}
    return AuditRecord(kind=kind, time=attempt.time, id=attempt.record_id, fields=told)
