"""What the token endpoint answers to a request, and what is recorded of it (RFC 6749 section 3.2).

A further grant is one more line in `_GRANTS`: a function from a signed-in client and its form to a
`Grant`.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any
from urllib.parse import parse_qsl

from gateway.domain._value import value
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.decisions import Verdict
from gateway.domain.identity import Client
from gateway.oauth.clients import read_credentials, sign_in
from gateway.oauth.errors import ErrorCode, OAuthError
from gateway.oauth.keys import KeyRing
from gateway.oauth.resources import SCOPES, Resources
from gateway.oauth.tokens import AccessToken, mint
from gateway.ports import ClientStore

_MOST_PARAMETERS = 32
_NEVER_STORED = ("cache-control", "no-store")


@value
class TokenRequest:
    """A POST to the token endpoint."""

    body: bytes = field(repr=False)
    """The form, as it was received."""
    authorization: tuple[str, ...] = field(repr=False, default=())
    """Every `Authorization` header of the request."""
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


@value
class Issuance:
    """By what rules tokens are issued."""

    resources: Resources
    keys: KeyRing
    lifetime_s: int


@value
class Grant:
    """What a client gets a token for."""

    subject: str
    endpoint: str
    scopes: frozenset[str]


@value
class Attempt:
    """When and from where a request came, and under which id it is recorded."""

    source_ip: str
    time: float
    """Seconds since the epoch."""
    record_id: str


def respond(
    request: TokenRequest,
    attempt: Attempt,
    *,
    rules: Issuance,
    clients: ClientStore,
    token_id: str,
) -> TokenAnswer:
    """Answer `request` with a token named `token_id`, or with the reason why there is none."""
    try:
        form = _form(request)
        client = sign_in(read_credentials(_one_header(request), form), clients.find)
    except OAuthError as refusal:
        return refuse(refusal, attempt)
    try:
        grant = _grant(client, form, rules.resources)
    except OAuthError as refusal:
        refusal.client_id = client.id
        return refuse(refusal, attempt)
    token = AccessToken(
        issuer=rules.resources.public_url,
        subject=grant.subject,
        audience=rules.resources.uris[grant.endpoint],
        client_id=client.id,
        client_name=client.name,
        scopes=grant.scopes,
        groups=client.groups,
        issued_at=int(attempt.time),
        expires_at=int(attempt.time) + rules.lifetime_s,
        token_id=token_id,
    )
    return _issue(token, grant.endpoint, attempt, rules)


def refuse(
    refusal: OAuthError, attempt: Attempt, *, retry_after_s: int | None = None
) -> TokenAnswer:
    """Answer with `refusal` (RFC 6749 section 5.2)."""
    sign_in_failed = refusal.error in {ErrorCode.INVALID_CLIENT, ErrorCode.RATE_LIMITED}
    fields: dict[str, Any] = {
        "verdict": Verdict.DENY.value,
        "code": refusal.error.value,
        "reasons": [{"code": refusal.error.value, "message": refusal.detail or refusal.public}],
    }
    if refusal.client_id:
        fields["client"] = refusal.client_id
    headers = [_NEVER_STORED]
    if refusal.error is ErrorCode.INVALID_CLIENT:
        headers.append(("www-authenticate", 'Basic realm="douane", charset="UTF-8"'))
    if retry_after_s is not None:
        headers.append(("retry-after", str(retry_after_s)))
    return TokenAnswer(
        status=refusal.error.status,
        headers=tuple(headers),
        body={"error": refusal.error.value, "error_description": refusal.public},
        record=_record(RecordKind.AUTH if sign_in_failed else RecordKind.TOKEN, attempt, fields),
    )


def _issue(token: AccessToken, endpoint: str, attempt: Attempt, rules: Issuance) -> TokenAnswer:
    """Answer with `token` (RFC 6749 section 5.1); what is recorded is its name alone."""
    scope = " ".join(name for name in SCOPES if name in token.scopes)
    reason = {"code": "issued", "message": f"scope {scope}, for {rules.lifetime_s} s"}
    fields = {
        "principal": token.subject,
        "client": token.client_id,
        "endpoint": endpoint,
        "token_id": token.token_id,
        "verdict": Verdict.ALLOW.value,
        "reasons": [reason],
    }
    return TokenAnswer(
        status=200,
        headers=(_NEVER_STORED,),
        body={
            "access_token": mint(token, rules.keys),
            "token_type": "Bearer",
            "expires_in": rules.lifetime_s,
            "scope": scope,
        },
        record=_record(RecordKind.TOKEN, attempt, fields),
    )


def _record(kind: RecordKind, attempt: Attempt, fields: Mapping[str, Any]) -> AuditRecord:
    told = {"method": "oauth/token", "source_ip": attempt.source_ip, **fields}
    return AuditRecord(kind=kind, time=attempt.time, id=attempt.record_id, fields=told)


def _form(request: TokenRequest) -> dict[str, str]:
    """Return the parameters, each present once and with a value (RFC 6749 section 3.2)."""
    if request.query:
        # A secret in a URL ends up in logs: nothing may stand there (RFC 6749 section 2.3.1).
        raise OAuthError(ErrorCode.INVALID_REQUEST, "parameters belong in the form")
    try:
        pairs = parse_qsl(
            request.body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(request.body),
            errors="strict",
            max_num_fields=_MOST_PARAMETERS,
        )
    except ValueError:
        # Without a cause: the text of the error could hold a piece of the secret.
        raise OAuthError(ErrorCode.INVALID_REQUEST, "the form cannot be read") from None
    form = dict(pairs)
    if len(form) != len(pairs):
        several = sum(name == "resource" for name, _ in pairs) > 1
        # Several resources are legal (RFC 8707 section 2), but a token is for exactly one.
        raise OAuthError(
            ErrorCode.INVALID_TARGET if several else ErrorCode.INVALID_REQUEST,
            "a token is for one resource" if several else "a parameter is repeated",
        )
    return {name: text for name, text in form.items() if text}


def _one_header(request: TokenRequest) -> str | None:
    if len(request.authorization) > 1:
        raise OAuthError(ErrorCode.INVALID_REQUEST, "more than one Authorization header")
    return request.authorization[0] if request.authorization else None


def _grant(client: Client, form: Mapping[str, str], resources: Resources) -> Grant:
    kind = form.get("grant_type")
    if kind is None:
        raise OAuthError(ErrorCode.INVALID_REQUEST, "grant_type is required")
    if kind not in _GRANTS:
        raise OAuthError(ErrorCode.UNSUPPORTED_GRANT_TYPE, "there is no such grant")
    if kind not in client.grants:
        raise OAuthError(ErrorCode.UNAUTHORIZED_CLIENT, "the client may not use this grant")
    return _GRANTS[kind](client, form, resources)


def _client_credentials(client: Client, form: Mapping[str, str], resources: Resources) -> Grant:
    """RFC 6749 section 4.4: the client acts for itself."""
    endpoint = _endpoint(client, form.get("resource"), resources)
    asked = form.get("scope")
    return Grant(
        subject=client.id, endpoint=endpoint, scopes=_scopes(client, asked, resources, endpoint)
    )


def _endpoint(client: Client, resource: str | None, resources: Resources) -> str:
    """Return the endpoint to make a token for; one must be named unless there is just one."""
    allowed = client.resources & resources.uris.keys()
    if resource is None:
        if len(allowed) != 1 or len(client.resources) != 1:
            raise OAuthError(ErrorCode.INVALID_TARGET, "resource is required")
        return next(iter(allowed))
    endpoint = resources.endpoint_of(resource)
    if endpoint is None or endpoint not in allowed:
        raise OAuthError(ErrorCode.INVALID_TARGET, "no such resource for this client")
    return endpoint


def _scopes(
    client: Client, asked: str | None, resources: Resources, endpoint: str
) -> frozenset[str]:
    """Return what of `asked` the client may have; without a wish, all it may have.

    What exists but is not the client's is left out, and the answer says so (RFC 6749 section 3.3):
    a client of MCP asks for all that the endpoint's challenge lists.
    """
    possible = client.scopes & set(resources.scopes_of(endpoint))
    wanted = set(SCOPES) if asked is None else set(asked.split(" "))
    if not wanted <= set(SCOPES):
        raise OAuthError(ErrorCode.INVALID_SCOPE, "there is no such scope")
    if not possible & wanted:
        raise OAuthError(ErrorCode.INVALID_SCOPE, "the client may have none of these scopes")
    return frozenset(possible & wanted)


_GRANTS: dict[str, Callable[[Client, Mapping[str, str], Resources], Grant]] = {
    "client_credentials": _client_credentials,
}

GRANT_TYPES = tuple(_GRANTS)
"""What `grant_type` may be."""
